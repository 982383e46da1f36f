//! The sources of a memory map.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use samara_memblock::firmware::devicetree::DeviceTree;
use samara_memblock::firmware::{Item, Problem, e820, iomem, load, uefi};
use samara_memblock::{Error, Memblock};

use super::BootOptions;
use super::guess::guess;
use super::layout::Placement;

/// A memory map as read, and what to call it.
pub(super) struct Map {
    pub(super) name: String,
    content: Content,
}

/// A memory map in its format.
pub(super) enum Content {
    E820Log(String),
    E820Sysfs(Vec<Item>),
    Iomem(String),
    UefiText(String),
    /// Descriptors, and the bytes from one to the next.
    UefiRaw(Vec<u8>, usize),
    DeviceTree(Vec<u8>),
}

impl Content {
    /// Returns the name of the format.
    fn format(&self) -> &'static str {
        match self {
            Content::E820Log(_) => "e820, boot log",
            Content::E820Sysfs(_) => "e820, directory",
            Content::Iomem(_) => "/proc/iomem",
            Content::UefiText(_) => "UEFI, text",
            Content::UefiRaw(..) => "UEFI, descriptors",
            Content::DeviceTree(_) => "device tree",
        }
    }
}

/// More than any firmware, boot log or `/proc/iomem` has. Devices and pipes may have no end.
const LONGEST: u64 = 64 << 20;

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let whole = if path == Path::new("-") {
        let input = io::stdin().lock();
        input.take(LONGEST + 1).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
    };
    match whole {
        Ok(length) if length as u64 > LONGEST => Err(format!(
            "`{}` is longer than any memory map: name one",
            path.display()
        )),
        Ok(_) => Ok(bytes),
        Err(error) => Err(match error.kind() {
            ErrorKind::NotFound => format!("`{}` does not exist", path.display()),
            ErrorKind::PermissionDenied => {
                format!("`{}` cannot be read: try as root", path.display())
            }
            _ => format!("`{}` cannot be read: {error}", path.display()),
        }),
    }
}

/// Logs may have bytes that are no text; they cannot matter.
fn read_text(path: &Path) -> Result<String, String> {
    Ok(String::from_utf8_lossy(&read(path)?).into_owned())
}

/// Reads a directory as /sys/firmware/memmap: one directory an entry, numbered, with a file for
/// each value.
fn read_sysfs(path: &Path) -> Result<Vec<Item>, String> {
    let unreadable = |error| format!("`{}` cannot be read: {error}", path.display());
    let mut numbered = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        if let Some(number) = name.to_str().and_then(|name| name.parse::<u32>().ok()) {
            numbered.push(number);
        }
    }
    numbered.sort_unstable();
    let items = numbered.iter().map(|number| {
        let value =
            |file| fs::read_to_string(path.join(number.to_string()).join(file)).unwrap_or_default();
        e820::sysfs_entry(&value("start"), &value("end"), &value("type"))
    });
    Ok(items.collect())
}

impl Map {
    /// Returns the map that the options name, or the running machine's own.
    pub(super) fn read(options: &BootOptions) -> Result<Self, String> {
        let (path, content) = if let Some(path) = &options.file {
            let content = if path.is_dir() {
                Some(Content::E820Sysfs(read_sysfs(path)?))
            } else {
                guess(read(path)?)
            };
            let content = content.ok_or_else(|| {
                format!(
                    "`{}` has no format that can be told: name it with --e820, --iomem, --uefi or --dtb",
                    path.display()
                )
            })?;
            (path, content)
        } else if let Some(path) = &options.e820 {
            let content = if path.is_dir() {
                Content::E820Sysfs(read_sysfs(path)?)
            } else {
                Content::E820Log(read_text(path)?)
            };
            (path, content)
        } else if let Some(path) = &options.iomem {
            (path, Content::Iomem(read_text(path)?))
        } else if let Some(path) = &options.uefi {
            (path, read_uefi(path, options.uefi_stride.map(usize::from))?)
        } else if let Some(path) = &options.dtb {
            (path, Content::DeviceTree(read(path)?))
        } else {
            return Self::own();
        };
        if let Content::DeviceTree(blob) = &content
            && DeviceTree::new(blob).is_err()
        {
            return Err(format!(
                "`{}` is no device tree, or one that is cut off",
                path.display()
            ));
        }
        Ok(Map {
            name: path.display().to_string(),
            content,
        })
    }

