//! Everything that an engine needs to start at the point where a program's address space is: at exec, or anew after the
//! two have parted.

use std::collections::HashMap;
use std::num::NonZeroU64;

use samara_linux::maps::Area;
use samara_mm::{
    AddressSpace, Config, Counted, DriverFlags, Errno, File, FileId, FileKind, Layout, Limits,
    Object, PMD_SIZE, SeedVma, VmFlags,
};

use crate::counted::counted;

/// The start of an address space, as plain data that can be recorded.
#[derive(Debug, Clone)]
pub struct Seed {
    /// The configuration of the machine and the process.
    pub config: Config,
    /// The resource limits.
    pub limits: Limits,
    /// The addresses that exec chose.
    pub layout: Layout,
    /// The areas, ascending.
    pub areas: Vec<SeedVma>,
}

impl Seed {
    /// Builds the engine.
    ///
    /// # Errors
    /// Those of [`AddressSpace::new`] and [`seed`](AddressSpace::seed).
    pub fn build(&self) -> Result<AddressSpace, Errno> {
        let mut space = AddressSpace::new(self.config.clone(), self.limits, self.layout)?;
        for area in &self.areas {
            space.seed(area.clone())?;
        }
        Ok(space)
    }
}

/// The files that the lines of a map name, each once.
#[derive(Debug, Default)]
pub struct Files {
    known: HashMap<(FileId, Box<str>), Counted<File>>,
}

impl Files {
    /// Returns a line of the kernel's map as the engine takes it over. `description` numbers the open file of one that was not named before; `written`
    /// tells, of an area that may have private pages, whether it has any. `stored` is the kind of a file by where it is stored, if that matters.
    pub fn area(
        &mut self,
        area: &Area,
        name: &[u8],
        flags: Option<VmFlags>,
        description: impl FnOnce() -> Option<NonZeroU64>,
        written: impl FnOnce() -> bool,
        stored: impl FnOnce() -> Option<FileKind>,
    ) -> SeedVma {
        let name = String::from_utf8_lossy(name);
        let special = area.inode == 0 && name.starts_with('[');
        let plain = matches!(&*name, "[heap]" | "[stack]");
        let id = FileId {
            major: area.major,
            minor: area.minor,
            inode: area.inode,
        };
        // Who may not look where it is stored does not see the size of its pages: most have this one.
        let huge = flags
            .filter(|flags| flags.contains(VmFlags::HUGETLB))
            .map(|_| FileKind::HugeTlb(PMD_SIZE));
        let file = (area.inode != 0 || name.starts_with('/')).then(|| {
            let entry = self.known.entry((id, (&*name).into()));
            let made = || {
                counted(File {
                    id,
                    name: (&*name).into(),
                    readable: true,
                    writable: true,
                    noexec: false,
                    kind: match kind(&name) {
                        kind @ (FileKind::Regular | FileKind::Shmem) => {
                            stored().or(huge).unwrap_or(kind)
                        }
                        kind => kind,
                    },
                    seals: 0,
                    driver: DriverFlags::default(),
                    object: Object::none(),
                    description: description(),
                })
            };
            entry.or_insert_with(made).clone()
        });
        let private = area.perms[3] == b'p';
        SeedVma {
            start: area.start,
            end: area.end,
            prot: u64::from(area.perms[0] == b'r')
                | u64::from(area.perms[1] == b'w') << 1
                | u64::from(area.perms[2] == b'x') << 2,
            shared: area.perms[3] == b's',
            offset: area.offset,
            file,
            flags,
            name: (special && !plain).then(|| (&*name).into()),
            touched: private && (!special || plain) && written(),
        }
    }
}

/// Returns the kind of a file by its name in maps and in links of `/proc`, if the name tells of a driver.
/// Such are perf events, rings of trace events in tracefs, rings of `io_uring`, and maps of BPF.
pub fn kind_of_driver(name: &[u8]) -> Option<FileKind> {
    match name {
        b"anon_inode:[perf_event]" => Some(FileKind::WholeDevice),
        b"anon_inode:[io_uring]" | b"anon_inode:bpf-map" => Some(FileKind::PlacedDevice),
        _ if name.starts_with(b"/sys/kernel/") && name.ends_with(b"/trace_pipe_raw") => {
            Some(FileKind::WholeDevice)
        }
        _ => None,
    }
}

/// The name of a file of `memfd_secret` in maps.
const SECRET: &str = "/secretmem (deleted)";

fn kind(name: &str) -> FileKind {
    if name == "/dev/zero" {
        FileKind::DevZero
    } else if name == "/dev/zero (deleted)"
        || name.starts_with("/memfd:")
        || name.starts_with("/SYSV")
        || name.starts_with("/dev/shm/")
    {
        FileKind::Shmem
    } else if let Some(kind) = kind_of_driver(name.as_bytes()) {
        kind
    } else if name == SECRET {
        FileKind::Secret
    } else if name.starts_with("/dev/") || name.starts_with("anon_inode:") {
        FileKind::Device
    } else {
        FileKind::Regular
    }
}
