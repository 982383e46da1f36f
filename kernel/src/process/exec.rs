//! Program loading: `execve(2)`, and the first process.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use samara_mm::exec::{
    Auxiliary, Choice, Exec, ExecError, Image, Personality, Program, SetId, Settings, SpecialArea,
    Started,
};
use samara_mm::process::{FrameRun, Inode, PageFrame};
use samara_mm::{Capabilities, Config, Errno};
use spin::Once;

use super::exit::{self, end_other_threads, exit_group};
use super::signals::SIGSEGV;
use super::thread::{Process, Thread, first_frame};
use super::{Frame, scheduler, table};
use crate::arch::{Arch, Context, Machine};
use crate::fs::{self, Dentry, FdTable, OpenFile};
use crate::memory::{Memory, heap, machine, managed_frames};
use crate::trace;

/// The bytes of a program's file.
struct FileImage(Arc<fs::Inode>);

impl Image for FileImage {
    fn len(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        self.0.read(offset, into)
    }
}

/// Opens files by path, relative to a directory, and keeps the first one.
struct Programs {
    directory: Arc<Dentry>,
    first: Option<Arc<Dentry>>,
}

impl samara_mm::exec::Files for Programs {
    type Image = FileImage;

    fn open(&mut self, path: &[u8]) -> Result<Program<FileImage>, Errno> {
        let dentry = fs::find(&self.directory, path, true)?;
        if !dentry.inode.is_regular() || dentry.inode.mode() & 0o111 == 0 {
            return Err(Errno::EACCES);
        }
        let open = OpenFile::new(dentry.clone(), fs::O_RDONLY)?;
        let file = open.file().ok_or(Errno::EACCES)?;
        let image = FileImage(dentry.inode.clone());
        self.first.get_or_insert(dentry);
        Ok(Program { file, image, set_id: SetId::No })
    }
}

/// Linux's name for the page, on architectures that have one.
const SIGNAL_PAGE: &str = "[sigpage]";

/// Returns the settings that all programs share. They hold the page to which signal handlers
/// return: one frame of the image, which every process maps.
// ANCHOR: settings
fn settings() -> Result<&'static Settings, Errno> {
    static SETTINGS: Once<Settings> = Once::new();
    SETTINGS.try_call_once(|| {
        let mut settings = Settings { architecture: Arch::ARCHITECTURE, ..Settings::default() };
        if let Some(phys) = Arch::sigreturn_page() {
            let run = FrameRun { first: PageFrame::Special(phys), pages: 1 };
            let (object, flags) = (Inode::object(run)?, SpecialArea::CODE);
            settings.special =
                vec![SpecialArea { name: SIGNAL_PAGE.into(), pages: 1, flags, object }];
        }
        Ok(settings)
    })
}
// ANCHOR_END: settings

struct Loaded {
    started: Started<Memory>,
    dentry: Option<Arc<Dentry>>,
    name: Vec<u8>,
    command_line: Vec<u8>,
}

fn load(
    directory: Arc<Dentry>,
    limits: samara_mm::Limits,
    path: &[u8],
    arguments: &[&[u8]],
    environment: &[&[u8]],
) -> Result<Loaded, ExecError> {
    let end = Arch::TASK_SIZE;
    let capabilities = Capabilities {
        ipc_lock: true,
        sys_admin: true,
        sys_nice: true,
        sys_rawio: true,
        sys_resource: true,
    };
    let config = Config {
        task_size: end,
        window: end,
        shmem_huge: false,
        total_pages: managed_frames(),
        capabilities,
        ..Config::default()
    };
    let settings = settings().map_err(ExecError::Refused)?;
    let exec = Exec {
        path,
        arguments,
        environment,
        config: &config,
        limits,
        personality: Personality::empty(),
        settings,
    };
    let mut random = [0; 16];
    fs::fill_random(&mut random);
    let (hwcap, signal_stack) = (Arch::HWCAP, Arch::MIN_SIGNAL_STACK);
    let auxiliary = Auxiliary { hwcap, signal_stack, ..Auxiliary::new(random) };
    let mut programs = Programs { directory, first: None };
    let draw = &mut |choice: &Choice| Arch::random() % choice.count.max(1);
    let started = Memory::exec(machine(), &exec, &auxiliary, &mut programs, draw)?;
    let mut command_line = Vec::new();
    for argument in started.arguments(&exec) {
        command_line.extend_from_slice(argument);
        command_line.push(0);
    }
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path).to_vec();
    Ok(Loaded { started, dentry: programs.first, name, command_line })
}