    /// Returns the running machine's: as its firmware gave it if the kernel still shows that, else
    /// as the kernel uses it.
    fn own() -> Result<Self, String> {
        let memmap = Path::new("/sys/firmware/memmap");
        if let Ok(items) = read_sysfs(memmap)
            && items.iter().any(Result::is_ok)
        {
            return Ok(Map {
                name: memmap.display().to_string(),
                content: Content::E820Sysfs(items),
            });
        }
        let tree = Path::new("/sys/firmware/fdt");
        if let Ok(blob) = read(tree)
            && DeviceTree::new(&blob).is_ok()
        {
            return Ok(Map {
                name: tree.display().to_string(),
                content: Content::DeviceTree(blob),
            });
        }
        let iomem = Path::new("/proc/iomem");
        match read_text(iomem) {
            Ok(text) if !iomem::lines(&text).any(|item| item == Err(Problem::Hidden)) => Ok(Map {
                name: iomem.display().to_string(),
                content: Content::Iomem(text),
            }),
            _ => Err(
                "this machine shows no memory map: run it as root, or name a file that holds one"
                    .to_owned(),
            ),
        }
    }

    /// Returns the name of the map's format.
    pub(super) fn format(&self) -> &'static str {
        self.content.format()
    }

    /// Places the reservations that have no address, in the order of the map. Only device trees have such.
    pub(super) fn place(&self, boot: &mut Memblock<'_>) -> Vec<Placement> {
        let mut placed = Vec::new();
        if let Content::DeviceTree(blob) = &self.content
            && let Ok(tree) = DeviceTree::new(blob)
        {
            tree.dynamic_reservations(&mut |wanted| {
                // What is wrong with the others was reported when the map was loaded.
                if let Ok(wanted) = wanted {
                    placed.push(Placement::of(&wanted, wanted.place(boot).ok()));
                }
            });
        }
        placed
    }

    /// Takes the map into a memblock; what is odd about it is added to `problems`. Reservations without an address are left to
    /// [`place`](Self::place).
    pub(super) fn load(
        &self,
        boot: &mut Memblock<'_>,
        problems: &mut Vec<Problem>,
    ) -> Result<(), Error> {
        let report = |problem| {
            if !matches!(problem, Problem::Dynamic { .. }) {
                problems.push(problem);
            }
        };
        match &self.content {
            Content::E820Log(text) => load(e820::lines(text), boot, report),
            Content::E820Sysfs(items) => load(items.iter().copied(), boot, report),
            Content::Iomem(text) => load(iomem::lines(text), boot, report),
            Content::UefiText(text) => load(uefi::lines(text), boot, report),
            Content::UefiRaw(map, stride) => {
                load(uefi::Descriptors::new(map, *stride), boot, report)
            }
            Content::DeviceTree(blob) => match DeviceTree::new(blob) {
                Ok(tree) => load(tree, boot, report),
                Err(problem) => {
                    problems.push(problem);
                    Ok(())
                }
            },
        }
    }
}

/// Text has no zero bytes, descriptors always have.
fn read_uefi(path: &Path, stride: Option<usize>) -> Result<Content, String> {
    let map = read(path)?;
    if stride.is_none() && !map.contains(&0) {
        return Ok(Content::UefiText(
            String::from_utf8_lossy(&map).into_owned(),
        ));
    }
    match stride.or_else(|| uefi::Descriptors::guess_stride(&map)) {
        Some(stride) => Ok(Content::UefiRaw(map, stride)),
        None => Err(format!(
            "`{}` holds no UEFI descriptors of 40 or 48 bytes: give --uefi-stride",
            path.display()
        )),
    }
}
