//! UEFI's memory map.
//!
//! The rules are Linux's on arm64, where UEFI's map is the only one:
//!
//! - Cacheable memory is memory. Memory of the loader and of boot services is free once they have
//!   ended.
//! - ACPI tables stay reserved, and all other firmware memory is not mapped.
//! - Memory that cannot be cached, or that must be accepted first, is a hole.

use uefi_raw::table::boot::{MemoryAttribute, MemoryDescriptor, MemoryType};

use super::{Entry, Item, Problem, Use, text};
use crate::NodeId;

/// The size of a UEFI page in bytes, whatever the machine's page size is.
const PAGE: u64 = 4096;

/// Converts a descriptor to one or two entries: a range, and the reservation that keeps it from
/// being used.
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
    // A byte count beyond 64 bits ends beyond the address space wherever it begins.
    let size = pages.checked_mul(PAGE);
    let whole = match size {
        Some(size) => Entry::sized(base, size, usage),
        None => Err(Problem::Wraps(Entry {
            base,
            size: u64::MAX,
            usage,
            nid: NodeId::NONE,
        })),
    };
    // A dropped entry is reported once.
    let kept = whole.ok().zip(kept);
    let kept = kept.map(|(entry, usage)| Ok(Entry { usage, ..entry }));
    [Some(whole), kept]
}

/// An iterator over the descriptors of a map as `GetMemoryMap` returns it, in little-endian order.
/// Each takes `stride` bytes, which the call returns and which exceeds the size of the type on most
/// machines.
#[derive(Clone, Debug)]
pub struct Descriptors<'a> {
    map: &'a [u8],
    stride: usize,
    pending: Option<Item>,
}

impl<'a> Descriptors<'a> {
    /// Iterates over a map of any length. Bytes after the last whole descriptor are reported, as is
    /// a stride that is too small.
    #[must_use]
    pub fn new(map: &'a [u8], stride: usize) -> Self {
        Descriptors {
            map,
            stride,
            pending: None,
        }
    }

    /// Guesses the stride of a map without any other information: 40 or 48, the two in use,
    /// whichever divides its length and makes all addresses page-aligned.
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

/// Iterates over the entries of a map in text form: the output of the UEFI shell's `memmap`, or
/// Linux's log with `efi=debug`, in each of the forms that Linux has used.
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
        let items = if let Some(shown) = shown_by_log(content) {
            from_log(shown, line)
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

/// Parses `Available  0000000000001000-000000000009FFFF 000000000000009F 000000000000000F`. The
/// shell's summary repeats the names (`Reserved  : 8,192 Pages (…)`). Those lines are skipped.
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

/// Returns the descriptor in a line of Linux's log: the text after `efi: mem00: `, or after
/// `efi:   ` on arm64.
fn shown_by_log(line: &str) -> Option<&str> {
    // Older kernels write the prefix in capitals.
    let (_, said) = line
        .split_once("efi: ")
        .or_else(|| line.split_once("EFI: "))?;
    let said = said.trim_start();
    if said.starts_with("0x") {
        return Some(said);
    }
    let (number, shown) = said.strip_prefix("mem")?.split_once(':')?;
    let numbered = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    numbered.then_some(shown)
}

/// Parses a descriptor in one of these forms:
///
/// ```text
/// type=3, attr=0xf, range=[0x0000000000000000-0x0000000000001000) (0MB)
/// [Boot Code          |   |  |…|WB|WT|WC|UC] range=[0x0000000000000000-0x0000000000001000) (0MB)
/// [Boot Code          |   |  |…|WB|WT|WC|UC] range=[0x0000000000000000-0x0000000000000fff] (0MB)
/// [type=269370880|attr=0x0e42100e42180e41] range=[0x0486200e41038c18-0x200e898a0eee713ac17] (invalid)
/// 0x000040000000-0x00004007ffff [Loader Data |   |  |…|WB|WT|WC|UC]*
/// ```
fn from_log(shown: &str, line: usize) -> Option<[Option<Item>; 2]> {
    if shown.trim_end().ends_with("(invalid)") {
        return Some([Some(Err(Problem::Invalid { line })), None]);
    }
    let (range, exclusive, description) = match shown.split_once("range=[") {
        Some((description, rest)) => {
            let end = rest.find([']', ')'])?;
            (&rest[..end], rest[end..].starts_with(')'), description)
        }
        None => {
            let (range, description) = shown.split_once(" [")?;
            (range, false, description)
        }
    };
    let (first, last) = text::range(range, "-")?;
    let size = last.wrapping_sub(first).wrapping_add(u64::from(!exclusive));
    // The last byte of an empty range lies before the first one, perhaps at the other end of the
    // address space.
    if last < first && size != 0 {
        return Some([Some(Err(Problem::Backwards { first, last })), None]);
    }
    let (kind, att) = described(description)?;
    Some(entries(kind, first, size / PAGE, att))
}

/// Returns type and attributes from the columns of a log, named or as numbers.
fn described(text: &str) -> Option<(MemoryType, MemoryAttribute)> {
    let text = text.trim().trim_start_matches('[');
    let text = text.split(']').next()?.trim_end_matches([',', ' ']);
    let mut columns = text.split(['|', ',']).map(str::trim);
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
        // Unusable, MMIO, PAL code, persistent memory, and any other type.
        other => match other.strip_prefix("type=") {
            Some(number) => MemoryType(number.parse().ok()?),
            None => MemoryType::UNUSABLE,
        },
    };
    let mut att = MemoryAttribute::empty();
    for column in columns {
        att |= match column {
            "WB" => MemoryAttribute::WRITE_BACK,
            "WT" => MemoryAttribute::WRITE_THROUGH,
            "WC" => MemoryAttribute::WRITE_COMBINE,
            "SP" => MemoryAttribute::SPECIAL_PURPOSE,
            other => match other.strip_prefix("attr=") {
                Some(bits) => MemoryAttribute::from_bits_retain(text::hex(bits)?),
                None => MemoryAttribute::empty(),
            },
        };
    }
    Some((kind, att))
}
