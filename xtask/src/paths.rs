//! Checks that the files and folders that ARCHITECTURE.md names exist, and that the files to which
//! design notes link have the items that the links name.

use std::path::Path;

use anyhow::{Result, bail};
use xshell::Shell;

const TEXT: &str = "ARCHITECTURE.md";
/// The folder of the design notes, whose links are relative to it.
const NOTES: &str = "docs/design";

/// Refuses a path in code quotes that does not exist, and a link whose file or item does not exist.
///
/// # Errors
///
/// Fails if a path or an item is missing, and names all of those.
pub(crate) fn run(shell: &Shell) -> Result<()> {
    check_paths(shell)?;
    for note in shell.read_dir(NOTES)? {
        if note.extension().is_some_and(|it| it == "md") {
            check_links(shell, &note)?;
        }
    }
    Ok(())
}

fn check_paths(shell: &Shell) -> Result<()> {
    let text = shell.read_file(TEXT)?;
    let missing: Vec<&str> = named(&text)
        .into_iter()
        .filter(|path| !shell.path_exists(path))
        .collect();
    if !missing.is_empty() {
        bail!(
            "{TEXT} names paths that do not exist: {}",
            missing.join(", ")
        );
    }
    Ok(())
}

fn check_links(shell: &Shell, note: &Path) -> Result<()> {
    let text = shell.read_file(note)?;
    let mut missing = Vec::new();
    for (item, target) in links(&text) {
        let path = Path::new(NOTES).join(target);
        if !shell.path_exists(&path) {
            missing.push(target.to_owned());
        } else if let Some(item) = item
            && target.ends_with(".rs")
            && !defines(&shell.read_file(&path)?, item)
        {
            missing.push(format!("{item} in {target}"));
        }
    }
    if !missing.is_empty() {
        bail!(
            "{} links to what does not exist: {}",
            note.display(),
            missing.join(", ")
        );
    }
    Ok(())
}

/// Returns the relative links of a Markdown text: the item that the link's text names, if it is one
/// identifier in code quotes, and the target without its fragment.
fn links(text: &str) -> Vec<(Option<&str>, &str)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("](") {
        let Some((target, _)) = text[at + 2..].split_once(')') else {
            continue;
        };
        let target = target.split('#').next().unwrap_or(target);
        if target.is_empty() || target.contains("://") {
            continue;
        }
        let name = text[..at].rsplit('[').next().unwrap_or_default();
        let item = name
            .strip_prefix('`')
            .and_then(|it| it.strip_suffix('`'))
            .and_then(|it| it.rsplit("::").next())
            .filter(|it| it.chars().all(|c| c.is_alphanumeric() || c == '_'));
        found.push((item, target));
    }
    found
}

/// Returns `true` if a Rust source defines this function, type or variant, or is the file of that
/// name.
fn defines(source: &str, item: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    source.match_indices(item).any(|(at, _)| {
        let before = source[..at].trim_end_matches(' ');
        let alone = !source[at + item.len()..].starts_with(word);
        let keyword = ["fn", "struct", "enum", "trait", "type", "macro_rules!"]
            .iter()
            .any(|it| before.ends_with(it));
        // A variant stands alone at the start of its line.
        let variant = before.ends_with('\n') && item.starts_with(char::is_uppercase);
        alone && (keyword || variant)
    })
}

/// Returns the words in code quotes that have the form of a path from the root.
fn named(text: &str) -> Vec<&str> {
    let code = text.split('`').skip(1).step_by(2);
    code.filter(|it| {
        it.contains('/') && !it.contains([' ', '*', '{']) && !it.starts_with(['/', '-'])
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_patterns_are_no_paths() {
        let text =
            "`crates/mm`, `/proc/PID/maps`, `cargo run a/b`, `include/*.h`, `mmap`, `docs/lib.rs`";
        assert_eq!(named(text), ["crates/mm", "docs/lib.rs"]);
    }

    #[test]
    fn links_name_items_and_files() {
        let text =
            "[`Call::Mmap`](../call.rs), [the tree](b.rs#L1), [x](https://a.b/c), [here](#up)";
        assert_eq!(links(text), [(Some("Mmap"), "../call.rs"), (None, "b.rs")]);
    }

    #[test]
    fn definitions_are_told_from_uses() {
        let source =
            "use a::Mmap;\nfn map_region() { map() }\nenum Call {\n    Mmap { addr: u64 },\n}\n";
        assert!(
            defines(source, "map_region") && defines(source, "Call") && defines(source, "Mmap")
        );
        assert!(!defines(source, "map") && !defines(source, "a"));
    }
}
