//! Compares the two sides after a step, and tells what differs.

use samara_mm::{AddressSpace, MapsLine, SharedMap, VmFlags};

use super::features::{shows_guarded, shows_lock_on_fault};
use crate::kernel::Step;
use crate::kernel::look::KArea;

pub(super) fn show(result: i64) -> String {
    match result {
        -4095..0 => samara_mm::Errno(-result as i32).to_string(),
        _ => format!("{result:#x}"),
    }
}

pub(super) fn compare_maps(
    space: &AddressSpace,
    shared: Option<&SharedMap>,
    kernel: &Step,
) -> Option<String> {
    let view = shared.map(SharedMap::read);
    let mut in_view = view.iter().flat_map(|view| view.maps(space.layout()));
    let mut in_place = space.maps();
    let engine: &mut dyn Iterator<Item = MapsLine<'_>> = match shared {
        Some(_) => &mut in_view,
        None => &mut in_place,
    };
    let mut theirs = kernel.areas.iter().filter(|a| a.start < 1 << 63);
    for index in 0.. {
        let (line, area) = (engine.next(), theirs.next());
        let same = match (&line, area) {
            (None, None) => return None,
            (Some(line), Some(area)) => {
                let perms = line
                    .perms
                    .iter()
                    .zip([b'r', b'w', b'x', b's'])
                    .enumerate()
                    .fold(0, |bits, (n, (have, want))| {
                        bits | u64::from(*have == want) << n
                    });
                let huge = line.flags.contains(VmFlags::HUGETLB);
                let named = !huge || line.name != "/anon_hugepage (deleted)";
                let anonymous_object = !named || (line.id.major, line.id.minor) == (0, 1);
                line.start == area.start
                    && line.end == area.end
                    && perms == area.perms
                    && (!named || (line.id.major, line.id.minor) == area.dev)
                    && (anonymous_object || line.id.inode == area.inode)
                    // The kernel shows an offset only for files.
                    && (line.offset == area.offset || area.inode == 0)
            }
            _ => false,
        };
        if !same {
            return Some(format!(
                "maps differ\n{}",
                side_by_side(space, &kernel.areas, index)
            ));
        }
    }
    None
}

pub(super) fn compare_flags(space: &AddressSpace, kernel: &Step) -> Option<String> {
    // Kernels that track writes mark areas for it, whatever is done with them.
    let mut unseen = VmFlags::SOFTDIRTY;
    unseen.set(VmFlags::GUARDED, !shows_guarded());
    unseen.set(VmFlags::LOCKONFAULT, !shows_lock_on_fault());
    space.maps().zip(&kernel.areas).find_map(|(line, area)| {
        let theirs = VmFlags::from_bits_retain(area.flags);
        if line.flags - unseen == theirs - VmFlags::SOFTDIRTY {
            return None;
        }
        let names = |flags: VmFlags| flags.smaps_names().collect::<Vec<_>>().join(" ");
        Some(format!(
            "flags of {:x}-{:x}: kernel {} (key {}), engine {} (key {})",
            area.start,
            area.end,
            names(theirs),
            theirs.pkey(),
            names(line.flags),
            line.flags.pkey(),
        ))
    })
}

/// Returns the areas of both from three below the one at `index`, the first that differs.
fn side_by_side(space: &AddressSpace, kernel: &[KArea], index: usize) -> String {
    let engine: Vec<String> = space
        .areas()
        .map(|a| {
            format!(
                "{:x}-{:x} {:?} {:x} {:?}",
                a.start,
                a.end,
                String::from_utf8_lossy(&space.area_at(a.start).unwrap().perms),
                a.page_offset(),
                a.vma.anon()
            )
        })
        .collect();
    let theirs: Vec<String> = kernel
        .iter()
        .map(|a| {
            let p: String = "rwxs"
                .chars()
                .enumerate()
                .map(|(i, c)| if a.perms >> i & 1 != 0 { c } else { '-' })
                .collect();
            format!(
                "{:x}-{:x} {p} {:x} {}",
                a.start,
                a.end,
                a.offset >> 12,
                a.inode
            )
        })
        .collect();
    let mut out =
        String::from("  kernel                                                  engine\n");
    let first = index.saturating_sub(3);
    for i in first..(first + 12).min(engine.len().max(theirs.len())) {
        let none = String::new();
        let (t, e) = (
            theirs.get(i).unwrap_or(&none),
            engine.get(i).unwrap_or(&none),
        );
        out += &format!("  {t:<55} {e}\n");
    }
    out
}
