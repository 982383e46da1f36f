//! Measures, draws and fills in the figures of the README and of docs/benchmarks.md.

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::kernel_bench;

/// The folder of the figures: measurements as JSON, and pictures as SVG.
const FOLDER: &str = "docs/figures";

/// Runs the benchmarks, or the one named `only`, draws the pictures, and fills the tables. With
/// `draw_only`, uses the latest measurements.
pub(crate) fn run(shell: &Shell, quick: bool, only: Option<&str>, draw_only: bool) -> Result<()> {
    let manifest = [
        "--release",
        "--locked",
        "--manifest-path",
        "bench/Cargo.toml",
    ];
    if !draw_only {
        shell.create_dir(FOLDER)?;
        for (name, mode) in [
            ("table", &[][..]),
            ("growth", &["--growth"][..]),
            ("readers", &["--readers"][..]),
            ("c", &["--c"][..]),
        ] {
            if only.is_some_and(|only| only != name) {
                continue;
            }
            let small: &[&str] = match (quick, name) {
                (false, _) => &[],
                (true, "growth") => &["--quick", "--sizes", "100,1000,10000,100000"],
                (true, _) => &["--quick"],
            };
            let json = cmd!(
                shell,
                "cargo run {manifest...} --bin tree -- --json {mode...} {small...}"
            )
            .read()?;
            shell.write_file(format!("{FOLDER}/{name}.json"), json + "\n")?;
        }
        if only.is_none_or(|only| only == "pages") {
            let small: &[&str] = if quick {
                &["--runs", "1", "--pages", "65536"]
            } else {
                &[]
            };
            let json = cmd!(
                shell,
                "cargo run {manifest...} -p samara-pages -- --json {small...}"
            )
            .read()?;
            shell.write_file(format!("{FOLDER}/pages.json"), json + "\n")?;
        }
        if only.is_none_or(|only| only == "kernel") {
            shell.write_file(
                format!("{FOLDER}/kernel.json"),
                kernel_bench::figures(shell)?,
            )?;
        }
    }
    cmd!(shell, "cargo run {manifest...} --bin figures").run()?;
    Ok(())
}
