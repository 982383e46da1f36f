//! Makes the project's site out of its Markdown, and the playground out of its parts.
//!
//! `samara-site ROOT OUT WASM [RECORDING]`: the project's root, the folder to fill, the playground's WebAssembly, and the page of a recording to show. Pages keep
//! the places that their sources have in the project, so that the links between them stay as they are. A link to what is not there is an error.

#[path = "../../samara/src/picture/inline.rs"]
mod inline;
mod markdown;
mod playground;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use markdown::Page;

/// Folders whose Markdown becomes pages, and single files.
const SOURCES: [&str; 9] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "docs",
    "crates/maple-tree/docs",
    "crates/mm/docs",
    "tools/samara/docs",
];
const FIGURES: &str = "docs/figures";
/// Links that each page has, with the page they lead to.
const MENU: [(&str, &str); 6] = [
    ("Samara", "index.html"),
    ("Playground", "playground.html"),
    ("An address space", "address-space.html"),
    ("Guides", "guides.html"),
    ("Benchmarks", "docs/benchmarks.html"),
    ("Architecture", "ARCHITECTURE.html"),
];

type Result<T> = std::result::Result<T, String>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.as_slice() {
        [root, out, wasm, rest @ ..] if rest.len() < 2 => make(
            Path::new(root),
            Path::new(out),
            Path::new(wasm),
            rest.first().map(Path::new),
        ),
        _ => Err("usage: samara-site ROOT OUT WASM [RECORDING]".to_owned()),
    };
    if let Err(text) = done {
        eprintln!("samara-site: {text}");
        std::process::exit(1);
    }
}

fn make(root: &Path, out: &Path, wasm: &Path, recording: Option<&Path>) -> Result<()> {
    let sources = sources(root)?;
    write(&out.join("playground.html"), playground::page(&read(wasm)?))?;
    if let Some(recording) = recording {
        write(&out.join("address-space.html"), read(recording)?)?;
    }
    let menu: Vec<(&str, &str)> = MENU
        .into_iter()
        .filter(|(_, to)| *to != "address-space.html" || recording.is_some())
        .collect();
    let mut guides = Vec::new();
    for source in &sources {
        let text = read(&root.join(source))?;
        let text = String::from_utf8(text).map_err(|_| format!("{source} is no UTF-8"))?;
        let page = Page::render(&text, source, root, &sources)?;
        if source.contains("docs/") {
            guides.push((place(source), page.title.clone()));
        }
        write(&out.join(place(source)), page.html(&menu).into_bytes())?;
    }
    write(
        &out.join("guides.html"),
        markdown::contents(&guides, &menu).into_bytes(),
    )?;
    for figure in files(&root.join(FIGURES), &["svg", "png"])? {
        let name = figure.file_name().unwrap_or_default();
        write(&out.join(FIGURES).join(name), read(&figure)?)?;
    }
    Ok(())
}

/// Returns the Markdown that becomes pages, by its path within the project.
fn sources(root: &Path) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    let mut open: Vec<PathBuf> = SOURCES.iter().map(|source| root.join(source)).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            // What this program made is no source of it.
            if path.ends_with("docs/site") {
                continue;
            }
            let entries = fs::read_dir(&path).map_err(|error| told(&path, &error))?;
            for entry in entries {
                let entry = entry.map_err(|error| told(&path, &error))?.path();
                if entry.is_dir() || entry.extension().is_some_and(|kind| kind == "md") {
                    open.push(entry);
                }
            }
        } else if path.is_file() {
            let inside = path.strip_prefix(root).unwrap_or(&path);
            all.insert(inside.to_string_lossy().into_owned());
        } else {
            return Err(format!("{} is missing", path.display()));
        }
    }
    Ok(all)
}

/// Returns the files of these kinds in a folder.
fn files(folder: &Path, kinds: &[&str]) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| told(folder, &error))?;
    let mut all = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| told(folder, &error))?.path();
        let kind = path.extension().and_then(|kind| kind.to_str());
        if kind.is_some_and(|kind| kinds.contains(&kind)) {
            all.push(path);
        }
    }
    Ok(all)
}

/// Returns the page of a source.
fn place(source: &str) -> String {
    match source {
        "README.md" => "index.html".to_owned(),
        _ => source.strip_suffix(".md").unwrap_or(source).to_owned() + ".html",
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| told(path, &error))
}

fn write(path: &Path, bytes: Vec<u8>) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, bytes))
        .map_err(|error| told(path, &error))
}

fn told(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
