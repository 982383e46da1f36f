//! The programs that are traced.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Program;
use crate::common::{built_by_go, compiled_with, fresh, has, scratch};

/// Returns `true` if a file is a program in the machine's own code that any user may run, and that
/// runs with its caller's privileges.
fn is_program(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else {
        return false;
    };
    let mode = metadata.permissions().mode();
    let mut start = [0; 4];
    metadata.is_file()
        && mode & 0o111 == 0o111
        && mode & 0o6000 == 0
        && fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok())
        && start == *b"\x7fELF"
}

/// Programs of `/usr/bin`, as many as asked for and spread over the alphabet: what version they are, with and without address randomisation, and
/// in the legacy layout.
pub(crate) fn utilities(count: usize) -> Vec<Program> {
    let mut paths: Vec<PathBuf> = fs::read_dir("/usr/bin")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| is_program(path))
        .collect();
    paths.sort();
    let chosen = count.min(paths.len());
    let layouts: &[&[&str]] = match has("setarch") {
        true => &[&[], &["setarch", "-R"], &["setarch", "-L"]],
        false => &[&[]],
    };
    let spread = |number: usize| &paths[number * paths.len() / chosen];
    let ways = (0..chosen).flat_map(|number| layouts.iter().map(move |way| (spread(number), way)));
    ways.map(|(path, way)| {
        let mut words: Vec<&str> = way.to_vec();
        words.extend([path.to_str().unwrap(), "--version"]);
        let name = path.file_name().unwrap().to_str().unwrap();
        Program::new(&format!("{name} {}", way.concat()), &words)
            .seconds(10)
            .like_untraced()
    })
    .collect()
}

/// Not of use here: they fill disks, want devices, or trace their own children.
const LEFT_OUT: [&str; 6] = [
    "resources",
    "physpage",
    "swap",
    "watchdog",
    "vm-segv",
    "oom-pipe",
];

/// The stressors of memory that `stress-ng` has.
pub(crate) fn stressors() -> Vec<Program> {
    if !has("stress-ng") {
        return Vec::new();
    }
    let mut names = vec![
        "fork".to_owned(),
        "vfork".into(),
        "clone".into(),
        "exec".into(),
    ];
    for class in ["vm?", "memory?"] {
        let listed = Command::new("stress-ng")
            .args(["--class", class])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&listed.stdout).into_owned()
            + &String::from_utf8_lossy(&listed.stderr);
        let list = text.rsplit_once("stressors:").map_or("", |(_, list)| list);
        names.extend(list.split_whitespace().map(str::to_owned));
    }
    names.sort();
    names.dedup();
    names.retain(|name| !LEFT_OUT.contains(&name.as_str()));
    let program = |name: &String| {
        let (one, operations) = (format!("--{name}"), format!("--{name}-ops"));
        let words = [
            "stress-ng",
            &one,
            "1",
            &operations,
            "2000",
            "--timeout",
            "30",
        ];
        Program::new(&format!("stress-ng {name}"), &words).apart()
    };
    names.iter().map(program).collect()
}

/// A program under each of the compiler's sanitizers, and under what reads its memory from outside.
pub(crate) fn checked() -> Vec<Program> {
    let mut programs = Vec::new();
    for sanitizer in ["address", "thread", "leak", "undefined"] {
        let option = format!("-fsanitize={sanitizer}");
        // The check for leaks traces its own process, and gives up if another process does.
        let leaks = matches!(sanitizer, "address" | "leak");
        for (name, argument) in [
            ("many_threads", "40"),
            ("many_areas", ""),
            ("fork_tree", "3"),
        ] {
            if let Some(path) = compiled_with(name, &[&option]) {
                let name = format!("{name} {option}");
                let program = Program::new(&name, &[path.to_str().unwrap(), argument]);
                programs.push(if leaks {
                    program
                } else {
                    program.like_untraced()
                });
            }
        }
    }
    if has("gdb") {
        let words = [
            "gdb",
            "-q",
            "-nx",
            "-batch",
            "-ex",
            "start",
            "-ex",
            "info proc mappings",
            "-ex",
            "continue",
            "ls",
        ];
        programs.push(Program::new("gdb -batch", &words));
    }
    if has("valgrind") {
        programs.push(Program::new("valgrind", &["valgrind", "-q", "ls", "/"]));
    }
    programs
}

