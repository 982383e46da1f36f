//! Settings of the kernel and of the process that exec uses, in addition to the files.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bitflags::bitflags;
use object::elf;

use crate::flags::VmFlags;
use crate::object::Object;

use super::headers::Class;

bitflags! {
    /// Bits of `personality(2)` that say where things go.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Personality: u64 {
        /// Nothing is drawn by lot (`setarch -R`, and what debuggers start).
        const ADDR_NO_RANDOMIZE = 0x004_0000;
        /// A page is mapped at address 0.
        const MMAP_PAGE_ZERO = 0x010_0000;
        /// Placement goes upwards (`setarch -L`).
        const ADDR_COMPAT_LAYOUT = 0x020_0000;
        /// Readable memory is executable. Exec sets it anew.
        const READ_IMPLIES_EXEC = 0x040_0000;
        /// Programs with 32-bit addresses have 3 GiB, not 4.
        const ADDR_LIMIT_3GB = 0x800_0000;
    }
}

impl Personality {
    /// The flags that a program which changes the user or the group does not inherit.
    pub(super) const UNSAFE: Self = Self::ADDR_NO_RANDOMIZE
        .union(Self::MMAP_PAGE_ZERO)
        .union(Self::ADDR_COMPAT_LAYOUT)
        .union(Self::READ_IMPLIES_EXEC);
}

/// The addresses that are randomised, unless the personality forbids it:
/// `kernel.randomize_va_space` (`proc_sys_kernel(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Randomize {
    /// 0: nothing.
    Nothing,
    /// 1: all but the heap.
    AllButHeap,
    /// 2: everything.
    #[default]
    Everything,
}

/// An area that the kernel itself provides: the vdso and its data. Where `[vdso]` begins, an ELF image, programs are told (`AT_SYSINFO_EHDR`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialArea {
    /// In brackets, as `/proc/PID/maps` prints it.
    pub name: Box<str>,
    /// Its length.
    pub pages: u64,
    /// Its properties.
    pub flags: VmFlags,
    /// The source of its pages: with the feature `paging`, an object of `process::Inode`, whose
    /// source may answer faults with frames of the kernel's own. Without one, an access raises
    /// `SIGBUS`.
    pub object: Object,
}

impl SpecialArea {
    /// Properties of code: `[vdso]`.
    pub const CODE: VmFlags = VmFlags::READ
        .union(VmFlags::EXEC)
        .union(VmFlags::MAY_ALL)
        .union(VmFlags::DONTEXPAND);
    /// Properties of data: `[vvar]` and its like.
    pub const DATA: VmFlags = VmFlags::READ
        .union(VmFlags::MAYREAD)
        .union(VmFlags::PFNMAP)
        .union(VmFlags::IO)
        .union(VmFlags::DONTEXPAND)
        .union(VmFlags::DONTDUMP);
}

/// The processor that programs are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Architecture {
    /// x86-64, and i386 for programs with 32-bit addresses.
    #[default]
    X86_64,
    /// AArch64, little-endian.
    Aarch64,
    /// RISC-V with 64-bit addresses.
    Riscv64,
}

impl Architecture {
    /// Returns the class of the programs of a machine (`e_machine`), if this processor runs them.
    pub(super) const fn class(self, machine: u16) -> Option<Class> {
        match (self, machine) {
            (Architecture::X86_64, elf::EM_X86_64)
            | (Architecture::Aarch64, elf::EM_AARCH64)
            | (Architecture::Riscv64, elf::EM_RISCV) => Some(Class::Elf64),
            (Architecture::X86_64, elf::EM_386) => Some(Class::Elf32),
            _ => None,
        }
    }

    /// Returns the name of the platform (`AT_PLATFORM`), with its zero byte. It is empty where
    /// programs are not told.
    pub(super) const fn platform(self, class: Class) -> &'static [u8] {
        match (self, class) {
            (Architecture::X86_64, Class::Elf32) => b"i686\0",
            (Architecture::X86_64, Class::Elf64) => b"x86_64\0",
            (Architecture::Aarch64, _) => b"aarch64\0",
            (Architecture::Riscv64, _) => b"",
        }
    }
}

/// The kernel's settings, and the areas that it provides.
///
/// The default is Linux on x86-64 as distributions ship it, without special areas: their sizes belong to one build of a kernel.
///
/// ```
/// use samara_mm::Object;
/// use samara_mm::exec::{Settings, SpecialArea};
///
/// let object = Object::none();
/// let data = SpecialArea { name: "[vvar]".into(), pages: 4, flags: SpecialArea::DATA, object };
/// let object = Object::none();
/// let code = SpecialArea { name: "[vdso]".into(), pages: 2, flags: SpecialArea::CODE, object };
/// let settings = Settings { special: vec![data, code], ..Settings::default() };
/// assert_eq!(settings.random_bits, 28);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Programs for another processor are refused with `ENOEXEC`. The rest of the default is x86-64's: see also [`Config::window`](crate::Config::window).
    pub architecture: Architecture,
    /// `kernel.randomize_va_space`.
    pub randomize: Randomize,
    /// `vm.legacy_va_layout`: the legacy layout whatever the personality says.
    pub legacy_layout: bool,
    /// `vm.mmap_rnd_bits`: how many pages apart, as a power of two, the lowest and the highest base are.
    pub random_bits: u32,
    /// `vm.mmap_rnd_compat_bits`: the same for programs with 32-bit addresses.
    pub random_bits_32: u32,
    /// The areas that the kernel maps into each program, in ascending order, without gaps.
    pub special: Vec<SpecialArea>,
    /// The same for programs with 32-bit addresses.
    pub special_32: Vec<SpecialArea>,
    /// The descriptor by which the program finds a file that was opened for it (`AT_EXECFD`), if a format of `binfmt_misc` says so.
    pub descriptor: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            architecture: Architecture::default(),
            randomize: Randomize::default(),
            legacy_layout: false,
            random_bits: 28,
            random_bits_32: 8,
            special: Vec::new(),
            special_32: Vec::new(),
            descriptor: None,
        }
    }
}
