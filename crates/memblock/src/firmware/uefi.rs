//! UEFI's memory map.
//!
//! What Linux does on arm64, where UEFI's map is the only one: memory is what can be cached; of it, what the loader and boot
//! services used is free once they have ended, ACPI tables are kept reserved, and all else is not mapped. What cannot be cached,
//! and memory that has to be accepted first, is a hole.

use uefi_raw::table::boot::{MemoryAttribute, MemoryDescriptor, MemoryType};

use super::{Entry, Item, Problem, Use, text};

/// Bytes in a page of UEFI's, whatever the machine's pages are.
const PAGE: u64 = 4096;

/// One descriptor as one or two entries: a range, and what keeps it from being used.
fn entries(kind: MemoryType, base: u64, pages: u64, att: MemoryAttribute) -> [Option<Item>; 2] {
    let cached = MemoryAttribute::WRITE_BACK
        | MemoryAttribute::WRITE_THROUGH
        | MemoryAttribute::WRITE_COMBINE;
    // Linux keeps specific-purpose memory for drivers.
    let memory = att.intersects(cached) && !att.contains(MemoryAttribute::SPECIAL_PURPOSE);
    let (usage, kept) = match kind {
        MemoryType::LOADER_CODE
        | MemoryType::LOADER_DATA
        | MemoryType::BOOT_SERVICES_CODE
        | MemoryType::BOOT_SERVICES_DATA
        | MemoryType::CONVENTIONAL
            if memory =>
        {
            (Use::Ram, None)
        }
        MemoryType::ACPI_RECLAIM if memory => (Use::Ram, Some(Use::Reserved)),
        MemoryType::RESERVED
        | MemoryType::RUNTIME_SERVICES_CODE
        | MemoryType::RUNTIME_SERVICES_DATA
        | MemoryType::ACPI_NON_VOLATILE
            if memory =>
        {
            (Use::Ram, Some(Use::NoMap))
        }
        _ => (Use::Hole, None),
    };
    // As many pages as overflow a size overflow an address too: such an entry is reported and dropped, or cut if it is a hole.
    let size = pages.saturating_mul(PAGE);
    [Some(usage), kept].map(|usage| usage.map(|usage| Ok(Entry::new(base, size, usage))))
}

/// The descriptors of a map as `GetMemoryMap` returns it: each `stride` bytes (which is more than the type's size on most
/// machines, and given by the call), little-endian.
#[derive(Clone, Debug)]
pub struct Descriptors<'a> {
    map: &'a [u8],
    stride: usize,
    pending: Option<Item>,
}

impl<'a> Descriptors<'a> {
    /// A map of any length; what is left over after the last whole descriptor is reported, as is a stride too small.
    #[must_use]
    pub fn new(map: &'a [u8], stride: usize) -> Self {
        Descriptors {
            map,
            stride,
            pending: None,
        }
    }

