//! The cost of a recording's page: milliseconds to its first picture, and frames a second while the
//! recording is scrubbed, lists shown, and the
//! picture zoomed. The calls are those of a random storm.
//!
//! Debian's Chromium runs in real time, without a display and without a graphics processor: what is drawn is drawn by the
//! processor. A script behind the page's own measures, and tells by the console.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Parser;

#[derive(Parser)]
#[command(about = "Opening and frame rate of the page of a recording, in headless Chromium")]
struct Cli {
    /// The `samara` to measure: a release build.
    #[arg(long)]
    samara: Option<PathBuf>,
    /// Calls of the recordings.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 20_000, 100_000])]
    calls: Vec<u32>,
    /// Runs of each, of which the median is printed.
    #[arg(long, default_value_t = 3)]
    runs: usize,
}

/// Told by the page: the names, in the order of the numbers.
const TOLD: [&str; 7] = [
    "opens, ms",
    "its scripts, ms",
    "scrub, frames/s",
    "scrub areas, frames/s",
    "zoom, frames/s",
    "a step, ms",
    "the picture, ms",
];

const MEASURE: &str = r#"
(async () => {
  const { life, picture } = samara;
  const frame = () => new Promise(requestAnimationFrame);
  const rate = async (count, doing) => {
    const begun = performance.now();
    for (let i = 0; i < count; i++) { doing(i / count); await frame(); }
    return count / (performance.now() - begun) * 1000;
  };
  const each = (count, doing) => {
    const begun = performance.now();
    for (let i = 0; i < count; i++) doing(i / count);
    return (performance.now() - begun) / count;
  };
  const scrub = part => samara.go(Math.floor(part * life.steps));
  for (let i = 0; i < 30; i++) await frame();
  const told = [samara.opening.whole, samara.opening.scripts];
  told.push(await rate(240, scrub));
  samara.open("areas");
  told.push(await rate(240, scrub));
  samara.open("calls");
  told.push(await rate(120, part => { picture.look(0.4 * part, 1 - 0.4 * part, 0, life.steps * (1 - part / 2)); picture.drawAreas(); }));
  samara.fit();
  told.push(each(200, part => { scrub(part); samara.draw(); }));
  const pen = document.getElementById("areas").getContext("2d");
  told.push(each(20, () => { picture.drawAreas(); pen.getImageData(0, 0, 1, 1); }));
  console.log("measured: " + told.map(number => number.toFixed(1)).join(" "));
})();
"#;

fn main() {
    let cli = Cli::parse();
    if let Err(text) = run(&cli) {
        eprintln!("pictures: {text}");
        std::process::exit(2);
    }
}

fn run(cli: &Cli) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let samara = cli
        .samara
        .clone()
        .unwrap_or_else(|| root.join("target/release/samara"));
    let folder = std::env::temp_dir().join(format!("samara-pictures-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let storm = folder.join("storm");
    let source = root.join("tools/samara/tests/programs/random/storm.c");
    ran(Command::new("cc")
        .args(["-O1", "-w", "-pthread", "-o"])
        .arg(&storm)
        .arg(source))?;
    println!(
        "{:>9} {:>10} {:>10}  {}",
        "calls",
        "page, KiB",
        "drawn, ms",
        TOLD.join(" · ")
    );
    for calls in &cli.calls {
        let (record, page) = (folder.join("record"), folder.join("page.html"));
        ran(Command::new(&samara)
            .args(["trace", "-q", "--record"])
            .arg(&record)
            .arg("--")
            .arg(&storm)
            .args(["7", &calls.to_string(), "1", "0"]))?;
        let begun = Instant::now();
        ran(Command::new(&samara)
            .args(["replay", "-q"])
            .arg(&record)
            .arg("--html")
            .arg(&page))?;
        let drawn = begun.elapsed();
        let text = fs::read_to_string(&page).map_err(|error| error.to_string())?;
        let measured = text.replacen("</body>", &format!("<script>{MEASURE}</script></body>"), 1);
        fs::write(&page, &measured).map_err(|error| error.to_string())?;
        let mut runs: Vec<Vec<f64>> = (0..cli.runs.max(1))
            .map(|_| measure(&page, &folder.join("profile")))
            .collect::<Result<_, _>>()?;
        let medians: Vec<String> = (0..TOLD.len())
            .map(|place| {
                runs.sort_by(|a, b| a[place].total_cmp(&b[place]));
                format!("{:.1}", runs[runs.len() / 2][place])
            })
            .collect();
        println!(
            "{calls:>9} {:>10} {:>10}  {}",
            text.len() >> 10,
            drawn.as_millis(),
            medians.join(" · ")
        );
    }
    fs::remove_dir_all(&folder).map_err(|error| error.to_string())
}

/// Runs a program to its end.
fn ran(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let told = |what: String| format!("{name}: {what}");
    match command.stdout(Stdio::null()).status() {
        // A recording in which not all could be compared can be drawn.
        Ok(status) if matches!(status.code(), Some(0 | 69)) => Ok(()),
        Ok(status) => Err(told(status.to_string())),
        Err(error) => Err(told(error.to_string())),
    }
}

/// Opens a page, and waits for what it tells.
fn measure(page: &Path, profile: &Path) -> Result<Vec<f64>, String> {
    let mut browser = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args(["--enable-logging=stderr", "--remote-debugging-port=0"])
        .arg("--window-size=1280,800")
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("chromium: {error}; install Debian's chromium"))?;
    let lines = browser.stderr.take().map(BufReader::new);
    let told = lines
        .into_iter()
        .flat_map(BufRead::lines)
        .map_while(Result::ok)
        .find_map(|line| {
            let numbers = line
                .split_once("measured: ")?
                .1
                .split('"')
                .next()?
                .to_owned();
            Some(numbers)
        });
    // Ended whatever it told; its own processes end with it.
    let _ = browser.kill();
    let _ = browser.wait();
    let numbers: Vec<f64> = told
        .iter()
        .flat_map(|line| line.split_whitespace())
        .filter_map(|word| word.parse().ok())
        .collect();
    if numbers.len() == TOLD.len() {
        Ok(numbers)
    } else {
        Err("the page told nothing".to_owned())
    }
}
