//! `cargo xtask kernel`: builds the kernel, boots it in QEMU and ends with its status.
//!
//! The guest's serial port is standard input and output. The kernel writes its log to a second
//! port, or by semihosting. The first byte of a line of the log may have a meaning:
//!
//! - Byte 1 begins a line for this command: `status N`.
//! - Byte 2 begins a line that is printed even with `--quiet`.
//! - Byte 3 begins bytes of the trace (`--trace`).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use xshell::{Shell, cmd};

use crate::setup;

mod foreign;
pub(crate) mod machines;

pub(crate) use foreign::Cross;
pub(crate) use machines::Arch;

#[derive(Args)]
pub(crate) struct Options {
    /// Architecture of the machine.
    #[arg(long, value_enum, default_value = "x86_64")]
    arch: Arch,
    /// QEMU's machine: on x86-64 `q35`, or `microvm`, which has fewer devices; otherwise `virt`.
    #[arg(long)]
    machine: Option<String>,
    /// Memory of the machine, in QEMU's notation.
    #[arg(long, default_value = "512M")]
    memory: String,
    /// Processors of the machine.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    cpus: u8,
    /// Archive with the initial files, in the format newc [default: one with BusyBox].
    #[arg(long)]
    initrd: Option<PathBuf>,
    /// Seconds after which the machine is stopped [default: none on a terminal, otherwise 300].
    #[arg(long)]
    timeout: Option<u64>,
    /// Write a trace of all memory calls to this file, for `samara replay`.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// The treatment of page tables by forks: share them until a process writes, copy them, as Linux
    /// does, or choose by the size of the process.
    #[arg(long, value_parser = ["share", "copy", "auto"], default_value = "auto")]
    fork: String,
    /// Nanoseconds of the machine's time that an instruction takes, as a power of two. All
    /// processors then take turns in one thread.
    #[arg(long, hide = true)]
    icount: Option<u8>,
    /// Features of the kernel for tests, separated by commas.
    #[arg(long, default_value = "", hide = true)]
    features: String,
    /// Print no messages of the kernel, except that of a panic.
    #[arg(long)]
    quiet: bool,
    /// The first program and its arguments [default: a shell].
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// The statuses of this command itself.
const NOT_STARTED: u8 = 2;
const NO_STATUS: u8 = 101;
const TIMED_OUT: u8 = 124;

/// The timeout in seconds of a machine without a terminal.
const DEFAULT_TIMEOUT: u64 = 300;

pub(crate) fn run(shell: &Shell, options: &Options) -> ExitCode {
    let prepared = prepare(shell, options);
    match prepared.and_then(|machine| boot(machine, options)) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(NOT_STARTED)
        }
    }
}

/// Builds everything that the machine needs. Returns the command that starts it.
fn prepare(shell: &Shell, options: &Options) -> Result<Command> {
    let memory = options.memory.trim_end_matches(['M', 'G', 'K']);
    ensure!(
        memory.parse::<u32>().is_ok_and(|memory| memory > 0),
        "--memory takes a number followed by K, M or G, not {:?}",
        options.memory
    );
    let mut machine = machines::command(shell, options)?;
    let initrd = match &options.initrd {
        Some(initrd) => {
            let file = File::open(initrd);
            let file = file.with_context(|| format!("cannot open {}", initrd.display()))?;
            ensure!(
                file.metadata()?.len() > 0,
                "{} is empty: --initrd takes a newc archive",
                initrd.display()
            );
            initrd.clone()
        }
        None => initial_files(shell, options.arch)?,
    };
    let kernel = machines::build(shell, options.arch, &options.features)?;
    machine.arg("-kernel").arg(kernel);
    machine.arg("-initrd").arg(initrd);
    let console = match io::stdin().is_terminal() {
        true => "console=terminal",
        false => "console=plain",
    };
    let fork = format!("fork={}", options.fork);
    let trace = options.trace.as_ref().map_or("", |_| "trace");
    let line = command_line(&[console, &fork, trace], &options.program);
    machine.arg("-append").arg(line);
    Ok(machine)
}

/// Returns the kernel's command line: words for the kernel, and the program.
pub(crate) fn command_line(own: &[&str], program: &[OsString]) -> String {
    let words = program.iter().map(|word| encoded(word.as_bytes()));
    let words: Vec<String> = words.collect();
    format!("{} -- {}", own.join(" "), words.join(" "))
}

