//! The traced program behaves as without a tracer, and a program that cannot be traced is reported
//! in one line.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Stdio;

use common::{
    Traced, agrees, agrees_ending, compiled, copy_program, fresh, samara, samara_in_front, scratch,
    trace_with,
};
use serde_json::Value;

/// Exit code and standard error of a refused command.
fn refused(arguments: &[&str]) -> String {
    let output = samara().args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

/// The same, and it is one line.
fn refused_in_a_line(arguments: &[&str]) -> String {
    let text = refused(arguments);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("samara: "), "{text}");
    text
}

fn executable(name: &str, content: &[u8]) -> String {
    let (path, written) = (fresh(name), fresh(name));
    fs::write(&written, content).unwrap();
    copy_program(written, &path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A program for i386, or for another machine with 32-bit addresses: `exit(0)` through `int 0x80`.
fn program_of_32_bits(machine: u16) -> String {
    let code = b"\xb8\x01\x00\x00\x00\x31\xdb\xcd\x80";
    let mut elf = b"\x7fELF\x01\x01\x01".to_vec();
    elf.resize(16, 0);
    let half = |elf: &mut Vec<u8>, value: u16| elf.extend(value.to_le_bytes());
    let word = |elf: &mut Vec<u8>, value: u32| elf.extend(value.to_le_bytes());
    half(&mut elf, 2);
    half(&mut elf, machine);
    for value in [1, 0x0804_8054, 52, 0, 0] {
        word(&mut elf, value);
    }
    for value in [52, 32, 1, 0, 0, 0] {
        half(&mut elf, value);
    }
    let size = 84 + code.len() as u32;
    for value in [1, 0, 0x0804_8000, 0x0804_8000, size, size, 5, 0x1000] {
        word(&mut elf, value);
    }
    elf.extend(code);
    executable("e32", &elf)
}

#[test]
fn exit_codes_are_the_programs_own() {
    for code in [0, 1, 7, 255] {
        let traced = trace_with(&[], &["sh", "-c", &format!("exit {code}")], scratch());
        assert_eq!(traced.output.status.code(), Some(code));
        assert_eq!(traced.summary["exit_code"], code);
    }
}

#[test]
fn death_by_a_signal_is_told() {
    for (signal, name) in [(11, "SIGSEGV"), (9, "SIGKILL"), (15, "SIGTERM")] {
        let traced = trace_with(
            &["-q"],
            &["sh", "-c", &format!("kill -{signal} $$")],
            scratch(),
        );
        assert_eq!(traced.output.status.code(), Some(128 + signal));
        assert_eq!(traced.summary["signal"], signal);
        let told = traced.stderr();
        assert!(
            told.contains(&format!("killed by signal {signal} ({name})")),
            "{told}"
        );
    }
}

#[test]
fn misuse_is_told_in_one_line() {
    assert!(refused_in_a_line(&["trace", "no-such-program-anywhere"]).contains("not in PATH"));
    assert!(refused_in_a_line(&["trace", "/no/such/file"]).contains("does not exist"));
    assert!(refused_in_a_line(&["trace", "/etc"]).contains("is a directory"));
    assert!(refused_in_a_line(&["trace", "/etc/passwd"]).contains("chmod +x"));
    assert!(refused_in_a_line(&["trace", "--json", "/no/such/x", "true"]).contains("--json"));
    assert!(refused_in_a_line(&["trace", "--record", "/no/such/x", "true"]).contains("--record"));
    assert!(
        refused_in_a_line(&["trace", &executable("plain", b"echo hello\n")])
            .contains("interpreter")
    );
    let missing = executable("missing", b"#!/no/such/interpreter\n");
    assert!(refused_in_a_line(&["trace", &missing]).contains("interpreter"));
    assert!(refused(&["trace"]).contains("PROGRAM"));
    assert!(refused(&["trace", "--verify", "0", "true"]).contains("each"));
    assert!(refused(&["trace", "--verify", "often", "true"]).contains("each"));
    let mistyped = refused_in_a_line(&["trace", "--nonsense", "true"]);
    assert!(mistyped.contains("unexpected argument '--nonsense'"));
    let both = fresh("both").display().to_string();
    let twice = refused_in_a_line(&["trace", "--json", &both, "--record", &both, "true"]);
    assert!(twice.contains("one file") && !Path::new(&both).exists());
}

#[test]
fn programs_for_other_machines_are_refused() {
    const ARM: u16 = 40;
    const X86_64: u16 = 62;
    let kinds = [(ARM, "for another machine"), (X86_64, "an x32 program")];
    for (machine, kind) in kinds {
        let program = program_of_32_bits(machine);
        assert!(refused_in_a_line(&["trace", &program]).contains(kind));
    }
}

/// Asserts that everything compared agreed, and that the reason why the rest was not compared is
/// reported.
fn assert_not_all_compared(traced: &Traced, why: &str) {
    assert_eq!(traced.output.status.code(), Some(69), "{}", traced.stderr());
    assert_eq!(traced.summary["agreed"], false);
    assert_eq!(traced.summary["verdict"], "not all compared");
    assert_eq!(
        traced.count("wrong_results") + traced.count("wrong_maps"),
        0
    );
    let told = traced.stderr();
    let last = told.lines().last().unwrap_or_default();
    assert!(
        last.contains("NOT COMPARED") && last.contains(why),
        "{told}"
    );
}

/// Six processes, the first of which ends when the last has been made; then the limit on descriptors.
const MANY: &str =
    "for n in 1 2 3 4 5 6; do sleep 1000 & all=\"$all $!\"; done; kill $all; wait; ulimit -n";

#[test]
fn running_out_of_descriptors_is_no_agreement() {
    let (json, record) = (fresh("few.json"), fresh("few"));
    let output = std::process::Command::new("sh")
        .args([
            "-c",
            "ulimit -n 16; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_samara"),
            "trace",
            "--json",
        ])
        .arg(&json)
        .arg("--record")
        .arg(&record)
        .args(["--", "sh", "-c", MANY])
        .output()
        .unwrap();
    let summary: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let traced = Traced { output, summary };
    assert_eq!(traced.stdout(), "16\n");
    assert_not_all_compared(&traced, "Too many open files");
    let replayed = samara().arg("replay").arg(&record).output().unwrap();
    assert_eq!(replayed.status.code(), Some(69));
}

#[test]
fn the_soft_limit_on_descriptors_is_the_programs_own() {
    let output = std::process::Command::new("sh")
        .args([
            "-c",
            "ulimit -Sn 16; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_samara"),
            "trace",
            "--",
        ])
        .args(["sh", "-c", MANY])
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"16\n");
}