    /// The stride that a map without any other information has: 40 or 48, the two in use, whichever divides its length and
    /// gives page-aligned addresses throughout.
    #[must_use]
    pub fn guess_stride(map: &[u8]) -> Option<usize> {
        [48, 40].into_iter().find(|&stride| {
            !map.is_empty()
                && map.len().is_multiple_of(stride)
                && map.chunks_exact(stride).all(|d| {
                    word(d, 8).is_some_and(|base| base % PAGE == 0) && half(d, 4) == Some(0)
                })
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn descriptor(bytes: &[u8]) -> Option<MemoryDescriptor> {
    Some(MemoryDescriptor {
        ty: MemoryType(half(bytes, 0)?),
        padding: 0,
        phys_start: word(bytes, 8)?,
        virt_start: word(bytes, 16)?,
        page_count: word(bytes, 24)?,
        att: MemoryAttribute::from_bits_retain(word(bytes, 32)?),
    })
}

impl Iterator for Descriptors<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if let Some(item) = self.pending.take() {
            return Some(item);
        }
        if self.map.is_empty() {
            return None;
        }
        let Some((first, rest)) = self
            .map
            .split_at_checked(self.stride)
            .filter(|(f, _)| f.len() >= size_of::<MemoryDescriptor>())
        else {
            self.map = &[];
            return Some(Err(Problem::Malformed));
        };
        self.map = rest;
        let d = descriptor(first)?;
        let [item, pending] = entries(d.ty, d.phys_start, d.page_count, d.att);
        self.pending = pending;
        item
    }
}

/// The entries of a map as text: what the UEFI shell's `memmap` prints, or Linux's log with `efi=debug`.
///
/// ```
/// use samara_memblock::firmware::uefi;
/// let shell = "Type       Start            End              # Pages          Attributes
/// Available  0000000000001000-000000000009FFFF 000000000000009F 000000000000000F
/// RT_Data    0000000000100000-0000000000100FFF 0000000000000001 800000000000000F";
/// assert_eq!(uefi::lines(shell).count(), 3); // the second is memory, and not to be mapped
/// ```
pub fn lines(map: &str) -> impl Iterator<Item = Item> + Clone {
    text::numbered(map).flat_map(|(line, content)| {
        let items = if content.contains("efi: mem") {
            from_log(content)
        } else {
            match content.split_whitespace().next().and_then(shell_type) {
                Some(kind) => from_shell(kind, content),
                None => Some([None, None]),
            }
        };
        items
            .unwrap_or([Some(Err(Problem::Unreadable { line })), None])
            .into_iter()
            .flatten()
    })
}

fn shell_type(name: &str) -> Option<MemoryType> {
    Some(match name {
        "Reserved" => MemoryType::RESERVED,
        "LoaderCode" => MemoryType::LOADER_CODE,
        "LoaderData" => MemoryType::LOADER_DATA,
        "BS_Code" => MemoryType::BOOT_SERVICES_CODE,
        "BS_Data" => MemoryType::BOOT_SERVICES_DATA,
        "RT_Code" => MemoryType::RUNTIME_SERVICES_CODE,
        "RT_Data" => MemoryType::RUNTIME_SERVICES_DATA,
        "Available" => MemoryType::CONVENTIONAL,
        "Unusable" => MemoryType::UNUSABLE,
        "ACPI_Recl" => MemoryType::ACPI_RECLAIM,
        "ACPI_NVS" => MemoryType::ACPI_NON_VOLATILE,
        "MMIO" => MemoryType::MMIO,
        "MMIO_Port" => MemoryType::MMIO_PORT_SPACE,
        "PalCode" => MemoryType::PAL_CODE,
        "Persistent" => MemoryType::PERSISTENT_MEMORY,
        "Unaccepted" | "Unacceptd" => MemoryType::UNACCEPTED,
        _ => return None,
    })
}

/// `Available  0000000000001000-000000000009FFFF 000000000000009F 000000000000000F`. The shell's summary repeats the names
/// (`Reserved  : 8,192 Pages (…)`); those lines are passed over.
fn from_shell(kind: MemoryType, line: &str) -> Option<[Option<Item>; 2]> {
    let mut words = line.split_whitespace().skip(1);
    let range = words.next()?;
    if range.starts_with(':') {
        return Some([None, None]);
    }
    let (first, _) = text::range(range, "-")?;
    let (pages, att) = (text::hex(words.next()?)?, text::hex(words.next()?)?);
    Some(entries(
        kind,
        first,
        pages,
        MemoryAttribute::from_bits_retain(att),
    ))
}

/// `efi: mem00: [Conventional Memory|   |  |…|  |WB|WT|WC|UC] range=[0x0000000000000000-0x000000000009ffff] (0MB)`
fn from_log(line: &str) -> Option<[Option<Item>; 2]> {
    let (_, entry) = line.split_once("efi: mem")?;
    let (_, rest) = entry.split_once(": [")?;
    let (description, rest) = rest.split_once(']')?;
    let mut columns = description.split('|').map(str::trim);
    let kind = match columns.next()? {
        "Reserved" => MemoryType::RESERVED,
        "Loader Code" => MemoryType::LOADER_CODE,
        "Loader Data" => MemoryType::LOADER_DATA,
        "Boot Code" => MemoryType::BOOT_SERVICES_CODE,
        "Boot Data" => MemoryType::BOOT_SERVICES_DATA,
        "Runtime Code" => MemoryType::RUNTIME_SERVICES_CODE,
        "Runtime Data" => MemoryType::RUNTIME_SERVICES_DATA,
        "Conventional Memory" | "Conventional" => MemoryType::CONVENTIONAL,
        "ACPI Reclaim Memory" | "ACPI Reclaim" => MemoryType::ACPI_RECLAIM,
        "ACPI Memory NVS" | "ACPI Mem NVS" => MemoryType::ACPI_NON_VOLATILE,
        // Unusable, MMIO, PAL code, persistent memory, and whatever else there may be.
        _ => MemoryType::UNUSABLE,
    };
    let mut att = MemoryAttribute::empty();
    for column in columns {
        att |= match column {
            "WB" => MemoryAttribute::WRITE_BACK,
            "WT" => MemoryAttribute::WRITE_THROUGH,
            "WC" => MemoryAttribute::WRITE_COMBINE,
            "SP" => MemoryAttribute::SPECIAL_PURPOSE,
            _ => MemoryAttribute::empty(),
        };
    }
    let (_, range) = rest.split_once("range=[")?;
    let (first, last) = text::range(range.split_once([']', ')'])?.0, "-")?;
    let Some(size) = last.checked_sub(first).map(|d| d.saturating_add(1)) else {
        return Some([Some(Err(Problem::Backwards { first, last })), None]);
    };
    Some(entries(kind, first, size / PAGE, att))
}
