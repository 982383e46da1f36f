//! A page in headless Chromium, asked by a script of its own.
//!
//! Chromium's own `--dump-dom` is enough for this, and needs no crate, no runtime and no socket. A
//! script behind the page's own does what a person would, by the same events, and leaves its result
//! in the document. The browser prints the document once it has loaded, and `ask.js` keeps it
//! loading until the result is there.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The browser, as Debian calls it.
const BROWSER: &str = "chromium";

/// Opens a copy of a page in a window of this size and runs a script in it, the body of an asynchronous function with a few helpers in
/// `ask.js`; the value is what it returned.
pub(crate) fn ask(page: &str, size: (u32, u32), script: &str) -> Value {
    let helpers = include_str!("ask.js");
    let asking = format!("<script>{helpers}\nask(async () => {{ {script} }});</script></body>");
    let copy = super::fresh("asked.html");
    std::fs::write(&copy, page.replacen("</body>", &asking, 1)).unwrap();
    let output = browser(&copy, size, &["--dump-dom"]);
    let text = String::from_utf8_lossy(&output);
    let answer = text
        .rsplit_once("<pre id=\"answer\">")
        .and_then(|(_, behind)| behind.split_once("</pre>"))
        .unwrap_or_else(|| panic!("no answer in: {}", &text[..text.len().min(4000)]))
        .0;
    let answer: Value = serde_json::from_str(answer).unwrap();
    assert_eq!(answer["error"], Value::Null, "the script failed");
    answer["value"].clone()
}

/// Runs the browser on a file, and gives what it printed.
fn browser(page: &Path, (width, height): (u32, u32), options: &[&str]) -> Vec<u8> {
    let profile: PathBuf = super::fresh("profile");
    let output = Command::new(BROWSER)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
        ])
        .arg("--disable-dev-shm-usage")
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--window-size={width},{height}"))
        .args(options)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap_or_else(|error| panic!("{BROWSER} cannot be started: {error}"));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}
