//! The kernel's map, as its difference from the map before.

use samara_linux::maps::{Area, Map};
use samara_record::{Fields, put, put_text};

/// The difference of a map from the one before it: areas kept in front, new ones, areas kept
/// behind.
#[derive(Debug)]
pub struct MapChange {
    pub(crate) front: usize,
    pub(crate) behind: usize,
    pub(crate) areas: Map,
}

/// Writes the kernel's map as its difference from `before`.
pub(super) fn put_map(out: &mut Vec<u8>, map: &Map, before: &Map) {
    let same = |a: &Area, b: &Area| {
        (a.start, a.end, a.perms, a.offset, a.major, a.minor, a.inode)
            == (b.start, b.end, b.perms, b.offset, b.major, b.minor, b.inode)
            && map.name(a) == before.name(b)
    };
    let (new, old) = (map.areas(), before.areas());
    let front = new.iter().zip(old).take_while(|(a, b)| same(a, b)).count();
    let behind = new[front..]
        .iter()
        .rev()
        .zip(old[front..].iter().rev())
        .take_while(|(a, b)| same(a, b))
        .count();
    put(out, front as u64);
    put(out, behind as u64);
    put(out, (new.len() - front - behind) as u64);
    for area in &new[front..new.len() - behind] {
        put(out, area.start);
        put(out, area.end - area.start);
        out.extend_from_slice(&area.perms);
        put(out, area.offset);
        put(out, u64::from(area.major));
        put(out, u64::from(area.minor));
        put(out, area.inode);
        put_text(out, map.name(area));
    }
}

pub(super) fn map_change(fields: &mut Fields<'_>) -> Option<MapChange> {
    let front = usize::try_from(fields.number()?).ok()?;
    let behind = usize::try_from(fields.number()?).ok()?;
    let mut areas = Map::default();
    for _ in 0..fields.count()? {
        let start = fields.number()?;
        let end = start.checked_add(fields.number()?)?;
        let perms = [
            fields.byte()?,
            fields.byte()?,
            fields.byte()?,
            fields.byte()?,
        ];
        let offset = fields.number()?;
        let id = (fields.small()?, fields.small()?, fields.number()?);
        areas.push(Area::new(start, end, perms, offset, id), fields.raw()?);
    }
    Some(MapChange {
        front,
        behind,
        areas,
    })
}
