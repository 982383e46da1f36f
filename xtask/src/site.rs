//! Generates and tests the project's site: the front page, the guides, the playground, and the page
//! of a recording.

use std::path::Path;

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use crate::setup;

/// The folder of the site.
pub(crate) const FOLDER: &str = "docs/site";
const MANIFEST: [&str; 3] = ["--locked", "--manifest-path", "tools/site/Cargo.toml"];
const BROWSER_TARGET: &str = "wasm32-unknown-unknown";
/// The page of a recording that the site includes.
const RECORDING: &str = "target/site/address-space.html";

/// Generates the site. With `photographs`, also takes the pictures of it that the documentation
/// shows.
pub(crate) fn run(shell: &Shell, photographs: bool) -> Result<()> {
    setup::targets(shell, None, &[BROWSER_TARGET])?;
    cmd!(
        shell,
        "cargo build --release {MANIFEST...} -p samara-playground --target {BROWSER_TARGET}"
    )
    .run()?;
    record(shell)?;
    let wasm = format!("tools/site/target/{BROWSER_TARGET}/release/samara_playground.wasm");
    // Emptied first, so that no page of a removed text stays.
    shell.remove_path(FOLDER)?;
    cmd!(
        shell,
        "cargo run {MANIFEST...} -p samara-site -- . {FOLDER} {wasm} {RECORDING}"
    )
    .run()?;
    if photographs {
        setup::debian(shell, "chromium", "chromium")?;
        photograph(shell, "address-space.html", "address-space.png")?;
        photograph(shell, "playground.html#0.12", "tree-splitting.png")?;
    }
    let folder = shell.current_dir().join(FOLDER);
    eprintln!("open {}", folder.join("index.html").display());
    Ok(())
}

/// Records a program that has an interesting address space and that most machines have.
fn record(shell: &Shell) -> Result<()> {
    let import = "import decimal, json, threading; [threading.Thread(target=print).start() for _ in range(4)]";
    let program: &[&str] = if Path::new("/usr/bin/python3").exists() {
        &["/usr/bin/python3", "-c", import]
    } else {
        &["ls", "-lR", "/usr/share"]
    };
    shell.create_dir("target/site")?;
    cmd!(
        shell,
        "cargo run --locked -p samara -- trace --html {RECORDING} -- {program...}"
    )
    .ignore_stdout()
    .run()
    .context("no recording for the site")
}

/// Takes a picture of a page of the site.
fn photograph(shell: &Shell, page: &str, figure: &str) -> Result<()> {
    let folder = shell.current_dir();
    let address = format!("file://{}", folder.join(FOLDER).join(page).display());
    let to = format!(
        "--screenshot={}",
        folder.join("docs/figures").join(figure).display()
    );
    let profile = format!(
        "--user-data-dir={}",
        folder.join("target/site/profile").display()
    );
    let headless = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
    ];
    cmd!(
        shell,
        "chromium {headless...} {profile} --window-size=1280,800 --virtual-time-budget=10000 {to} {address}"
    )
    .ignore_stderr()
    .run()
    .with_context(|| format!("no picture of {page}"))
}

/// Runs the tests of the playground and the generator, in and out of the browser. The site must
/// have been generated.
pub(crate) fn test(shell: &Shell) -> Result<()> {
    cmd!(
        shell,
        "cargo clippy {MANIFEST...} --workspace --all-targets -- -D warnings"
    )
    .run()?;
    let folder = shell.current_dir().join(FOLDER);
    cmd!(
        shell,
        "cargo test {MANIFEST...} --workspace -- --include-ignored"
    )
    .env("SAMARA_SITE", folder)
    .run()?;
    Ok(())
}
