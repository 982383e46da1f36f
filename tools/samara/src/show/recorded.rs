//! A recording at a call.

use std::cell::OnceCell;
use std::path::Path;

use samara_linux::maps::{self, Map};
use samara_linux::smaps::Figures;
use samara_mm::{AddressSpace, Area, Obstacles, VmFlags};
use samara_tracer::quantity::number_of;
use samara_tracer::record::{Cut, Reader};
use samara_tracer::replay;

use super::kinds::{self, Hints};
use super::snapshot::{Border, Snapshot};

/// Returns the address space that performed call number `call`, or else the last call, as it was afterwards. Calls are counted over all
/// processes, as `samara replay` counts them; after call 0 is the start of the program. Also returns where the recording was interrupted, if it was.
///
/// # Errors
/// What is wrong, in a line.
pub(super) fn look(file: &Path, call: Option<u64>) -> Result<(Snapshot, Option<Cut>), String> {
    let shown = file.display();
    let reader = Reader::open(file).map_err(|damage| format!("`{shown}` {damage}"))?;
    let (number, engine) = replay::at(&reader, call).map_err(|calls| {
        let calls = number_of(calls, "call");
        format!(
            "`{shown}` has {calls} that can be performed: give a number up to that behind the @"
        )
    })?;
    let map = map(&engine);
    let flags: Vec<(VmFlags, Figures)> = engine
        .areas()
        .map(|area| (area.vma.flags, Figures::default()))
        .collect();
    let hints = Hints {
        start_brk: engine.layout().start_brk,
        stack_size: Some(engine.limits().stack)
            .filter(|&size| size != u64::MAX)
            .unwrap_or(8 << 20),
        ..Hints::default()
    };
    let mut borders = Vec::with_capacity(flags.len());
    let mut below: Option<Area<'_>> = None;
    for area in engine.areas() {
        borders.push(below.and_then(|below| {
            let found = below.obstacles(&area);
            let differing = below.vma.flags ^ area.vma.flags;
            (!found.contains(Obstacles::APART)).then(|| Border::of(found, differing))
        }));
        below = Some(area);
    }
    let last = if call.is_none() { ", the last" } else { "" };
    let snapshot = Snapshot {
        title: format!("{shown} after call {number}{last}"),
        kinds: kinds::kinds(&map, &flags, &hints),
        map,
        told: flags,
        known: false,
        borders,
        config: engine.config().clone(),
        layout: engine.layout(),
        threads: None,
        table_bytes: None,
        engine: OnceCell::from(engine),
    };
    Ok((snapshot, reader.cut))
}

/// Returns the engine's map as the kernel would print it.
fn map(engine: &AddressSpace) -> Map {
    let mut map = Map::default();
    for line in engine.maps() {
        let id = (line.id.major, line.id.minor, line.id.inode);
        let area = maps::Area::new(line.start, line.end, line.perms, line.offset, id);
        map.push(area, line.name.as_bytes());
    }
    map
}
