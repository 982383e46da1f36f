//! The cost of tracing: each program runs untraced, under `samara trace` at its default settings
//! and under
//! `strace -f -e trace=memory,process`, in turn within each run. The figure is the time from start to end.
//!
//! strace writes to `/dev/null`, which favours it. A second report replays a recorded trace without comparing maps.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Parser;
use samara_bench::{Options, Report};

#[derive(Parser)]
#[command(about = "Time of real programs under samara trace and under strace")]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// The `samara` to measure: a release build.
    #[arg(long)]
    samara: Option<PathBuf>,
}

/// A program to trace, and what to remove before each run.
struct Program {
    name: &'static str,
    words: Vec<String>,
    fresh: Option<PathBuf>,
}

fn main() {
    let cli = Cli::parse();
    cli.options.apply();
    let Some(samara) = find_samara(cli.samara) else {
        eprintln!(
            "no release build of samara: run `cargo build --release` at the root, or give --samara PATH"
        );
        std::process::exit(2);
    };
    if !has("strace") {
        eprintln!("this machine has no strace: install it");
        std::process::exit(2);
    }
    let folder = std::env::temp_dir().join(format!("samara-bench-{}", std::process::id()));
    if let Err(error) = fs::create_dir_all(&folder) {
        eprintln!("{} cannot be made: {error}", folder.display());
        std::process::exit(2);
    }
    let mut report = Report::new("Programs from start to end", "ms");
    for program in programs(&folder) {
        if !cli.options.wants(program.name) {
            continue;
        }
        if !has(&program.words[0]) {
            eprintln!(
                "{}: skipped, this machine has no `{}`",
                program.name, program.words[0]
            );
            continue;
        }
        let samara_words = [
            samara.to_string_lossy().into_owned(),
            "trace".into(),
            "-q".into(),
            "--".into(),
        ];
        let strace_words = [
            "strace",
            "-f",
            "-o",
            "/dev/null",
            "-e",
            "trace=memory,process",
        ]
        .map(String::from);
        let ways: [&[String]; 3] = [&samara_words, &strace_words, &[]];
        let mut figures = vec![Vec::new(); ways.len()];
        // One round warms the caches and is not counted.
        for run in 0..=cli.options.runs {
            for (way, figures) in ways.iter().zip(&mut figures) {
                let time = time(way, &program);
                if run > 0 {
                    figures.push(time);
                }
            }
        }
        report.add(
            program.name,
            &["samara trace", "strace", "untraced"],
            &figures,
        );
    }
    report.print(cli.options.json);
    if cli.options.wants("replay") {
        replay(&samara, &folder, &cli.options);
    }
    let _ = fs::remove_dir_all(&folder);
}

/// Calls a second of a replay without comparing maps, as the command itself counts them.
fn replay(samara: &Path, folder: &Path, options: &Options) {
    if !has("python3") {
        return;
    }
    let (record, json) = (folder.join("record"), folder.join("json"));
    let traced = quiet(
        Command::new(samara)
            .args(["trace", "-q", "--record"])
            .arg(&record)
            .args(["--", "python3"])
            .arg(source("random/eight_threads.py"))
            .arg("1000"),
    );
    if !traced {
        eprintln!("replay: the trace to replay could not be recorded");
        return;
    }
    let mut figures = vec![Vec::new(), Vec::new()];
    for _ in 0..options.runs {
        quiet(
            Command::new(samara)
                .args(["replay", "-q", "--no-maps", "--json"])
                .arg(&json)
                .arg(&record),
        );
        let summary: serde_json::Value = fs::read(&json)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let number = |name: &str| summary["replay"][name].as_f64().unwrap_or_default();
        figures[0].push(number("calls_per_second") / 1e6);
        figures[1].push(number("calls_per_second_with_reading") / 1e6);
    }
    let mut report = Report::new("Replay without comparing maps", "million calls/s");
    report.add(
        "8 threads × 1000",
        &["performing", "reading and performing"],
        &figures,
    );
    report.print(options.json);
}

