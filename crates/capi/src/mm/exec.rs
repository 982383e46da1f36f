//! `mm_exec`: programs in new address spaces.

use core::ffi::{CStr, c_char, c_int, c_void};

use samara_mm::exec::{
    Auxiliary, Choice, Class, Exec, ExecError, Image, Personality, Program, SetId, Settings,
    SpecialArea, Started,
};
use samara_mm::heap::try_str;
use samara_mm::{AddressSpace, Errno, Object};

use crate::mm::abi::{
    MM_SETID_NO, MM_SETID_OTHER, MM_SETID_SAME, MmBackend, MmExec, MmProgram, MmStarted,
};
use crate::mm::backend::BackendHooks;
use crate::mm::lifecycle::{Mm, rules, with_map};
use crate::mm::phys::MmPhys;
use crate::mm::space::Space;
use crate::mm::{code, return_boxed};

/// Returns the strings of a list that ends with NULL, without their zero bytes.
///
/// # Safety
///
/// It is such a list, or NULL, and exists for `'a`.
unsafe fn strings<'a>(list: *const *const c_char) -> Result<Vec<&'a [u8]>, Errno> {
    let mut strings = Vec::new();
    if list.is_null() {
        return Ok(strings);
    }
    for number in 0.. {
        // SAFETY: the entries before were not NULL.
        let string = unsafe { *list.add(number) };
        if string.is_null() {
            break;
        }
        strings.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        // SAFETY: the caller's duty.
        strings.push(unsafe { CStr::from_ptr(string) }.to_bytes());
    }
    Ok(strings)
}

/// The bytes of a program, read by the caller's function.
struct Bytes {
    read: unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize) -> i64,
    ctx: *mut c_void,
    size: u64,
}

impl Image for Bytes {
    fn len(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the caller's function and context, and space for that many bytes.
        let read = unsafe { (self.read)(self.ctx, offset, into.as_mut_ptr().cast(), into.len()) };
        match usize::try_from(read) {
            Ok(bytes) => Ok(bytes.min(into.len())),
            Err(_) => Err(errno(read)),
        }
    }
}

/// Converts the error of a caller's function. Invalid values become `EIO`.
fn errno(given: i64) -> Errno {
    match given {
        -4095..0 => Errno(-given as i32),
        _ => Errno::EIO,
    }
}

/// Opens a program by the caller's function.
fn open(exec: &MmExec, path: &[u8]) -> Result<Program<Bytes>, Errno> {
    let (Some(open), Some(read)) = (exec.open, exec.read) else {
        return Err(Errno::EINVAL);
    };
    let mut name = Vec::new();
    name.try_reserve_exact(path.len() + 1)
        .map_err(|_| Errno::ENOMEM)?;
    name.extend_from_slice(path);
    name.push(0);
    let mut program = MmProgram {
        file: core::ptr::null_mut(),
        size: 0,
        set_id: MM_SETID_NO,
        ctx: core::ptr::null_mut(),
    };
    // SAFETY: the caller's function and context. Paths contain no zero byte, and `program` is valid
    // for writes.
    let opened = unsafe { open(exec.ctx, name.as_ptr().cast(), &raw mut program) };
    if opened != 0 {
        return Err(errno(opened.into()));
    }
    // SAFETY: the function returned an open file.
    let file = unsafe { program.file.as_ref() }.and_then(|file| file.take());
    Ok(Program {
        file: file.ok_or(Errno::EINVAL)?,
        image: Bytes {
            read,
            ctx: program.ctx,
            size: program.size,
        },
        set_id: match program.set_id {
            MM_SETID_NO => SetId::No,
            MM_SETID_SAME => SetId::Same,
            MM_SETID_OTHER => SetId::Other,
            _ => return Err(Errno::EINVAL),
        },
    })
}

/// Returns the areas that the kernel maps into each program.
///
/// # Safety
///
/// There are as many as `exec` says. Their names are strings or NULL.
unsafe fn special(exec: &MmExec) -> Result<Vec<SpecialArea>, Errno> {
    let mut areas = Vec::new();
    if exec.special.is_null() {
        return Ok(areas);
    }
    areas
        .try_reserve_exact(exec.specials)
        .map_err(|_| Errno::ENOMEM)?;
    for number in 0..exec.specials {
        // SAFETY: the caller's duties.
        let (area, name) = unsafe {
            let area = &*exec.special.add(number);
            let name = match area.name.is_null() {
                true => c"",
                false => CStr::from_ptr(area.name),
            };
            (area, name.to_str().map_err(|_| Errno::EINVAL)?)
        };
        areas.push(SpecialArea {
            name: try_str(name)?,
            pages: area.pages,
            flags: match area.code {
                true => SpecialArea::CODE,
                false => SpecialArea::DATA,
            },
            object: Object::none(),
        });
    }
    Ok(areas)
}

/// Makes a random choice from the seed, and advances it.
fn draw(seed: &mut u64, choice: &Choice) -> u64 {
    // SplitMix64.
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31) % choice.count.max(1)
}

