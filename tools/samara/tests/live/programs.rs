//! The programs that are followed.

use std::path::PathBuf;

use crate::common::{compiled, compiled_with, fresh, has, scratch, source};

/// A program that waits once it has done what it has to do.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) words: Vec<String>,
    /// The number of processes that there are at least.
    pub(crate) processes: usize,
}

/// If the machine has it; else it is told.
fn installed(processes: usize, words: &[&str]) -> Option<Program> {
    has(words[0]).then(|| Program {
        name: words[0].to_owned(),
        words: words.iter().map(|&word| word.to_owned()).collect(),
        processes,
    })
}

/// The own program, in a state.
fn in_state(program: &Option<PathBuf>, state: &str) -> Option<Program> {
    Some(Program {
        name: if state.len() < 40 {
            format!("states {state}")
        } else {
            "all states at once".into()
        },
        words: vec![program.as_ref()?.display().to_string(), state.to_owned()],
        processes: if state.contains("fork") { 2 } else { 1 },
    })
}

/// The states that `tests/programs/waiting/states.c` can enter.
const STATES: [&str; 20] = [
    "private",
    "heap",
    "advised",
    "files",
    "growing",
    "huge",
    "locked",
    "on-fault",
    "memfd",
    "named",
    "protected",
    "moved",
    "shared",
    "threads",
    "guards",
    "fork",
    "deep",
    "zero",
    "sealed",
    "policy",
];

