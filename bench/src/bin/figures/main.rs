//! Draws the pictures and fills the tables of the texts from the figures that the benchmarks wrote as JSON.
//! `cargo xtask figures` runs the benchmarks first.

mod beside_linux;
mod c;
mod full;
mod pages;
mod pictures;
mod short;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use samara_bench::{Report, Row};
use serde::de::DeserializeOwned;

/// The map that everything is compared with.
const STANDARD: [&str; 2] = ["BTreeMap", "RwLock<BTreeMap>"];

#[derive(Parser)]
#[command(about = "Pictures and tables out of the benchmarks' figures")]
struct Cli {
    /// The folder with `table.json`, `growth.json`, `readers.json`, `c.json`, `pages.json` and `kernel.json`, into which the pictures go.
    #[arg(long, default_value = "docs/figures")]
    folder: PathBuf,
    /// The file with the short table. Tables stand between `<!-- figures:NAME -->` and `<!-- /figures:NAME -->`.
    #[arg(long, default_value = "README.md")]
    readme: PathBuf,
    /// The file with the table of all operations.
    #[arg(long, default_value = "docs/benchmarks.md")]
    benchmarks: PathBuf,
}

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() {
    let cli = Cli::parse();
    if let Err(error) = run(&cli) {
        eprintln!("figures: {error}");
        std::process::exit(1);
    }
}

fn run(cli: &Cli) -> Outcome<()> {
    let table: Report = read(&cli.folder.join("table.json"))?;
    let growth: Report = read(&cli.folder.join("growth.json"))?;
    let readers: Report = read(&cli.folder.join("readers.json"))?;
    let c: Report = read(&cli.folder.join("c.json"))?;
    let pages: samara_pages::Figures = read(&cli.folder.join("pages.json"))?;
    let kernel: samara_pages::Figures = read(&cli.folder.join("kernel.json"))?;
    pictures::overview(&table, &cli.folder.join("overview.svg"))?;
    pictures::growth(&growth, &cli.folder.join("growth.svg"))?;
    pictures::readers(&readers, &cli.folder.join("readers.svg"))?;
    pages::projection(&pages, &cli.folder.join("projection.svg"))?;
    beside_linux::bars(&kernel, &cli.folder.join("kernel.svg"))?;
    fill(&cli.readme, "short", &short::table(&table))?;
    fill(&cli.benchmarks, "table", &full::operations(&table))?;
    fill(&cli.benchmarks, "c", &c::operations(&c))?;
    fill(&cli.benchmarks, "pages", &pages::operations(&pages))?;
    fill(&cli.benchmarks, "model", &pages::model(&pages))?;
    fill(&cli.benchmarks, "kernel", &pages::operations(&kernel))?;
    Ok(())
}

fn read<T: DeserializeOwned>(path: &Path) -> Outcome<T> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

/// Replaces what is between the marks of `name` in a file.
fn fill(path: &Path, name: &str, table: &str) -> Outcome<()> {
    let open = format!("<!-- figures:{name} -->");
    let close = format!("<!-- /figures:{name} -->");
    let missing = |mark: &str| format!("{}: there is no {mark}", path.display());
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (before, rest) = text.split_once(&open).ok_or_else(|| missing(&open))?;
    let (_, after) = rest.split_once(&close).ok_or_else(|| missing(&close))?;
    fs::write(path, format!("{before}{open}\n{table}{close}{after}"))?;
    Ok(())
}

/// Linux's tree relative to the standard map, both as they were where the targets were set.
fn linux(row: &Row) -> Option<f64> {
    let target = row.target.as_ref()?;
    let limit = target
        .limits
        .iter()
        .find(|limit| STANDARD.contains(&limit.rival.as_str()))?;
    Some(target.linux? / limit.figure)
}

/// Returns the text of the column "target reached".
fn reached(row: &Row) -> &'static str {
    match row.target.as_ref().and_then(|target| target.met) {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    }
}

/// Three digits, thousands apart.
fn digits(figure: f64) -> String {
    if figure < 10.0 {
        return format!("{figure:.2}");
    }
    if figure < 100.0 {
        return format!("{figure:.1}");
    }
    let whole = format!("{figure:.0}");
    let mut text = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
