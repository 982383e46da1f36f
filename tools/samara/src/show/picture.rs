//! An address space at one moment, as a picture.

use samara_mm::VmFlags;
use samara_tracer::kernel::Kernel;

use super::snapshot::Snapshot;
use crate::picture::{Film, Held, Shown};

/// Returns a film of one step.
pub(super) fn film(snapshot: &Snapshot) -> Film {
    let areas = snapshot
        .areas()
        .enumerate()
        .map(|(i, (area, kind, figures))| Shown {
            start: area.start,
            end: area.end,
            offset: area.offset,
            kind,
            perms: area.perms,
            name: String::from_utf8_lossy(snapshot.map.name(area)).into_owned(),
            flags: snapshot.told.get(i).map_or(VmFlags::empty(), |told| told.0),
            held: figures.map(|figures| Held {
                resident: figures.resident + figures.hugetlb,
                dirty: figures.dirty(),
                swapped: figures.swapped,
            }),
        });
    Film::of_moment(&snapshot.title, &Kernel::running().release, areas)
}
