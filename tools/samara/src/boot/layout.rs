//! The layout as data, as a table and as JSON.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use samara_memblock::firmware::Problem;
use samara_memblock::firmware::devicetree::DynamicReservation;
use samara_memblock::{Filter, Flags, Memblock, NodeId, Region};
use serde::{Serialize, Serializer};

use super::numbers::human;
use super::source::Map;

/// Addresses are strings: JSON's numbers do not hold 64 bits everywhere.
fn as_hex<S: Serializer>(n: &u64, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&format!("{n:#x}"))
}

fn as_optional_hex<S: Serializer>(n: &Option<u64>, s: S) -> Result<S::Ok, S::Error> {
    match n {
        Some(n) => as_hex(n, s),
        None => s.serialize_none(),
    }
}

/// A range with what it carries.
#[derive(Debug, Serialize)]
struct Piece {
    #[serde(serialize_with = "as_hex")]
    base: u64,
    /// The last address, not the first after it.
    #[serde(serialize_with = "as_hex")]
    last: u64,
    size: u64,
    node: Option<i32>,
    flags: Vec<&'static str>,
}

/// An allocation that was asked for.
#[derive(Debug, Serialize)]
pub(super) struct Allocation {
    pub(super) size: u64,
    pub(super) align: u64,
    /// Its address, if there was memory for it.
    #[serde(serialize_with = "as_optional_hex")]
    pub(super) base: Option<u64>,
}

/// A reservation to which the map gives no address.
#[derive(Debug, Serialize)]
pub(super) struct Placement {
    name: String,
    size: u64,
    align: u64,
    no_map: bool,
    reusable: bool,
    /// Its address, if one of its ranges had space.
    #[serde(serialize_with = "as_optional_hex")]
    pub(super) base: Option<u64>,
}

impl Placement {
    pub(super) fn of(wanted: &DynamicReservation<'_>, base: Option<u64>) -> Self {
        Placement {
            name: wanted.name.to_owned(),
            size: wanted.size,
            align: wanted.alignment,
            no_map: wanted.no_map,
            reusable: wanted.reusable,
            base,
        }
    }
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub(super) struct Layout {
    source: String,
    format: &'static str,
    memory_bytes: u64,
    reserved_bytes: u64,
    free_bytes: u64,
    memory: Vec<Piece>,
    reserved: Vec<Piece>,
    free: Vec<Piece>,
    placed: Vec<Placement>,
    allocations: Vec<Allocation>,
    problems: Vec<String>,
}

fn names(flags: Flags) -> Vec<&'static str> {
    let all = [
        (Flags::HOTPLUG, "hotplug"),
        (Flags::MIRROR, "mirror"),
        (Flags::NOMAP, "nomap"),
        (Flags::DRIVER_MANAGED, "driver-managed"),
        (Flags::RSRV_NOINIT, "noinit"),
    ];
    all.into_iter()
        .filter(|(flag, _)| flags.contains(*flag))
        .map(|(_, name)| name)
        .collect()
}

fn piece(base: u64, end: u64, nid: NodeId, flags: Flags) -> Piece {
    Piece {
        base,
        last: end - 1,
        size: end - base,
        node: nid.is_valid().then_some(nid.0),
        flags: names(flags),
    }
}

fn pieces(regions: &[Region]) -> Vec<Piece> {
    regions
        .iter()
        .map(|r| piece(r.base, r.end(), r.nid, r.flags))
        .collect()
}

impl Layout {
    pub(super) fn of(
        map: &Map,
        boot: &Memblock<'_>,
        problems: &[Problem],
        placed: Vec<Placement>,
        allocations: Vec<Allocation>,
    ) -> Self {
        // What may be allocated: without what must not be mapped.
        let flags = Filter::ALL.flags.difference(Flags::NOMAP);
        let free: Vec<Piece> = boot
            .free_ranges(NodeId::NONE, flags)
            .map(|s| piece(s.start, s.end, s.nid, Flags::NONE))
            .collect();
        Layout {
            source: map.name.clone(),
            format: map.format(),
            memory_bytes: boot.phys_mem_size(),
            reserved_bytes: boot.reserved_size(),
            free_bytes: free.iter().map(|p| p.size).sum(),
            memory: pieces(boot.memory()),
            reserved: pieces(boot.reserved()),
            free,
            placed,
            allocations,
            problems: problems.iter().map(ToString::to_string).collect(),
        }
    }

    pub(super) fn json(&self) -> Result<String, String> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| format!("cannot write JSON: {error}"))?;
        Ok(text + "\n")
    }

    pub(super) fn text(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_BORDERS_ONLY);
        table.set_header(["", "first", "last", "size", "node", "flags"]);
        for (kind, pieces) in [
            ("memory", &self.memory),
            ("reserved", &self.reserved),
            ("free", &self.free),
        ] {
            for (i, p) in pieces.iter().enumerate() {
                table.add_row([
                    if i == 0 {
                        kind.to_owned()
                    } else {
                        String::new()
                    },
                    format!("{:#014x}", p.base),
                    format!("{:#014x}", p.last),
                    human(p.size),
                    p.node.map_or_else(String::new, |n| n.to_string()),
                    p.flags.join(" "),
                ]);
            }
        }
        for column in table.column_iter_mut().skip(3).take(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let mut text = format!("{} ({})\n{table}\n", self.source, self.format);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "memory {}, reserved {}, free {}",
            human(self.memory_bytes),
            human(self.reserved_bytes),
            human(self.free_bytes)
        );
        let found = |base: Option<u64>| {
            base.map_or_else(|| "no memory".to_owned(), |base| format!("at {base:#x}"))
        };
        for p in &self.placed {
            let flags = [(p.no_map, ", not mapped"), (p.reusable, ", reusable")];
            let flags = flags.into_iter().filter(|(set, _)| *set);
            let _ = writeln!(
                text,
                "placed {}, {} aligned to {}{}: {}",
                p.name,
                human(p.size),
                human(p.align),
                flags.map(|(_, name)| name).collect::<String>(),
                found(p.base)
            );
        }
        for a in &self.allocations {
            let place = found(a.base);
            let _ = writeln!(
                text,
                "allocated {} aligned to {}: {place}",
                human(a.size),
                human(a.align)
            );
        }
        for problem in &self.problems {
            let _ = writeln!(text, "odd: {problem}");
        }
        text
    }
}