/// Encodes a word of the kernel's command line. A byte that would end the word is written as `%`
/// and two digits.
fn encoded(word: &[u8]) -> String {
    if word.is_empty() {
        return "%00".to_owned();
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./=-+:@".contains(&byte);
    word.iter().fold(String::new(), |mut text, &byte| {
        if plain(byte) {
            text.push(byte.into());
        } else {
            text += &format!("%{byte:02x}");
        }
        text
    })
}

/// Returns the folder for an architecture's build products.
fn folder(shell: &Shell, arch: Arch) -> PathBuf {
    let all = shell.current_dir().join("target/kernel");
    match arch {
        Arch::X86_64 => all,
        _ => all.join(arch.name()),
    }
}

/// Creates an archive with a static BusyBox, and its applets as links.
fn initial_files(shell: &Shell, arch: Arch) -> Result<PathBuf> {
    let root = root_folder(shell, arch)?;
    archive(shell, &root)
}

/// Creates the folder from which the archive is made.
pub(crate) fn root_folder(shell: &Shell, arch: Arch) -> Result<PathBuf> {
    let folder = folder(shell, arch);
    shell.create_dir(&folder)?;
    let root = folder.join("root");
    let (busybox, names) = match arch {
        Arch::X86_64 => (static_busybox(shell, &folder)?, None),
        _ => foreign::busybox(shell, arch)?,
    };
    let names = match names {
        Some(names) => names,
        // Debian's BusyBox has the same applets on all architectures.
        None => {
            let own = static_busybox(shell, &self::folder(shell, Arch::X86_64))?;
            let listed = cmd!(shell, "{own} --list").quiet().read()?;
            listed.lines().map(str::to_owned).collect()
        }
    };
    shell.remove_path(&root)?;
    for name in ["bin", "etc", "proc", "root", "tmp"] {
        shell.create_dir(root.join(name))?;
    }
    shell.copy_file(&busybox, root.join("bin/busybox"))?;
    for name in names.iter().filter(|name| *name != "busybox") {
        symlink("busybox", root.join("bin").join(name))?;
    }
    Ok(root)
}

/// Creates an archive of a folder, next to the folder.
pub(crate) fn archive(shell: &Shell, root: &Path) -> Result<PathBuf> {
    setup::debian(shell, "cpio", "cpio")?;
    let archive = root.with_extension("cpio");
    let script = "set -e; cd $1; find . | LC_ALL=C sort | cpio -o -H newc --quiet -R 0:0 >$2.new; mv $2.new $2";
    cmd!(shell, "sh -c {script} sh {root} {archive}")
        .quiet()
        .run()?;
    Ok(archive)
}

/// Returns Debian's static BusyBox: the machine's own, or one from the package, which need not be
/// installed.
fn static_busybox(shell: &Shell, folder: &Path) -> Result<PathBuf> {
    shell.create_dir(folder)?;
    for place in [Path::new("/bin/busybox"), &folder.join("busybox")] {
        let is_static = fs_contains(place, b"ld-linux").is_ok_and(|dynamic| !dynamic);
        if is_static {
            return Ok(place.to_path_buf());
        }
    }
    let _folder = shell.push_dir(folder);
    cmd!(
        shell,
        "apt-get -qq -oAPT::Sandbox::User=root download busybox-static"
    )
    .quiet()
    .run()
    .context("BusyBox is missing: install busybox-static")?;
    let script = "dpkg-deb --fsys-tarfile busybox-static_*.deb | tar -xO ./bin/busybox ./usr/bin/busybox 2>/dev/null >busybox; chmod +x busybox; [ -s busybox ]";
    cmd!(shell, "sh -c {script}").quiet().run()?;
    Ok(folder.join("busybox"))
}

/// Returns `true` if a file contains these bytes.
fn fs_contains(path: &Path, wanted: &[u8]) -> io::Result<bool> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes.windows(wanted.len()).any(|window| window == wanted))
}

