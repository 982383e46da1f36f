//! Excerpts of the sources in the documentation.
//!
//! A text names a part of a source file and holds a copy of it, so that it can be read anywhere.
//! The checks refuse a copy that differs from its source. `cargo xtask excerpts` renews all copies.
//!
//! In the text:
//!
//! ````text
//! <!-- excerpt: kernel/src/memory/platform.rs platform -->
//! ```rust,ignore
//! …
//! ```
//! ````
//!
//! In the source, `// ANCHOR: platform` and `// ANCHOR_END: platform` enclose the part, as in
//! mdBook. Parts may overlap.

use anyhow::{Context, Result, bail};
use xshell::Shell;

/// The texts with excerpts.
const TEXTS: [&str; 2] = ["docs/guides/kernel.md", "docs/guides/emulator.md"];

/// Compares the excerpts with their sources. With `renew`, renews them.
pub(crate) fn run(shell: &Shell, renew: bool) -> Result<()> {
    for text in TEXTS {
        let before = shell.read_file(text)?;
        let after = renewed(&before, |path| Ok(shell.read_file(path)?))
            .with_context(|| format!("the excerpts of {text}"))?;
        if before == after {
            continue;
        }
        if !renew {
            bail!("{text} shows code that has changed: run `cargo xtask excerpts`");
        }
        shell.write_file(text, after)?;
        println!("{text} is renewed");
    }
    Ok(())
}

const MARK: &str = "<!-- excerpt: ";

/// Returns the text with its excerpts as the sources are now.
fn renewed(text: &str, mut read: impl FnMut(&str) -> Result<String>) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let Some(named) = line.strip_prefix(MARK) else {
            continue;
        };
        let (path, name) = named
            .strip_suffix(" -->")
            .and_then(|named| named.split_once(' '))
            .with_context(|| format!("{line} names no file and part"))?;
        let open = lines.next().filter(|line| line.starts_with("```"));
        let open = open.with_context(|| format!("no code follows {line}"))?;
        if !lines.any(|line| line == "```") {
            bail!("the code after {line} has no end");
        }
        let code = part(&read(path)?, name).with_context(|| path.to_owned())?;
        out.push_str(&format!("{open}\n{code}```\n"));
    }
    Ok(out)
}

/// Returns a part of a source file, without its common indentation and without anchors.
fn part(source: &str, name: &str) -> Result<String> {
    let anchor = |line: &str, mark: &str| line.trim().strip_prefix(mark).map(str::to_owned);
    let mut inside = false;
    let mut found = Vec::new();
    let mut ended = false;
    for line in source.lines() {
        if let Some(other) = anchor(line, "// ANCHOR: ") {
            inside |= other == name;
        } else if let Some(other) = anchor(line, "// ANCHOR_END: ") {
            ended |= inside && other == name;
            inside &= other != name;
        } else if inside {
            found.push(line);
        }
    }
    if !ended || found.is_empty() {
        bail!("there is no part {name} with an end");
    }
    let filled = found.iter().filter(|line| !line.trim().is_empty());
    let indent = filled.map(|line| line.len() - line.trim_start().len());
    let indent = indent.min().unwrap_or(0);
    let lines = found.iter().map(|line| line.get(indent..).unwrap_or(""));
    Ok(lines.flat_map(|line| [line, "\n"]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn other() {}\n    // ANCHOR: a\n    fn f() {\n        // ANCHOR: b\n        g();\n    }\n    // ANCHOR_END: a\n        h();\n    // ANCHOR_END: b\n";

    #[test]
    fn parts_may_overlap_and_lose_their_indentation() -> Result<()> {
        assert_eq!(part(SOURCE, "a")?, "fn f() {\n    g();\n}\n");
        assert_eq!(part(SOURCE, "b")?, "    g();\n}\n    h();\n");
        assert!(part(SOURCE, "c").is_err());
        Ok(())
    }

    #[test]
    fn a_text_is_renewed_and_stays_so() -> Result<()> {
        let old = "# Title\n<!-- excerpt: file.rs a -->\n```rust,ignore\nold\n```\nrest\n";
        let read = |path: &str| {
            assert_eq!(path, "file.rs");
            Ok(SOURCE.to_owned())
        };
        let new = renewed(old, read)?;
        assert!(
            new.contains("```rust,ignore\nfn f() {\n    g();\n}\n```\nrest\n"),
            "{new}"
        );
        assert_eq!(renewed(&new, read)?, new);
        assert!(renewed("<!-- excerpt: file.rs c -->\n```\n```\n", read).is_err());
        Ok(())
    }
}
