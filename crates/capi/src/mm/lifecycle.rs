//! `mm_new`, `mm_fork`, `mm_put`, `mm_exit`, and the initial state of an address space.

use core::ffi::{c_int, c_uint};
use core::fmt;
use core::ops::Range;

use samara_mm::heap::try_box;
use samara_mm::process::ForkMode;
use samara_mm::{AddressSpace, Capabilities, Config, Errno, Layout, Limits, Overcommit};

use crate::mm::abi::{MM_FORK_COPY, MM_FORK_SHARE, MmBackend, MmConfig, MmContents, MmFormat};
use crate::mm::backend::BackendHooks;
use crate::mm::phys::{MmPhys, end_of};
use crate::mm::space::{MapOnly, Space};
use crate::mm::{code, return_boxed};

/// `struct mm`.
pub struct Mm {
    pub(crate) space: Box<dyn Space>,
    /// A child has a backend of its own, if any, since its parent's could not distinguish the two.
    pub(crate) backend: Option<BackendHooks>,
    /// `true` if there is a heap.
    pub(crate) heap: bool,
}

impl fmt::Debug for Mm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mm").finish_non_exhaustive()
    }
}

impl Default for MmConfig {
    /// Returns the settings of Linux on x86-64 in common distributions, without address
    /// randomisation, for an unprivileged process without heap and stack.
    fn default() -> Self {
        let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
        MmConfig {
            task_size: config.task_size,
            mmap_base: layout.mmap_base,
            legacy_base: layout.legacy_base,
            mmap_min_addr: config.mmap_min_addr,
            start_brk: 0,
            stack_top: 0,
            rlim_as: limits.address_space,
            rlim_data: limits.data,
            rlim_stack: limits.stack,
            rlim_memlock: limits.memlock,
            max_map_count: u64::from(config.max_map_count),
            overcommit: 0,
            ipc_lock: false,
            seed: 0,
        }
    }
}

impl MmConfig {
    /// Returns the settings limited to addresses below `end`, which page tables can address.
    fn within(mut self, end: u64) -> Self {
        if self.task_size > end {
            self.task_size = end;
            // As on x86-64: 128 MiB for the stack below the end, and bottom-up placement from a
            // third of it.
            if self.mmap_base > end {
                self.mmap_base = end - (128 << 20);
            }
            if self.legacy_base > end {
                self.legacy_base = (end / 3 + 4095) & !4095;
            }
        }
        self
    }

    /// Returns the settings for this memory: a size with the default value was not chosen by the
    /// caller, and becomes that of the format.
    pub(super) fn on(self, phys: Option<&MmPhys>) -> Self {
        match phys {
            Some(phys) if self.task_size == Config::default().task_size => self.within(phys.end),
            _ => self,
        }
    }
}

/// Returns the configuration and the limits of an address space on this memory, without its layout.
pub(super) fn rules(given: &MmConfig, phys: Option<&MmPhys>) -> Result<(Config, Limits), Errno> {
    let defaults = Config::default();
    let config = Config {
        task_size: given.task_size,
        mmap_min_addr: given.mmap_min_addr,
        fixed_min_addr: defaults.fixed_min_addr.min(given.mmap_min_addr),
        max_map_count: u32::try_from(given.max_map_count).unwrap_or(u32::MAX),
        overcommit: match given.overcommit {
            0 => Overcommit::Heuristic,
            1 => Overcommit::Always,
            // The library does not know how much the machine may commit. The limit is the memory of
            // its allocator.
            2 => Overcommit::Never {
                limit_pages: u64::MAX,
            },
            _ => return Err(Errno::EINVAL),
        },
        anon_vma_names: true,
        pkeys: phys.is_none_or(|phys| phys.x86),
        capabilities: Capabilities {
            ipc_lock: given.ipc_lock,
            ..Capabilities::default()
        },
        ..defaults
    };
    let limits = Limits {
        address_space: given.rlim_as,
        data: given.rlim_data,
        stack: given.rlim_stack,
        memlock: given.rlim_memlock,
    };
    Ok((config, limits))
}

/// Creates the map, confined to `range` if there is one.
fn space(
    given: &MmConfig,
    range: Option<Range<u64>>,
    phys: Option<&MmPhys>,
) -> Result<AddressSpace, Errno> {
    let (config, limits) = rules(given, phys)?;
    let layout = Layout {
        mmap_base: given.mmap_base,
        legacy_base: given.legacy_base,
        ..Layout::default()
    };
    let (config, layout) = match range {
        Some(range) => config.within(range)?,
        None => (config, layout),
    };
    let layout = Layout {
        start_brk: given.start_brk,
        brk: given.start_brk,
        stack_top: given.stack_top,
        ..layout
    };
    AddressSpace::new(config, limits, layout)
}

/// Creates an address space with this map, on `phys` if there is one.
pub(super) fn with_map(
    map: AddressSpace,
    phys: Option<&MmPhys>,
    backend: Option<&MmBackend>,
) -> Result<Box<dyn Space>, Errno> {
    let space: Box<dyn Space> = match phys {
        Some(phys) => phys.hardware.space(map)?,
        None => try_box(MapOnly::new(map))?,
    };
    if backend.is_some() {
        space.expect_hooks();
    }
    Ok(space)
}