/// Machines of other languages, with their own ways to manage memory.
pub(crate) fn interpreters() -> Vec<Program> {
    let mut programs = Vec::new();
    for name in ["test_mmap", "test_subprocess", "test_threading"] {
        if has("python3") {
            programs.push(
                Program::new(name, &["python3", "-m", "test", name])
                    .seconds(600)
                    .apart(),
            );
        }
    }
    if has("java") {
        let file = fresh("Garbage.java");
        fs::write(&file, GARBAGE).unwrap();
        for collector in ["Serial", "Parallel", "G1", "Z"] {
            let option = format!("-XX:+Use{collector}GC");
            let words = ["java", "-Xmx128m", &option, file.to_str().unwrap()];
            programs.push(Program::new(&format!("java {option}"), &words));
        }
    }
    if has("node") {
        let text = "let a = []; for (let i = 0; i < 3e5; i++) { a.push({ i, s: 'x'.repeat(i % 100) }); if (i % 1e5 == 0) a = []; }";
        programs.push(Program::new("node", &["node", "-e", text]));
    }
    if let Some(path) = built_by_go("collector") {
        programs.push(Program::new("go", &[path.to_str().unwrap()]));
    }
    programs
}

/// Makes garbage for a collector, by four threads.
const GARBAGE: &str = "\
import java.util.*;

class Garbage {
    public static void main(String[] a) throws Exception {
        Thread[] threads = new Thread[4];
        for (int t = 0; t < 4; t++) {
            threads[t] = new Thread(() -> {
                List<byte[]> kept = new ArrayList<>();
                for (int i = 0; i < 20000; i++) {
                    kept.add(new byte[i % 4000]);
                    if (i % 3000 == 0) kept.clear();
                }
            });
            threads[t].start();
        }
        for (Thread t : threads) t.join();
    }
}
";

/// Servers with some clients, all of them traced.
pub(crate) fn servers() -> Vec<Program> {
    let mut programs = Vec::new();
    if has("redis-server") && has("redis-cli") && has("redis-benchmark") {
        let command = "redis-server --port 0 --unixsocket ./redis.sock --save '' --daemonize no >/dev/null & \
             until redis-cli -s ./redis.sock ping >/dev/null 2>&1; do sleep 0.1; done; \
             redis-benchmark -s ./redis.sock -q -n 5000 -r 10000 -t set,get,lpush >/dev/null; \
             redis-cli -s ./redis.sock bgsave; redis-benchmark -s ./redis.sock -q -n 5000 -r 10000 -t set >/dev/null; \
             sleep 1; redis-cli -s ./redis.sock shutdown nosave; wait";
        programs.push(Program::shell("redis with BGSAVE", command).apart());
    }
    if has("nginx") && has("curl") {
        let command = "printf 'worker_processes 2; events {} http { access_log off; server { listen unix:./nginx.sock; root /usr/share; } }' >c; \
             nginx -p . -c ./c -e stderr -g 'daemon off; pid nginx.pid;' & \
             until curl -s --unix-socket nginx.sock http://a/ >/dev/null; do sleep 0.1; done; \
             for i in 1 2 3 4 5 6 7 8 9 10; do curl -s --unix-socket nginx.sock http://a/common-licenses/GPL-3 >/dev/null; done; \
             kill -QUIT %1 2>/dev/null || kill -QUIT $(cat nginx.pid); wait";
        programs.push(Program::shell("nginx", command).apart());
    }
    programs.extend(postgres());
    if has("chromium") {
        let words = [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--user-data-dir=.",
            "--dump-dom",
            "data:text/html,<p id=a></p><script>let s=0;for(let i=0;i<1e5;i++)s+=i;a.textContent=s</script>",
        ];
        programs.push(Program::new("chromium", &words).apart());
    }
    programs
}

/// A database as the user `nobody`, since it refuses to run as root, with some clients at once.
fn postgres() -> Option<Program> {
    let folder = fs::read_dir("/usr/lib/postgresql").ok()?.flatten().next();
    let Some(folder) = folder.filter(|_| has("setpriv") && has("pgbench")) else {
        println!("skipped: this machine has no PostgreSQL");
        return None;
    };
    let programs = folder.path().join("bin");
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    open(scratch(), 0o711);
    let command = format!(
        "export PATH={}:$PATH; initdb -D data >/dev/null && {{ postgres -D data -k $PWD -h '' >/dev/null 2>&1 & }}; \
         until psql -h $PWD -c 'select 1' postgres >/dev/null 2>&1; do sleep 0.2; done; \
         pgbench -h $PWD -i -s 1 postgres >/dev/null 2>&1; pgbench -h $PWD -c 4 -j 2 -t 200 postgres >/dev/null; \
         pg_ctl -D data stop -m fast >/dev/null; wait",
        programs.display()
    );
    let words = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "sh",
        "-c",
        &command,
    ];
    let program = Program::new("postgres", &words).apart();
    open(&program.folder, 0o777);
    Some(program)
}
