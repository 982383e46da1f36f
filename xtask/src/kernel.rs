//! `cargo xtask kernel`: builds the kernel, boots it in QEMU and ends with its status.
//!
//! The guest's first serial port is standard input and output. On the second one the kernel writes its messages. A line there that begins with byte 1 is for this
//! command (`status N`), one that begins with byte 2 is told even if messages are not wanted, and byte 3 begins bytes of the record (`--trace`).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use xshell::{Shell, cmd};

use crate::setup;

#[derive(Args)]
pub(crate) struct Options {
    /// The processor's architecture.
    #[arg(long, value_enum, default_value = "x86_64")]
    arch: Arch,
    /// QEMU's machine; `microvm` has fewer devices.
    #[arg(long, value_parser = ["q35", "microvm"], default_value = "q35")]
    machine: String,
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
    /// Leave the kernel's messages out; a panic is told always.
    #[arg(long)]
    quiet: bool,
    /// The first program, with its arguments; a shell if there is none.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Arch {
    #[value(name = "x86_64")]
    X86_64,
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
    let Arch::X86_64 = options.arch;
    let memory = options.memory.trim_end_matches(['M', 'G', 'K']);
    ensure!(
        memory.parse::<u32>().is_ok_and(|memory| memory > 0),
        "--memory takes a number with K, M or G behind it, not {:?}",
        options.memory
    );
    setup::debian(shell, "qemu-system-x86_64", "qemu-system-x86")?;
    let initrd = match &options.initrd {
        Some(initrd) => {
            File::open(initrd).with_context(|| format!("cannot open {}", initrd.display()))?;
            initrd.clone()
        }
        None => initial_files(shell)?,
    };
    let kernel = build(shell)?;
    let mut machine = Command::new("qemu-system-x86_64");
    let flags = "-accel tcg -cpu qemu64 -display none -nodefaults -no-reboot -chardev stdio,id=console,signal=off -serial chardev:console -chardev file,id=log,path=/dev/stderr -device isa-serial,chardev=log,iobase=0x2f8,irq=3,index=1 -device isa-debug-exit,iobase=0xf4,iosize=4";
    machine.args(flags.split(' '));
    machine.args(["-M", &options.machine, "-m", &options.memory]);
    machine.args(["-smp", &options.cpus.to_string()]);
    machine.arg("-kernel").arg(kernel);
    machine.arg("-initrd").arg(initrd);
    let traced = options.trace.is_some();
    machine
        .arg("-append")
        .arg(command_line(&options.program, traced));
    Ok(machine)
}

/// Builds the kernel, which is a workspace of its own with its own settings for the compiler.
fn build(shell: &Shell) -> Result<PathBuf> {
    setup::targets(shell, None, &["x86_64-unknown-none"])?;
    let _folder = shell.push_dir("kernel");
    cmd!(shell, "cargo build --release --locked --quiet")
        .quiet()
        .run()?;
    let built = "target/x86_64-unknown-none/release/samara-kernel";
    Ok(shell.current_dir().join(built))
}

/// What the kernel is told: whether its console is a terminal, and the program.
fn command_line(program: &[OsString], traced: bool) -> String {
    let console = if io::stdin().is_terminal() {
        "terminal"
    } else {
        "plain"
    };
    let words = program.iter().map(|word| encoded(word.as_bytes()));
    let words: Vec<String> = words.collect();
    let trace = if traced { "trace " } else { "" };
    format!("console={console} {trace}-- {}", words.join(" "))
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

/// An archive with Debian's static BusyBox, and its applets as links.
fn initial_files(shell: &Shell) -> Result<PathBuf> {
    let root = root_folder(shell)?;
    archive(shell, &root)
}

/// Makes the folder that the archive is made of.
pub(crate) fn root_folder(shell: &Shell) -> Result<PathBuf> {
    let folder = shell.current_dir().join("target/kernel");
    let root = folder.join("root");
    let busybox = static_busybox(shell, &folder)?;
    shell.remove_path(&root)?;
    for name in ["bin", "etc", "proc", "root", "tmp"] {
        shell.create_dir(root.join(name))?;
    }
    shell.copy_file(&busybox, root.join("bin/busybox"))?;
    let script = "set -e; cd $1; for name in $(bin/busybox --list); do [ -e bin/$name ] || ln -s busybox bin/$name; done";
    cmd!(shell, "sh -c {script} sh {root}").quiet().run()?;
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
    let mut machine = machine
        .stderr(Stdio::piped())
        .spawn()
        .context("QEMU does not start")?;
    if let Some(input) = machine.stdin.take() {
        thread::spawn(move || forward(input));
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
    Ok(status)
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
