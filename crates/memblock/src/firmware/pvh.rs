//! The start info of a PVH boot loader. QEMU with `-kernel`, Firecracker, Cloud Hypervisor and Xen
//! start kernels this way.
//!
//! The layout is that of `struct hvm_start_info` in Xen's public headers.

use core::ops::Range;

use super::e820::{self, Binary};
use super::{Item, Problem};

/// The data that the loader passes to a kernel: the memory map, the command line and the initial
/// file system.
///
/// ```
/// use samara_memblock::firmware::pvh::StartInfo;
///
/// # let mut memory = [0u8; 256];
/// # memory[..4].copy_from_slice(&0x336e_c578u32.to_le_bytes());
/// # memory[4] = 1;
/// # memory[24] = 64;
/// # memory[64..76].copy_from_slice(b"console=ttyS");
/// // A kernel creates the slice through its first page tables.
/// let bytes = |at: u64, len: usize| memory.get(at as usize..at as usize + len);
/// let info = StartInfo::read(0, bytes)?;
/// assert_eq!(info.command_line(), b"console=ttyS");
/// assert_eq!((info.entries().count(), info.initrd()), (0, None));
/// # Ok::<(), samara_memblock::firmware::Problem>(())
/// ```
#[derive(Clone, Debug)]
pub struct StartInfo<'m> {
    map: &'m [u8],
    command_line: &'m [u8],
    initrd: Option<Range<u64>>,
}

const MAGIC: u32 = 0x336e_c578;
/// The size of the structure in bytes, from version 1 on.
const SIZE: usize = 56;
/// The size of a module in bytes: address, size, address of its command line, and a reserved word.
const MODULE: usize = 32;
/// The longest command line. Longer ones are truncated.
const LONGEST_LINE: usize = 4096;

impl<'m> StartInfo<'m> {
    /// Reads the structure at the physical address `at`. `memory` returns the bytes at a physical
    /// address, or `None` if there are not that many.
    ///
    /// # Errors
    ///
    /// [`Problem::Malformed`] if it is not such a structure, if it is one of version 0, which has
    /// no memory map, or if it points to something outside of memory.
    pub fn read(at: u64, memory: impl Fn(u64, usize) -> Option<&'m [u8]>) -> Result<Self, Problem> {
        let info = memory(at, SIZE).ok_or(Problem::Malformed)?;
        let version = half(info, 4)?;
        if half(info, 0)? != MAGIC || version == 0 {
            return Err(Problem::Malformed);
        }
        let (modules, line, map) = (word(info, 16)?, word(info, 24)?, word(info, 40)?);
        let initrd = match half(info, 12)? {
            0 => None,
            _ => {
                let module = memory(modules, MODULE).ok_or(Problem::Malformed)?;
                let (start, size) = (word(module, 0)?, word(module, 8)?);
                Some(start..start.checked_add(size).ok_or(Problem::Malformed)?)
            }
        };
        let len = (half(info, 48)? as usize).checked_mul(Binary::Pvh.size());
        let len = len.ok_or(Problem::Malformed)?;
        Ok(StartInfo {
            map: match len {
                0 => &[],
                len => memory(map, len).ok_or(Problem::Malformed)?,
            },
            command_line: match line {
                0 => &[],
                line => text(line, memory)?,
            },
            initrd,
        })
    }

    /// Returns the entries of the memory map.
    pub fn entries(&self) -> impl Iterator<Item = Item> + Clone + 'm {
        e820::entries(self.map, Binary::Pvh)
    }

    /// Returns the command line, up to 4,096 bytes, or an empty slice if there is none.
    pub fn command_line(&self) -> &'m [u8] {
        self.command_line
    }

    /// Returns the physical addresses of the first module, where loaders put the initial file
    /// system. The memory map does not reserve them.
    pub fn initrd(&self) -> Option<Range<u64>> {
        self.initrd.clone()
    }
}

fn half(bytes: &[u8], at: usize) -> Result<u32, Problem> {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk);
    found
        .map(|half| u32::from_le_bytes(*half))
        .ok_or(Problem::Malformed)
}

fn word(bytes: &[u8], at: usize) -> Result<u64, Problem> {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk);
    found
        .map(|word| u64::from_le_bytes(*word))
        .ok_or(Problem::Malformed)
}

/// Returns the bytes before a zero byte.
fn text<'m>(at: u64, memory: impl Fn(u64, usize) -> Option<&'m [u8]>) -> Result<&'m [u8], Problem> {
    let is_end = |len: &usize| {
        let byte = at.checked_add(*len as u64).and_then(|at| memory(at, 1));
        byte.is_none_or(|byte| byte == [0])
    };
    let len = (0..LONGEST_LINE).find(is_end).unwrap_or(LONGEST_LINE);
    memory(at, len).ok_or(Problem::Malformed)
}