/// Runs the machine to its end. Returns the status.
fn boot(mut machine: Command, options: &Options) -> Result<u8> {
    let is_terminal = io::stdin().is_terminal();
    if !is_terminal {
        machine.stdin(Stdio::piped());
    }
    if options.arch.has_talkative_firmware() {
        machine.stdout(Stdio::piped());
    }
    let mut machine = machine
        .stderr(Stdio::piped())
        .spawn()
        .context("QEMU does not start")?;
    let (begins, begun) = mpsc::channel();
    let output = machine.stdout.take();
    let output = match output {
        Some(output) => Some(thread::spawn(move || forward_output(output, &begins))),
        None => {
            begins.send(())?;
            None
        }
    };
    if let Some(input) = machine.stdin.take() {
        thread::spawn(move || {
            // The firmware would drop earlier input.
            let _ = begun.recv();
            forward_input(input);
        });
    }
    let Some(messages) = machine.stderr.take() else {
        bail!("QEMU's messages cannot be read");
    };
    let (sender, ended) = mpsc::channel();
    let quiet = options.quiet;
    let trace = options.trace.as_ref().map(|trace| {
        let opened = File::create(trace);
        opened.with_context(|| format!("cannot write {}", trace.display()))
    });
    let trace = trace.transpose()?.map(BufWriter::new);
    thread::spawn(move || sender.send(read_messages(messages, quiet, trace)));
    let limit = options
        .timeout
        .or((!is_terminal).then_some(DEFAULT_TIMEOUT))
        .map(Duration::from_secs);
    let status = wait(&mut machine, &ended, limit)?;
    machine.wait()?;
    if let Some(Err(_)) = output.map(thread::JoinHandle::join) {
        bail!("the console cannot be shown");
    }
    Ok(status)
}

/// Copies the guest's console to standard output, from byte 1 on. Reports byte 1 to `begins`.
fn forward_output(mut console: impl Read, begins: &mpsc::Sender<()>) {
    let (mut bytes, mut begun) = ([0; 4096], false);
    let mut output = io::stdout().lock();
    while let Ok(count @ 1..) = console.read(&mut bytes) {
        let mut shown = &bytes[..count];
        if !begun {
            let Some(end) = shown.iter().position(|&byte| byte == 1) else {
                continue;
            };
            (shown, begun) = (&shown[end + 1..], true);
            let _ = begins.send(());
        }
        // Standard output may be a closed pipe.
        let _ = output.write_all(shown).and_then(|()| output.flush());
    }
}

fn wait(
    machine: &mut Child,
    ended: &mpsc::Receiver<Option<u8>>,
    limit: Option<Duration>,
) -> Result<u8> {
    let start = Instant::now();
    let told = match limit {
        Some(limit) => ended.recv_timeout(limit),
        None => ended.recv().map_err(RecvTimeoutError::from),
    };
    match told {
        Ok(Some(status)) => Ok(status),
        Err(RecvTimeoutError::Timeout) => {
            machine.kill()?;
            eprintln!("xtask: stopped after {} s", start.elapsed().as_secs());
            Ok(TIMED_OUT)
        }
        _ => {
            eprintln!("xtask: the machine ended without a status");
            Ok(NO_STATUS)
        }
    }
}

/// Prints the kernel's messages, and writes the trace. Returns the kernel's status.
fn read_messages(messages: impl Read, quiet: bool, mut trace: Option<impl Write>) -> Option<u8> {
    let mut status = None;
    for line in BufReader::new(messages).split(b'\n') {
        let line = line.ok()?;
        match &line[..] {
            [1, told @ ..] => {
                let told = String::from_utf8_lossy(told);
                status = told
                    .strip_prefix("status ")
                    .and_then(|number| number.trim().parse().ok());
            }
            [3, digits @ ..] => {
                let bytes = digits.chunks_exact(2).map(|pair| {
                    let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
                    digit(pair[0]) << 4 | digit(pair[1])
                });
                let bytes: Vec<u8> = bytes.collect();
                if let Some(trace) = &mut trace
                    && let Err(error) = trace.write_all(&bytes)
                {
                    eprintln!("xtask: the record cannot be written: {error}");
                }
            }
            [2, told @ ..] => eprintln!("{}", String::from_utf8_lossy(told)),
            _ if quiet => {}
            told => eprintln!("{}", String::from_utf8_lossy(told)),
        }
    }
    status
}

/// Copies standard input to the guest's console. Byte 16 is sent twice, and byte 16 with `e` is the
/// end of input.
fn forward_input(mut to: ChildStdin) {
    let mut input = io::stdin().lock();
    while let Ok(bytes) = input.fill_buf() {
        if bytes.is_empty() {
            break;
        }
        let mut escaped = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            escaped.push(byte);
            if byte == 16 {
                escaped.push(byte);
            }
        }
        let len = bytes.len();
        if to.write_all(&escaped).is_err() {
            return;
        }
        input.consume(len);
    }
    // An error means that the guest has ended.
    let _ = to.write_all(&[16, b'e']);
    // Stays open, because QEMU would see the end of its input.
    std::mem::forget(to);
}