/// Those that take no time.
pub(crate) fn few() -> Vec<Program> {
    let states = compiled("states");
    let all = STATES.join(",");
    [
        installed(1, &["sleep", "1000"]),
        installed(3, &["sh", "-c", "cat | sort; exit 1"]),
        in_state(&states, &all),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// As many as there are.
pub(crate) fn many() -> Vec<Program> {
    let states = compiled("states");
    let mut programs: Vec<Option<Program>> = STATES
        .iter()
        .map(|state| in_state(&states, state))
        .collect();
    programs.push(in_state(&states, &STATES.join(",")));
    for option in ["-static", "-static-pie", "-no-pie"] {
        let program = compiled_with("states", &[option]);
        programs.push(in_state(&program, "private,heap,threads,moved"));
    }
    let text = source("states.c").display().to_string();
    programs.extend([
        installed(1, &["sleep", "1000"]),
        installed(3, &["sh", "-c", "cat | sort; exit 1"]),
        installed(2, &["bash", "-c", "coproc cat; read line; exit 1"]),
        installed(1, &["dash"]),
        installed(1, &["cat"]),
        installed(1, &["tail", "-f", &text]),
        installed(1, &["grep", "-r", "a", "-"]),
        installed(1, &["sed", "s/a/b/"]),
        installed(1, &["awk", "{ print $1 }"]),
        installed(1, &["mawk", "{ print $1 }"]),
        installed(1, &["tee"]),
        installed(1, &["xxd"]),
        installed(1, &["bc", "-q"]),
        installed(1, &["dc"]),
        installed(
            1,
            &[
                "python3",
                "-c",
                "import json, ssl, asyncio, sqlite3, sys; sys.stdin.read()",
            ],
        ),
        installed(
            5,
            &["python3", &source("waiting_pool.py").display().to_string()],
        ),
        installed(
            1,
            &[
                "perl",
                "-MPOSIX",
                "-MData::Dumper",
                "-e",
                "my @a = (1) x 200000; <STDIN>",
            ],
        ),
        installed(1, &["tclsh"]),
        installed(1, &["ruby", "-e", "gets"]),
        installed(1, &["lua", "-e", "io.read()"]),
        installed(1, &["php", "-r", "fgets(STDIN);"]),
        installed(1, &["guile"]),
        installed(1, &["node", "-e", "process.stdin.resume()"]),
        installed(1, &["sqlite3", ":memory:"]),
        installed(1, &["redis-server", "--port", "0", "--save", ""]),
        installed(1, &["memcached", "-u", "nobody", "-s", "memcached.sock"]),
        installed(
            2,
            &[
                "nginx",
                "-p",
                ".",
                "-g",
                "daemon off; error_log stderr; pid nginx.pid;",
            ],
        ),
        postgres(),
        installed(1, &["gdb", "-q", "-nx", "/bin/sh"]),
        installed(1, &["git", "hash-object", "--stdin"]),
        installed(1, &["make", "-f", "/dev/stdin"]),
        installed(2, &["gcc", "-x", "c", "-", "-o", "/dev/null"]),
        installed(1, &["ssh-agent", "-D", "-a", "agent.sock"]),
        installed(
            1,
            &[
                "dbus-daemon",
                "--session",
                "--nofork",
                "--address=unix:path=./bus",
            ],
        ),
        installed(1, &["tmux", "-S", "tmux.sock", "-D"]),
        installed(1, &["vim", "-u", "NONE", "-"]),
        installed(1, &["top", "-b", "-d", "1000"]),
        installed(
            1,
            &[
                "qemu-system-x86_64",
                "-display",
                "none",
                "-S",
                "-m",
                "64",
                "-nodefaults",
            ],
        ),
        installed(1, &["qemu-x86_64", "/bin/cat"]),
        installed(
            4,
            &[
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--user-data-dir=.",
                "--remote-debugging-port=0",
                "about:blank",
            ],
        ),
        installed(1, &["cargo", "login"]),
        installed(1, &["rustc", "-"]),
        installed(1, &["openssl", "s_server", "-nocert", "-accept", "0"]),
        installed(1, &["setarch", "-R", "cat"]),
        installed(1, &["setarch", "-L", "cat"]),
        installed(1, &["nice", "-n", "5", "cat"]),
        installed(2, &["timeout", "1000", "cat"]),
        installed(1, &["stdbuf", "-o0", "cat"]),
        installed(
            2,
            &[
                "stress-ng",
                "--vm",
                "1",
                "--vm-bytes",
                "8m",
                "--vm-hang",
                "0",
            ],
        ),
        installed(2, &["script", "-q", "-c", "cat", "/dev/null"]),
        java(),
        go(),
    ]);
    programs.into_iter().flatten().collect()
}

/// A database with its processes, as the user `nobody`: it refuses to run as root.
fn postgres() -> Option<Program> {
    if !has("postgres") || !has("initdb") || !has("setpriv") {
        return None;
    }
    let folder = fresh("postgres");
    std::fs::create_dir(&folder).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&folder, mode).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(scratch(), mode).unwrap();
    let folder = folder.display();
    let start = format!(
        "initdb -D {folder}/data >/dev/null && exec postgres -D {folder}/data -k {folder} -h ''"
    );
    let mut words = vec![
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    words.extend(["sh", "-c", &start]);
    Some(Program {
        name: "postgres".into(),
        words: words.into_iter().map(str::to_owned).collect(),
        processes: 6,
    })
}

/// A virtual machine that waits for input: its source is its program.
fn java() -> Option<Program> {
    let wait = fresh("Wait.java");
    std::fs::write(
        &wait,
        "class Wait { public static void main(String[] a) throws Exception { System.in.read(); } }\n",
    )
    .unwrap();
    let path = wait.display().to_string();
    installed(1, &["java", "-Xmx64m", &path])
}

fn go() -> Option<Program> {
    if !has("go") {
        return None;
    }
    let program = fresh("waiting");
    let text = fresh("waiting.go");
    std::fs::write(
        &text,
        "package main\n\nimport \"os\"\n\nvar kept [][]byte\n\nfunc main() {\n\tfor i := 0; i < 100; i++ {\n\t\tkept = append(kept, make([]byte, 100000))\n\t}\n\tos.Stdin.Read(make([]byte, 1))\n}\n",
    )
    .unwrap();
    let built = std::process::Command::new("go")
        .args(["build", "-o"])
        .args([&program, &text])
        .env("GOCACHE", fresh("go-cache"))
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    Some(Program {
        name: "a program in Go".into(),
        words: vec![program.display().to_string()],
        processes: 1,
    })
}
