//! The engine's smaps of a process: the map from its trace, the pages that the kernel has in memory.

use samara_mm::process::{Hosted, Inode, Machine, PAGE_BYTES, PageSource, Process};
use samara_mm::walkers::PinFlags;
use samara_mm::{
    AddressSpace, Counted, Errno, File, FileKind, Limits, MapsLine, PAGE_SIZE, SeedVma, VmFlags,
};
use samara_paging::Arena;

use crate::still::Run;

/// A file of which only the size matters.
struct Blank {
    size: u64,
    memory: bool,
}

impl PageSource for Blank {
    fn read_page(&self, _: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        into.fill(0);
        Ok(())
    }

    fn write_page(&self, _: u64, _: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        Ok(())
    }

    fn punch(&self, _: u64, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn is_memory(&self) -> bool {
        self.memory
    }
}

/// Returns the area that the engine takes over. Each area has a file of its own, so that no fault
/// finds a page that another area has brought in.
fn seed(line: &MapsLine<'_>) -> SeedVma {
    let shmem = [
        "/dev/zero (deleted)",
        "/memfd:",
        "/SYSV",
        "/dev/shm/",
        "[anon_shmem:",
    ]
    .iter()
    .any(|name| line.name.starts_with(name));
    let file = (line.id.inode != 0 || line.name.starts_with('/')).then(|| {
        let source = Blank {
            size: line.offset + (line.end - line.start),
            memory: shmem,
        };
        Counted::try_new(File {
            kind: match line.name {
                "/dev/zero" => FileKind::DevZero,
                _ if shmem => FileKind::Shmem,
                _ => FileKind::Regular,
            },
            object: Inode::object(source).unwrap(),
            ..File::new(line.id, line.name.into())
        })
        .unwrap()
    });
    let letter = |i: usize, letter, bit| u64::from(line.perms[i] == letter) * bit;
    SeedVma {
        start: line.start,
        end: line.end,
        prot: letter(0, b'r', 1) | letter(1, b'w', 2) | letter(2, b'x', 4),
        shared: line.perms[3] == b's',
        offset: line.offset,
        file,
        flags: Some(line.flags),
        name: (line.name.starts_with("[anon:") || line.name.starts_with("[v"))
            .then(|| line.name.into()),
        touched: true,
    }
}

/// Pages of these areas are the kernel's own, or a driver's.
pub(crate) fn is_foreign(flags: VmFlags, name: &str) -> bool {
    flags.intersects(VmFlags::PFNMAP | VmFlags::MIXEDMAP | VmFlags::IO)
        || name.starts_with("[v")
        || name.starts_with("[uprobes")
}

/// As the engine tells it: the map that it has followed, and in it the pages that the kernel has.
pub(crate) fn smaps(space: &AddressSpace, runs: &[Run]) -> Result<String, String> {
    let resident = runs.iter().filter(|run| run.is_resident());
    let frames: u64 = resident.map(|run| (run.end - run.start) / PAGE_SIZE).sum();
    // Tables, and the page of a file behind each private copy.
    let frames = 2 * frames as usize + 8 * (runs.len() + space.area_count()) + 256;
    let arena = Arena::on_heap(frames).map_err(|error| format!("{error:?}"))?;
    let machine: Machine<Hosted> = Machine::over(arena).map_err(|errno| errno.to_string())?;
    let (config, layout) = (space.config().clone(), space.layout());
    let mut own =
        AddressSpace::new(config, Limits::UNLIMITED, layout).map_err(|e| e.to_string())?;
    for line in space.maps() {
        own.seed(seed(&line))
            .map_err(|errno| format!("{line}: {errno}"))?;
    }
    let process = Process::of(&machine, own).map_err(|errno| errno.to_string())?;
    for run in runs.iter().filter(|run| run.is_resident()) {
        for page in (run.start..run.end).step_by(PAGE_SIZE as usize) {
            let Some(area) = space.area_at(page) else {
                return Err(format!("a page at {page:x}, where the engine has nothing"));
            };
            if is_foreign(area.flags, area.name) {
                continue;
            }
            // Private pages have been written, whatever the area allows now.
            let how = if run.is_file() {
                PinFlags::FORCE
            } else {
                PinFlags::FORCE | PinFlags::WRITE
            };
            process
                .pin(page, 1, how)
                .map_err(|errno| format!("the page at {page:x} of {area}: {errno}"))?;
        }
    }
    let mut text = String::new();
    process
        .write_smaps(&mut text)
        .map_err(|_| String::from("the engine's smaps cannot be written"))?;
    Ok(text)
}
