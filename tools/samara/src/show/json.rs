//! The output for programs. Addresses are strings: JSON's numbers do not hold 64 bits everywhere.

use samara_linux::smaps::Figures;
use serde_json::{Value, json};

use super::fork::Fork;
use super::snapshot::{Border, Snapshot};

fn figures(figures: &Figures) -> Value {
    json!({
        "resident": figures.resident,
        "proportional": figures.proportional,
        "shared_clean": figures.shared_clean,
        "shared_dirty": figures.shared_dirty,
        "private_clean": figures.private_clean,
        "private_dirty": figures.private_dirty,
        "referenced": figures.referenced,
        "anonymous": figures.anonymous,
        "huge": figures.huge(),
        "hugetlb": figures.hugetlb,
        "swapped": figures.swapped,
        "locked": figures.locked,
    })
}

/// Returns all of it.
pub(super) fn snapshot(snapshot: &Snapshot) -> Result<Value, String> {
    let (kinds, all) = snapshot.sums();
    let known = snapshot.known;
    let sum = |sum: &super::snapshot::Sum| {
        json!({
            "areas": sum.areas,
            "bytes": sum.bytes,
            "memory": known.then(|| figures(&sum.figures)),
        })
    };
    let areas: Vec<Value> = snapshot
        .areas()
        .zip(&snapshot.borders)
        .map(|((area, kind, told), border)| {
            json!({
                "start": format!("{:#x}", area.start),
                "end": format!("{:#x}", area.end),
                "permissions": String::from_utf8_lossy(&area.perms),
                "offset": area.offset,
                "device": format!("{:02x}:{:02x}", area.major, area.minor),
                "inode": area.inode,
                "name": String::from_utf8_lossy(snapshot.map.name(area)),
                "kind": kind,
                "memory": told.map(figures),
                "apart": border.map(Border::text),
            })
        })
        .collect();
    let gaps: Vec<Value> = snapshot
        .gaps()
        .iter()
        .map(
            |gap| json!({ "start": format!("{:#x}", gap.start), "end": format!("{:#x}", gap.end) }),
        )
        .collect();
    let stats = snapshot.engine()?.stats();
    Ok(json!({
        "subject": snapshot.title,
        "threads": snapshot.threads,
        "kinds": kinds
            .iter()
            .map(|(kind, of)| (kind.name().to_owned(), sum(of)))
            .collect::<serde_json::Map<String, Value>>(),
        "all": sum(&all),
        "areas": areas,
        "areas_limit": snapshot.config.max_map_count,
        "gaps": gaps,
        "borders": snapshot
            .border_counts()
            .into_iter()
            .map(|(border, count)| (border.text().to_owned(), count.into()))
            .collect::<serde_json::Map<String, Value>>(),
        "tree": { "levels": stats.tree_height, "bytes": stats.tree_bytes },
        "page_table_bytes": snapshot.table_bytes,
        "fork_estimate": Fork::of(snapshot),
    }))
}