/// Returns the output of `sh` for a command line in which `$0` is this program. The environment,
/// which takes space on the stack, is small.
fn under_shell(script: &str) -> std::process::Output {
    std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_samara")])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()
        .unwrap()
}

#[test]
fn a_small_stack_is_the_programs_own() {
    let output = under_shell(
        "ulimit -s 64; exec \"$0\" trace -q -- sh -c 'ulimit -s; ls / | wc -l; exit 3'",
    );
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(output.stdout.starts_with(b"64\n"), "{told}");
    // Ctrl-C is heard there, too.
    let mut child = samara_in_front();
    child.args(["trace", "-q", "--", "sh", "-c"]);
    child.arg("sleep 1000 & trap \"kill $!; exit 5\" INT; echo ready; wait");
    let limit = libc::rlimit {
        rlim_cur: 64 << 10,
        rlim_max: 64 << 10,
    };
    // SAFETY: between fork and exec nothing is called but `setrlimit`, which may be.
    unsafe {
        child.pre_exec(move || {
            libc::setrlimit(libc::RLIMIT_STACK, &raw const limit);
            Ok(())
        });
    }
    child.env_clear();
    child.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut ready).unwrap();
    // SAFETY: a process of ours that has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn closed_output_is_told() {
    let output = under_shell("exec \"$0\" trace -q --json - -- true >&-");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("give --json another file"), "{told}");
}

