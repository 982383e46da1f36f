//! `samara boot`: memblock, run from a firmware's memory map.

mod guess;
mod layout;
mod numbers;
mod picture;
mod source;

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use samara_memblock::{Memblock, Storage};

use layout::{Allocation, Layout};
use numbers::{Range, Request};
use source::Map;

use crate::outcome::{complain, print};

/// Exit code: an allocation, or a reservation to which the map gives no address, found no memory.
const NO_MEMORY: i32 = 1;

/// Regions that an array can hold here: far more than any firmware lists.
const REGIONS: usize = 4096;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("map").multiple(false))]
pub(crate) struct BootOptions {
    /// A firmware's memory map (`-`: standard input). Its format is guessed; to name the format, give FILE to one of the options below instead.
    #[arg(value_name = "FILE", group = "map")]
    file: Option<PathBuf>,

    /// Read e820: a boot log (dmesg) with `BIOS-e820:` lines, or a directory as /sys/firmware/memmap.
    #[arg(long, value_name = "FILE", group = "map")]
    e820: Option<PathBuf>,

    /// Read /proc/iomem, or a copy of it.
    #[arg(long, value_name = "FILE", group = "map")]
    iomem: Option<PathBuf>,

    /// Read UEFI's map: descriptors as GetMemoryMap returns them, the shell's `memmap`, or a boot log with `efi: mem` lines.
    #[arg(long, value_name = "FILE", group = "map")]
    uefi: Option<PathBuf>,

    /// Bytes from one UEFI descriptor to the next. Guessed if not given.
    #[arg(long, value_name = "BYTES", requires = "uefi", value_parser = clap::value_parser!(u16).range(40..))]
    uefi_stride: Option<u16>,

    /// Read a flattened device tree.
    #[arg(long, value_name = "FILE", group = "map")]
    dtb: Option<PathBuf>,

    /// Reserve the addresses from A to B, B included (hexadecimal), or A+SIZE. May be repeated.
    #[arg(long, value_name = "A-B", value_parser = numbers::range)]
    reserve: Vec<Range>,

    /// Allocate SIZE bytes at a multiple of ALIGN, a power of two; as in `2M,4K`. May be repeated; allocations are made in the order given.
    #[arg(long, value_name = "SIZE,ALIGN", value_parser = numbers::request)]
    alloc: Vec<Request>,

    /// Allocate from low addresses upwards; reservations without an address are placed so, too.
    #[arg(long)]
    bottom_up: bool,

    /// Allocate only below this address (hexadecimal).
    #[arg(long, value_name = "ADDRESS", value_parser = numbers::address)]
    limit: Option<u64>,

    /// Print the layout as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command; the value is the exit code.
///
/// The storage is on the stack before it is in its box: among the commands, its 400 KiB would be touched, page by page, by all of them.
#[inline(never)]
pub(crate) fn run(options: &BootOptions) -> i32 {
    let done = carry_out(options).and_then(|(text, satisfied)| print(&text).map(|()| satisfied));
    match done {
        Ok(true) => 0,
        Ok(false) => NO_MEMORY,
        Err(text) => complain(&text),
    }
}

/// Performs the operations. Returns the text to print, and whether all allocations found memory.
fn carry_out(options: &BootOptions) -> Result<(String, bool), String> {
    let map = Map::read(options)?;
    let mut storage: Box<Storage<REGIONS>> = Box::default();
    let mut boot = Memblock::new(&mut *storage);
    let mut problems = Vec::new();
    let full = |what: &str| format!("more than {REGIONS} {what}: give a smaller map");
    map.load(&mut boot, &mut problems)
        .map_err(|_| full("regions in the map"))?;
    if boot.phys_mem_size() == 0 {
        let reason = problems
            .first()
            .map_or_else(|| "is it of another kind?".to_owned(), ToString::to_string);
        return Err(format!(
            "`{}` ({}) lists no memory: {reason}",
            map.name,
            map.format()
        ));
    }
    for range in &options.reserve {
        boot.reserve(range.base, range.size)
            .map_err(|_| full("reserved regions"))?;
    }
    boot.set_bottom_up(options.bottom_up);
    if let Some(limit) = options.limit {
        boot.set_current_limit(limit);
    }
    let placed = map.place(&mut boot);
    let allocations: Vec<Allocation> = options
        .alloc
        .iter()
        .map(|r| Allocation {
            size: r.size,
            align: r.align,
            base: boot.phys_alloc(r.size, r.align).ok(),
        })
        .collect();
    let satisfied =
        allocations.iter().all(|a| a.base.is_some()) && placed.iter().all(|p| p.base.is_some());
    let layout = Layout::of(&map, &boot, &problems, placed, allocations);
    let text = if options.json {
        layout.json()?
    } else {
        layout.text() + &picture::draw(&boot)
    };
    Ok((text, satisfied))
}