fn new(
    config: &MmConfig,
    range: Option<Range<u64>>,
    phys: Option<&MmPhys>,
    backend: Option<&MmBackend>,
) -> Result<Mm, Errno> {
    let config = &config.on(phys);
    let map = space(config, range, phys)?;
    let space = with_map(map, phys, backend)?;
    Ok(Mm {
        space,
        backend: backend.map(BackendHooks::new),
        heap: config.start_brk != 0,
    })
}

/// Stores the default settings of an address space.
///
/// # Safety
///
/// `config` points to the structure.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_config_default(config: *mut MmConfig) {
    if !config.is_null() {
        // SAFETY: the caller's duty.
        unsafe { config.write(MmConfig::default()) };
    }
}

/// Stores the default settings, limited to what tables of this format can address.
///
/// # Safety
///
/// `config` points to the structure, or is NULL.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_config_for(format: MmFormat, config: *mut MmConfig) {
    let made = MmConfig::default();
    let made = end_of(format).map_or(made, |end| made.within(end));
    if !config.is_null() {
        // SAFETY: the caller's duty.
        unsafe { config.write(made) };
    }
}

/// Creates an address space without any mapping.
///
/// # Safety
///
/// `config` points to the structure or is NULL (the defaults). `phys` came from
/// [`mm_phys_new`](crate::mm::mm_phys_new) or is NULL. `backend` points to functions that behave as
/// the header says, or is NULL. `mm` points to a pointer.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_new(
    config: *const MmConfig,
    phys: *mut MmPhys,
    backend: *const MmBackend,
    mm: *mut *mut Mm,
) -> c_int {
    // SAFETY: the caller's duties.
    let (config, phys, backend) = unsafe {
        let config = config.as_ref().copied().unwrap_or_default();
        (config, phys.as_ref(), backend.as_ref())
    };
    // SAFETY: the caller's duty.
    unsafe { return_boxed(mm, || new(&config, None, phys, backend)) }
}

/// Creates an address space that is confined to `[base, end)`.
///
/// # Safety
///
/// As [`mm_new`].
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_new_within(
    config: *const MmConfig,
    base: u64,
    end: u64,
    phys: *mut MmPhys,
    backend: *const MmBackend,
    mm: *mut *mut Mm,
) -> c_int {
    // SAFETY: the caller's duties.
    let (config, phys, backend) = unsafe {
        let config = config.as_ref().copied().unwrap_or_default();
        (config, phys.as_ref(), backend.as_ref())
    };
    // SAFETY: the caller's duty.
    unsafe { return_boxed(mm, || new(&config, Some(base..end), phys, backend)) }
}

/// Exit: unmaps everything and frees every frame.
///
/// # Safety
///
/// `mm` is NULL, or came from [`mm_new`] or [`mm_fork`] and is not used afterwards.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_put(mm: *mut Mm) {
    if !mm.is_null() {
        // SAFETY: made by `Box::into_raw`, and dropped once.
        let mm = unsafe { Box::from_raw(mm) };
        mm.space.put();
    }
}

/// As [`mm_put`], and reports losses of file content: returns 0, or the first error of a page that
/// could not be written.
///
/// # Safety
///
/// As [`mm_put`].
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_exit(mm: *mut Mm) -> c_int {
    if mm.is_null() {
        return code(Errno::EINVAL);
    }
    // SAFETY: made by `Box::into_raw`, and dropped once.
    let mm = unsafe { Box::from_raw(mm) };
    mm.space.exit().map_or_else(code, |()| 0)
}

/// Sets functions for the contents of the pages, in addition to the backend's.
///
/// # Safety
///
/// `mm` is an address space. `contents` points to functions that behave as the header says.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_set_contents(mm: *mut Mm, contents: *const MmContents) -> c_int {
    // SAFETY: the caller's duties.
    let (Some(mm), Some(contents)) = (unsafe { (mm.as_ref(), contents.as_ref()) }) else {
        return code(Errno::EINVAL);
    };
    let Some(told) = &mm.backend else {
        return code(Errno::EINVAL);
    };
    told.name(contents).map_or_else(code, |()| 0)
}

/// Creates a child as `fork(2)` does.
///
/// # Safety
///
/// `parent` is an address space. `child` points to a pointer.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_fork(parent: *mut Mm, how: c_uint, child: *mut *mut Mm) -> c_int {
    // SAFETY: no backend; the others are the caller's duties.
    unsafe { mm_fork_with(parent, how, core::ptr::null(), child) }
}

/// As [`mm_fork`], with a backend for the child. The backend is notified of the child's calls, but
/// not of what the child inherits.
///
/// # Safety
///
/// As [`mm_fork`]. `backend` points to functions that behave as the header says, or is NULL.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_fork_with(
    parent: *mut Mm,
    how: c_uint,
    backend: *const MmBackend,
    child: *mut *mut Mm,
) -> c_int {
    // SAFETY: the caller's duties.
    let (Some(parent), backend) = (unsafe { (parent.as_ref(), backend.as_ref()) }) else {
        return code(Errno::EINVAL);
    };
    let mode = match how {
        MM_FORK_COPY => Ok(ForkMode::Copy),
        MM_FORK_SHARE => Ok(ForkMode::Share),
        _ => Err(Errno::EINVAL),
    };
    let fork = || {
        let space = parent.space.fork(mode?)?;
        if backend.is_some() {
            space.expect_hooks();
        }
        Ok(Mm {
            space,
            backend: backend.map(BackendHooks::new),
            heap: parent.heap,
        })
    };
    // SAFETY: the caller's duty.
    unsafe { return_boxed(child, fork) }
}