/// A record that becomes longer than `ulimit -f` allows is told, and the program runs on to its own end: SIGXFSZ is its own as well.
#[test]
fn a_limit_on_files_ends_the_record_and_not_the_program() {
    let limited = |record: &Path, script: &str| {
        std::process::Command::new("sh")
            .args([
                "-c",
                "ulimit -f 6; exec \"$@\"",
                "sh",
                env!("CARGO_BIN_EXE_samara"),
                "trace",
                "-q",
                "--record",
            ])
            .arg(record)
            .args(["--", "sh", "-c", script])
            .output()
            .unwrap()
    };
    let record = fresh("long");
    let output = limited(&record, "ls / >/dev/null; echo done; exit 3");
    assert_eq!(output.stdout, b"done\n");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("File too large"), "{told}");
    assert_eq!(output.status.code(), Some(2), "{told}");
    let output = limited(Path::new("/dev/null"), "kill -XFSZ $$");
    assert_eq!(output.status.code(), Some(128 + libc::SIGXFSZ));
}

#[test]
fn what_is_hidden_from_the_tracer_is_not_compared() {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can act as two others");
        return;
    }
    // Executable for all, readable for none but its owner; in a place that all reach.
    let folder = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in("/tmp")
        .unwrap();
    let hidden = folder.path().join("hidden");
    copy_program("/bin/true", &hidden);
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o111)).unwrap();
    let own = folder.path().join("samara");
    copy_program(env!("CARGO_BIN_EXE_samara"), &own);
    let output = std::process::Command::new(&own)
        .args(["trace", "--"])
        .arg(&hidden)
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{told}");
    assert!(
        told.lines()
            .last()
            .unwrap_or_default()
            .contains("NOTHING WAS COMPARED"),
        "{told}"
    );
}

#[test]
fn a_child_that_asks_not_to_be_traced_keeps_its_calls() {
    let Some(program) = compiled("untraced") else {
        return;
    };
    let traced = agrees(&[program]);
    assert_eq!(traced.stdout(), "0 wrong\n");
    assert_eq!(traced.count("processes"), 4);
    assert_eq!(traced.count("forks"), 2);
}

#[test]
fn sigpipe_that_was_ignored_stays_ignored() {
    let script = "trap '' PIPE; exec \"$@\" trace -q -- grep ^SigIgn /proc/self/status";
    let output = std::process::Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_samara")])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let ignored = u64::from_str_radix(text.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(ignored >> (libc::SIGPIPE - 1) & 1, 1);
}

#[test]
fn json_goes_to_standard_output() {
    let output = samara()
        .args(["trace", "-q", "--json", "-", "true"])
        .output()
        .unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["verdict"], "agree");
}

#[test]
fn a_32_bit_child_is_followed() {
    let program = program_of_32_bits(libc::EM_386);
    let traced = trace_with(
        &["--verify", "each"],
        &["sh", "-c", &format!("{program}; echo after $?")],
        scratch(),
    );
    // A machine without 32-bit emulation cannot start it: the shell says so.
    if traced.stdout() != "after 0\n" {
        eprintln!("skipped in part: this machine runs no program for i386");
    }
    traced.assert_agrees();
}