fn auxiliary(exec: &MmExec) -> Auxiliary {
    let defaults = Auxiliary::default();
    let or = |given: u64, default| if given == 0 { default } else { given };
    Auxiliary {
        hwcap: exec.hwcap,
        hwcap2: exec.hwcap2,
        clock_ticks: or(exec.clktck, defaults.clock_ticks),
        signal_stack: or(exec.minsigstksz, defaults.signal_stack),
        user: (exec.uid, exec.euid),
        group: (exec.gid, exec.egid),
        secure: exec.secure,
        random: exec.random,
        ..defaults
    }
}

fn c_started<S>(started: &Started<S>) -> MmStarted {
    MmStarted {
        start: started.start,
        stack_pointer: started.stack_pointer,
        entry: started.entry,
        interpreter: started.interpreter,
        headers: started.headers,
        vdso: started.vdso.unwrap_or(0),
        stack_end: started.stack_end,
        bits: match started.class {
            Class::Elf32 => 32,
            Class::Elf64 => 64,
        },
        personality: started.personality.bits() as _,
    }
}

/// Copies all bytes into the address space.
fn store(space: &dyn Space, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
    match space.copy_in(addr, bytes) == bytes.len() {
        true => Ok(()),
        false => Err(Errno::ENOMEM),
    }
}

/// Creates an address space with a program.
///
/// # Safety
///
/// As [`mm_exec`].
unsafe fn execute(
    given: &MmExec,
    phys: Option<&MmPhys>,
    backend: Option<&MmBackend>,
) -> Result<(Mm, MmStarted), ExecError> {
    let refused = ExecError::Refused;
    if given.path.is_null() {
        return Err(refused(Errno::EFAULT));
    }
    // SAFETY: the caller's duties.
    let (path, arguments, environment, config, special, descriptor) = unsafe {
        (
            CStr::from_ptr(given.path).to_bytes(),
            strings(given.argv).map_err(refused)?,
            strings(given.envp).map_err(refused)?,
            given.config.as_ref().copied().unwrap_or_default().on(phys),
            special(given).map_err(refused)?,
            given.descriptor.as_ref().copied(),
        )
    };
    let (rules, limits) = rules(&config, phys).map_err(refused)?;
    let mut personality = Personality::from_bits_truncate(given.personality as _);
    if config.seed == 0 {
        personality |= Personality::ADDR_NO_RANDOMIZE;
    }
    let settings = Settings {
        special_32: Vec::new(),
        special,
        descriptor,
        ..Settings::default()
    };
    let exec = Exec {
        path,
        arguments: &arguments,
        environment: &environment,
        config: &rules,
        limits,
        personality,
        settings: &settings,
    };
    let mut seed = config.seed;
    let started = AddressSpace::exec(
        &exec,
        &mut |path: &[u8]| open(given, path),
        &mut |choice: &Choice| draw(&mut seed, choice),
    )?;
    let started = started
        .try_map(|map| with_map(map, phys, backend))
        .map_err(ExecError::Killed)?;
    if phys.is_some() {
        let store = |at, bytes: &[u8]| store(&*started.space, at, bytes);
        let written = started.write(&exec, &auxiliary(given), store);
        if let Err(error) = written {
            started.space.put();
            return Err(ExecError::Killed(error));
        }
    }
    let report = c_started(&started);
    let mm = Mm {
        space: started.space,
        backend: backend.map(BackendHooks::new),
        heap: true,
    };
    Ok((mm, report))
}

/// Creates an address space with a program in it, as `execve(2)` does.
///
/// # Safety
///
/// `exec` points to the structure, whose members are what the header says. `phys` came from
/// [`mm_phys_new`](crate::mm::mm_phys_new) or is NULL. `backend` points to functions that behave as
/// the header says, or is NULL. `mm` points to a pointer. `started` points to the structure or is
/// NULL.
// SAFETY: named as in the header, with its signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mm_exec(
    exec: *const MmExec,
    phys: *mut MmPhys,
    backend: *const MmBackend,
    mm: *mut *mut Mm,
    started: *mut MmStarted,
) -> c_int {
    const SIGSEGV: c_int = 11;
    // SAFETY: the caller's duties.
    let (exec, phys, backend) = unsafe { (exec.as_ref(), phys.as_ref(), backend.as_ref()) };
    let Some(exec) = exec else {
        return code(Errno::EINVAL);
    };
    let mut killed = false;
    let make = || {
        // SAFETY: the caller's duties.
        let made = unsafe { execute(exec, phys, backend) };
        let (mm, report) = made.map_err(|error| match error {
            ExecError::Killed(errno) => {
                killed = true;
                errno
            }
            ExecError::Refused(errno) => errno,
        })?;
        if !started.is_null() {
            // SAFETY: the caller's duty.
            unsafe { started.write(report) };
        }
        Ok(mm)
    };
    // SAFETY: the caller's duty.
    let result = unsafe { return_boxed(mm, make) };
    if killed { SIGSEGV } else { result }
}