/// Replaces the program of the caller's process. Returns the frame with which the new program
/// starts.
///
/// # Errors
///
/// Those of `execve(2)`. The old program continues, unless its memory is gone already: then the
/// process ends.
pub fn execute(
    thread: &Arc<Thread>,
    path: &[u8],
    arguments: &[&[u8]],
    environment: &[&[u8]],
) -> Result<Frame, Errno> {
    let process = &thread.process;
    let (directory, limits) = (process.cwd.lock().clone(), *process.limits.lock());
    let loaded = match load(directory, limits, path, arguments, environment) {
        Ok(loaded) => loaded,
        Err(ExecError::Refused(error)) => return Err(error),
        Err(ExecError::Killed(error)) => {
            exit_group(process, SIGSEGV);
            return Err(error);
        }
    };
    heap::check_reserve()?;
    if !end_other_threads(thread) {
        return Err(Errno::EINTR);
    }
    let files = process.files.lock().clone();
    let files = if Arc::strong_count(&files) > 2 { files.copy() } else { files };
    files.close_on_exec();
    *process.files.lock() = files;
    let actions = Arc::new(process.actions.lock().copy());
    actions.reset();
    *process.actions.lock() = actions;
    super::futex::on_thread_exit(thread);
    thread.signals.lock().altstack = (0, super::thread::DISABLED, 0);
    // The processor must load another root first, because the old page tables are freed with the
    // old memory.
    exit::release_memory(process);
    Ok(enter(thread, loaded))
}

/// Installs a loaded program in the thread's process. Returns the frame with which it starts.
fn enter(thread: &Arc<Thread>, loaded: Loaded) -> Frame {
    let Loaded { started, dentry, name, command_line } = loaded;
    let process = &thread.process;
    let (start, sp) = (started.start, started.stack_pointer);
    trace::executed(&started.space);
    let page = started.space.with_space(|space| Some(space.special(SIGNAL_PAGE)?.start));
    process.signal_return.store(page.unwrap_or(0), Ordering::Relaxed);
    let memory = Arc::new(started.space);
    *process.memory.lock() = Some(memory.clone());
    *process.executable.lock() = dentry;
    *process.command_line.lock() = command_line;
    process.is_vfork_done.store(process.pid == 1, Ordering::SeqCst);
    let mut short = [0; 16];
    let len = name.len().min(15);
    short[..len].copy_from_slice(&name[..len]);
    *thread.name.lock() = short;
    if scheduler::current().is_some() {
        scheduler::switch_mm(Some(memory));
        thread.with_context(|context| {
            context.set_thread_pointer(0);
            context.reset_float();
        });
        exit::complete_vfork(process);
    }
    first_frame(start, sp)
}

/// Starts the first process.
///
/// # Errors
///
/// Those of `execve(2)`.
pub fn start_first(path: &[u8], arguments: &[&[u8]], environment: &[&[u8]]) -> Result<(), Errno> {
    let root = fs::root();
    let loaded = load(root.clone(), samara_mm::Limits::default(), path, arguments, environment);
    let loaded = loaded.map_err(|error| match error {
        ExecError::Refused(error) | ExecError::Killed(error) => error,
    })?;
    let process = Arc::new(Process::new(table::new_pid(), FdTable::with_console()?, root));
    process.live_threads.store(1, Ordering::SeqCst);
    // A thread's context needs the program's first frame, which `enter` returns. This thread only
    // carries the name.
    let first = Thread::new(process.pid, &process, Default::default(), 0);
    let frame = enter(&first, loaded);
    let thread = Thread::new(process.pid, &process, Context::new(frame, 0, false), 0);
    *thread.name.lock() = *first.name.lock();
    process.threads.lock().push(thread.clone());
    table::insert(&process);
    // The console is the first process's controlling terminal.
    fs::console::get().pgid.store(process.pid, Ordering::Relaxed);
    fs::console::get().sid.store(process.pid, Ordering::Relaxed);
    scheduler::wake(&thread);
    Ok(())
}