#[test]
fn arguments_behind_the_program_are_its_own() {
    let traced = trace_with(
        &["-q"],
        &["echo", "--verify", "each", "-q", "--", "--help"],
        scratch(),
    );
    assert_eq!(traced.stdout(), "--verify each -q -- --help\n");
    let output = samara()
        .args(["trace", "-q", "echo", "-n", "--json"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"--json");
}

#[test]
fn standard_streams_pass_through() {
    let mut child = samara()
        .args(["trace", "-q", "--", "sh", "-c", "cat; echo problem >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"through\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"through\n");
    assert_eq!(output.stderr, b"problem\n");
}

#[test]
fn closed_streams_stay_closed() {
    let seen = fresh("streams");
    let script = format!(
        "exec 3>{}; for n in 0 1 2; do if [ -e /proc/self/fd/$n ]; then echo $n >&3; fi; done",
        seen.display()
    );
    // A shell closes its streams and becomes the tracer.
    let status = std::process::Command::new("sh")
        .args([
            "-c",
            "exec \"$@\" <&- >&- 2>&-",
            "sh",
            env!("CARGO_BIN_EXE_samara"),
        ])
        .args(["trace", "--", "sh", "-c", &script])
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(fs::read_to_string(&seen).unwrap(), "");
}

#[test]
fn the_signal_dispositions_are_the_shells() {
    let status = |wrapped: bool| {
        let mut command = if wrapped {
            let mut command = samara();
            command.args(["trace", "-q", "--"]);
            command.arg("grep");
            command
        } else {
            // As a shell would start it: the test's runtime ignores SIGPIPE.
            let mut command = std::process::Command::new("env");
            command.args(["--default-signal=PIPE", "grep"]);
            command
        };
        command
            .args(["^Sig[BIC]", "/proc/self/status"])
            .output()
            .unwrap()
            .stdout
    };
    let (plain, traced) = (status(false), status(true));
    assert_eq!(
        String::from_utf8(traced).unwrap(),
        String::from_utf8(plain).unwrap()
    );
}

#[test]
fn interrupt_goes_to_the_program_and_the_tracer_reports() {
    let json = fresh("json");
    let mut child = samara_in_front()
        .args([
            "trace",
            "-q",
            "--json",
            json.to_str().unwrap(),
            "--",
            "sh",
            "-c",
        ])
        .arg("trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut ready).unwrap();
    // What a terminal does: the signal goes to the tracer and to the program it started.
    let summary = std::process::Command::new("pgrep")
        .args(["-P", &child.id().to_string()])
        .output()
        .unwrap();
    let program = String::from_utf8(summary.stdout).unwrap();
    for process in [child.id().to_string(), program.trim().to_owned()] {
        std::process::Command::new("kill")
            .args(["-INT", &process])
            .status()
            .unwrap();
    }
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "caught\n");
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(
        fs::read_to_string(json)
            .unwrap()
            .contains("\"agreed\": true")
    );
}

#[test]
fn termination_is_passed_on() {
    let mut child = samara()
        .args(["trace", "-q", "--", "sh", "-c", "echo ready; exec sleep 60"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut ready)
        .unwrap();
    std::process::Command::new("kill")
        .arg(child.id().to_string())
        .status()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 15));
    assert_eq!(output.status.signal(), None);
}

#[test]
fn stop_and_continue_reach_the_parent() {
    let Some(program) = compiled("stop_and_continue") else {
        return;
    };
    let traced = agrees(&[program]);
    assert_eq!(traced.stdout(), "stopped 1 by 19\ncontinued 1\nexit 5\n");
}

#[test]
fn a_program_that_traces_others_is_refused_by_the_kernel_and_goes_on() {
    let Some(program) = compiled("traces_itself") else {
        return;
    };
    let traced = agrees(&[program]);
    assert_eq!(traced.stdout(), "traceme -1\nattach -1\n");
    assert_eq!(traced.count("tracers_refused"), 2);
}

#[test]
fn processes_that_outlive_the_program_are_followed() {
    let traced = agrees_ending(&["sh", "-c", "(sleep 0.3; ls / >/dev/null) & exit 4"], 4);
    assert!(traced.count("execs") >= 3);
}

#[test]
fn a_long_command_line_passes_through() {
    let long = "x".repeat(100_000);
    let mut program = vec!["echo".to_owned()];
    program.extend((0..10).map(|_| long.clone()));
    let traced = trace_with(&["-q"], &program, scratch());
    assert_eq!(traced.output.stdout.len(), 10 * (long.len() + 1));
}

#[test]
fn each_call_can_be_printed() {
    let traced = trace_with(&["--calls", "-q"], &["true"], scratch());
    let told = traced.stderr();
    assert!(told.contains("] exec\n"), "{told}");
    assert!(told.contains("mmap(NULL, "), "{told}");
    assert!(
        told.contains("PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0x0) = 0x"),
        "{told}"
    );
}
