//! `cargo xtask kernel`: builds the kernel, boots it in QEMU and ends with its status.
//!
//! The guest's serial port is standard input and output. On a second one, or by semihosting, the kernel writes its messages. A line there that begins with byte 1 is for this
//! command (`status N`), one that begins with byte 2 is told even if messages are not wanted, and byte 3 begins bytes of the record (`--trace`).

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
    /// The processor's architecture.
    #[arg(long, value_enum, default_value = "x86_64")]
    arch: Arch,
    /// QEMU's machine. On x86-64 `q35`, or `microvm`, which has fewer devices; else `virt`.
    #[arg(long)]
    machine: Option<String>,
    /// Memory of the machine, as QEMU writes it.
    #[arg(long, default_value = "512M")]
    memory: String,
    /// Processors of the machine.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    cpus: u8,
    /// An archive with the first files, of the kind newc. Otherwise one with BusyBox is made.
    #[arg(long)]
    initrd: Option<PathBuf>,
    /// Seconds after which the machine is stopped. Unless it is given: none on a terminal, else 300.
    #[arg(long)]
    timeout: Option<u64>,
    /// Write the record of all memory calls that `samara replay` performs again to this file.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// What a fork does with page tables: both processes use them until one writes, or they are copied, as by Linux, or what suits the size of the process.
    #[arg(long, value_parser = ["share", "copy", "auto"], default_value = "auto")]
    fork: String,
    /// Nanoseconds of the machine's time that an instruction takes, as a power of two. All processors then take turns in one thread.
    #[arg(long, hide = true)]
    icount: Option<u8>,
    /// Features of the kernel that tests have, with commas.
    #[arg(long, default_value = "", hide = true)]
    features: String,
    /// Leave the kernel's messages out; a panic is told always.
    #[arg(long)]
    quiet: bool,
    /// The first program, with its arguments; a shell if there is none.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// Statuses of this command's own.
const NOT_STARTED: u8 = 2;
const NO_STATUS: u8 = 101;
const LATE: u8 = 124;

/// Seconds that a machine without a terminal gets.
const PATIENCE: u64 = 300;

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

/// Builds all that the machine needs. Returns the command that starts it.
fn prepare(shell: &Shell, options: &Options) -> Result<Command> {
    let memory = options.memory.trim_end_matches(['M', 'G', 'K']);
    ensure!(
        memory.parse::<u32>().is_ok_and(|memory| memory > 0),
        "--memory takes a number with K, M or G behind it, not {:?}",
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

/// What the kernel is told: words for itself, and the program.
pub(crate) fn command_line(own: &[&str], program: &[OsString]) -> String {
    let words = program.iter().map(|word| encoded(word.as_bytes()));
    let words: Vec<String> = words.collect();
    format!("{} -- {}", own.join(" "), words.join(" "))
}

/// A word of the kernel's command line: what would end it is written as `%` and two digits.
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

/// Where what is made for an architecture lies.
fn folder(shell: &Shell, arch: Arch) -> PathBuf {
    let all = shell.current_dir().join("target/kernel");
    match arch {
        Arch::X86_64 => all,
        _ => all.join(arch.name()),
    }
}

/// An archive with a static BusyBox, and its applets as links.
fn initial_files(shell: &Shell, arch: Arch) -> Result<PathBuf> {
    let root = root_folder(shell, arch)?;
    archive(shell, &root)
}

/// Makes the folder that the archive is made of.
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
        // Debian builds it in the same way for all.
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

/// Makes an archive of a folder, beside it.
pub(crate) fn archive(shell: &Shell, root: &Path) -> Result<PathBuf> {
    setup::debian(shell, "cpio", "cpio")?;
    let archive = root.with_extension("cpio");
    let script = "set -e; cd $1; find . | LC_ALL=C sort | cpio -o -H newc --quiet -R 0:0 >$2.new; mv $2.new $2";
    cmd!(shell, "sh -c {script} sh {root} {archive}")
        .quiet()
        .run()?;
    Ok(archive)
}

/// Debian's `busybox-static`: the one on the machine, or out of the package, which need not be installed.
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
        Some(output) => Some(thread::spawn(move || pass_on(output, &begins))),
        None => {
            begins.send(())?;
            None
        }
    };
    if let Some(input) = machine.stdin.take() {
        thread::spawn(move || {
            // Firmware would drop what comes before.
            let _ = begun.recv();
            forward(input);
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
        .or((!is_terminal).then_some(PATIENCE))
        .map(Duration::from_secs);
    let status = wait(&mut machine, &ended, limit)?;
    machine.wait()?;
    if let Some(Err(_)) = output.map(thread::JoinHandle::join) {
        bail!("the console cannot be shown");
    }
    Ok(status)
}

/// Writes what the kernel's console shows to standard output: all behind byte 1, of which `begins` is told.
fn pass_on(mut console: impl Read, begins: &mpsc::Sender<()>) {
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
        // Nobody may read it any more.
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
            Ok(LATE)
        }
        _ => {
            eprintln!("xtask: the machine ended without a status");
            Ok(NO_STATUS)
        }
    }
}

/// Tells what the kernel does. Returns the status that it ends with.
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

/// Hands standard input to the guest's console. Its end is told by byte 16 and `e`, and byte 16 itself is told twice.
fn forward(mut to: ChildStdin) {
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
    // The guest has ended, if nobody reads this.
    let _ = to.write_all(&[16, b'e']);
    // QEMU goes on without input.
    std::mem::forget(to);
}
