//! Large programs, recorded once and replayed: a build of 500 files of C, and FP-growth in place of PARSEC's freqmine.
//!
//! Both are generated, the same each time, and recorded by `samara trace --record` into a folder of their own; nothing of this is
//! committed. A replay performs all calls on the engine without the programs, and without comparing maps.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Parser;
use samara_bench::{Options, Report};

#[derive(Parser)]
#[command(about = "A build of many files and FP-growth, recorded and replayed")]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// The `samara` to measure: a release build.
    #[arg(long)]
    samara: Option<PathBuf>,
    /// Files of C in the build.
    #[arg(long, default_value_t = 500)]
    files: u32,
    /// A folder in which programs and recordings are kept. Without it they are deleted.
    #[arg(long)]
    keep: Option<PathBuf>,
}

fn main() {
    let cli = Cli::parse();
    cli.options.apply();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let samara = cli.samara.unwrap_or(root.join("target/release/samara"));
    if !samara.is_file() {
        eprintln!(
            "no release build of samara: run `cargo build --release` at the root, or give --samara PATH"
        );
        std::process::exit(2);
    }
    let passing =
        std::env::temp_dir().join(format!("samara-bench-recorded-{}", std::process::id()));
    let folder = cli.keep.as_ref().unwrap_or(&passing);
    if let Err(error) = measure(&samara, folder, &cli.options, cli.files) {
        eprintln!("{}: {error}", folder.display());
        std::process::exit(1);
    }
    if cli.keep.is_none() {
        let _ = fs::remove_dir_all(&passing);
    }
}

fn measure(samara: &Path, folder: &Path, options: &Options, files: u32) -> io::Result<()> {
    let tree = folder.join("tree");
    write_tree(&tree, files)?;
    let growth = folder.join("fp_growth");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/fp_growth.c");
    quiet(
        Command::new("cc")
            .args(["-O2", "-o"])
            .arg(&growth)
            .arg(source),
    )?;

    let mut build = Command::new("make");
    build.args(["--silent", "-j1", "-C"]).arg(&tree);
    let mut mining = Command::new(&growth);
    mining.args(["100000", "1000", "1000", "1"]);
    let programs = [
        (format!("build of {files} files"), build),
        ("FP-growth".to_owned(), mining),
    ];
    let mut report = Report::new("Replay without comparing maps", "million calls/s");
    for (name, program) in programs {
        if !options.wants(&name) {
            continue;
        }
        let record = folder.join(format!("{}.trace", name.replace(' ', "-")));
        let mut trace = Command::new(samara);
        trace
            .args(["trace", "-q", "--record"])
            .arg(&record)
            .arg("--");
        quiet(trace.arg(program.get_program()).args(program.get_args()))?;
        let mut figures = vec![Vec::new(), Vec::new()];
        let mut calls = 0;
        for _ in 0..options.runs {
            let summary = replay(samara, folder, &record)?;
            calls = summary["calls_total"].as_u64().unwrap_or_default();
            let rate = |name: &str| summary["replay"][name].as_f64().unwrap_or_default() / 1e6;
            figures[0].push(rate("calls_per_second"));
            figures[1].push(rate("calls_per_second_with_reading"));
        }
        let size = fs::metadata(&record)?.len();
        let name = format!("{name}: {calls} calls, {} KiB", size >> 10);
        report.add(&name, &["performing", "reading and performing"], &figures);
    }
    report.print(options.json);
    Ok(())
}

fn replay(samara: &Path, folder: &Path, record: &Path) -> io::Result<serde_json::Value> {
    let json = folder.join("json");
    quiet(
        Command::new(samara)
            .args(["replay", "-q", "--no-maps", "--json"])
            .arg(&json)
            .arg(record),
    )?;
    serde_json::from_slice(&fs::read(&json)?).map_err(io::Error::other)
}

/// Files that call each other in a chain, each with a header and some work for the compiler.
fn write_tree(tree: &Path, files: u32) -> io::Result<()> {
    fs::create_dir_all(tree)?;
    let mut makefile = String::from("CFLAGS = -O1\nobjects =");
    for number in 0..files {
        let _ = write!(makefile, " f{number}.o");
        let next = (number + 1) % files;
        let mut text = format!(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include \"f{next}.h\"\n"
        );
        for function in 0..4 + number % 5 {
            let _ = write!(
                text,
                "static int g{function}(int a, int b) {{\n    int s = {number};\n    for (int k = 0; k < a; k++) s += k * b ^ {function};\n    return s;\n}}\n"
            );
        }
        let _ = write!(
            text,
            "int f{number}(int a) {{\n    char text[64];\n    snprintf(text, sizeof text, \"%d\", g0(a, {number}) + g1(a, 2) + g2(a, 3) + g3(a, 4));\n    return a ? f{next}(a - 1) : (int)strlen(text) + atoi(text);\n}}\n"
        );
        fs::write(tree.join(format!("f{number}.c")), text)?;
        fs::write(
            tree.join(format!("f{number}.h")),
            format!("int f{number}(int a);\n"),
        )?;
    }
    makefile +=
        "\nall: main\nmain: main.o $(objects)\n\t$(CC) -o $@ $^\nclean:\n\trm -f main *.o\n";
    fs::write(tree.join("Makefile"), makefile)?;
    let main = "#include <stdio.h>\n#include \"f0.h\"\nint main(void) { printf(\"%d\\n\", f0(9)); return 0; }\n";
    fs::write(tree.join("main.c"), main)?;
    // Objects of an earlier run would leave nothing to be done.
    quiet(Command::new("make").arg("-C").arg(tree).arg("clean"))
}

fn quiet(command: &mut Command) -> io::Result<()> {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        return Ok(());
    }
    let name = command.get_program().to_string_lossy();
    Err(io::Error::other(format!("{name}: {status}")))
}