fn time(way: &[String], program: &Program) -> f64 {
    if let Some(folder) = &program.fresh {
        let _ = fs::remove_dir_all(folder);
    }
    let words: Vec<&String> = way.iter().chain(&program.words).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env_remove("CARGO_TARGET_DIR");
    let begun = Instant::now();
    if !quiet(&mut command) {
        eprintln!("{}: failed under {}", program.name, words[0]);
    }
    begun.elapsed().as_secs_f64() * 1e3
}

fn quiet(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn has(program: &str) -> bool {
    program.contains('/')
        || std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
        })
}

fn find_samara(given: Option<PathBuf>) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    given
        .or(Some(target.join("release/samara")))
        .filter(|path| path.is_file())
}

/// A program of the tests of the command line.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tools/samara/tests/programs")
        .join(name)
}

fn programs(folder: &Path) -> Vec<Program> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let plain = |name, list: &[&str]| Program {
        name,
        words: words(list),
        fresh: None,
    };
    let mut list = vec![
        plain("ls -lR /usr/share", &["ls", "-lR", "/usr/share"]),
        plain(
            "python imports",
            &["python3", "-c", "import json, ssl, asyncio"],
        ),
    ];

    let mut large = String::from("#include <stdio.h>\n");
    for number in 0..250 {
        large.push_str(&format!(
            "int f{number}(int a, int b) {{\n    int s = {number};\n    for (int k = 0; k < a; k++)\n        s += k * b ^ {number};\n    return s;\n}}\n"
        ));
    }
    let (from, to) = (folder.join("large.c"), folder.join("large.o"));
    let _ = fs::write(&from, large);
    list.push(plain(
        "gcc -O2 -c",
        &["gcc", "-O2", "-c", &text(&from), "-o", &text(&to)],
    ));

    let root = text(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    list.push(plain(
        "git log",
        &["git", "--no-pager", "-C", &root, "log", "-p", "-n", "20"],
    ));

    let tiny = folder.join("tiny");
    let _ = fs::create_dir_all(tiny.join("src"));
    let _ = fs::write(
        tiny.join("Cargo.toml"),
        "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    let _ = fs::write(
        tiny.join("src/main.rs"),
        "fn main() { println!(\"tiny\"); }\n",
    );
    list.push(Program {
        name: "cargo build",
        words: words(&[
            "cargo",
            "build",
            "--offline",
            "--manifest-path",
            &text(&tiny.join("Cargo.toml")),
        ]),
        fresh: Some(tiny.join("target")),
    });
    list.push(plain(
        "shell pipeline",
        &[
            "sh",
            "-c",
            "cat /etc/passwd /etc/group | sort | uniq -c | sed 's/ *//' | head -n 5; for i in 1 2 3; do echo $i | sed s/1/one/; done",
        ],
    ));
    list.push(plain(
        "8 threads × 1000",
        &["python3", &text(&source("random/eight_threads.py")), "1000"],
    ));
    list.push(plain(
        "multiprocessing",
        &["python3", &text(&source("processes/forking_pool.py"))],
    ));
    list.push(plain("java -version", &["java", "-version"]));
    list.push(plain("node -e 0", &["node", "-e", "0"]));
    let collector = folder.join("collector");
    if has("go")
        && quiet(
            Command::new("go")
                .args(["build", "-o"])
                .arg(&collector)
                .arg(source("random/collector.go")),
        )
    {
        list.push(plain("go, garbage collection", &[&text(&collector)]));
    }
    let deep = folder.join("deep");
    if has("cc")
        && quiet(
            Command::new("cc")
                .args(["-O1", "-w", "-o"])
                .arg(&deep)
                .arg(source("growth/deep.c")),
        )
    {
        list.push(plain("recursion 8 MiB deep", &[&text(&deep)]));
    }
    list
}
