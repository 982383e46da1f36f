//! Checks that comments and documents are plain English.
//!
//! The check reads comments of Rust and C sources and paragraphs of Markdown. It refuses three things
//! that made readers read a sentence twice:
//!
//! - an item's documentation that begins with a noun clause ("Whether …", "What …", "Who …"), or with a
//!   question,
//! - a sentence of more than [`LONGEST`] words,
//! - one of the [`PHRASES`].
//!
//! Code, tables and quoted lines are skipped, and an inline code span counts as one word. A text that
//! passes is not yet good: the check is a floor. The rules of writing are in CONTRIBUTING.md.

use std::path::PathBuf;

use anyhow::{Result, bail};
use xshell::{Shell, cmd};

/// The folders and files that must pass: all.
const CHECKED: &[&str] = &["."];

/// The most words of a sentence.
const LONGEST: usize = 40;

/// First words that make a noun clause of an item's first line.
const FIRST_WORDS: [&str; 8] = [
    "How", "That", "Where", "What", "Whether", "Who", "Whom", "Whose",
];

/// Phrases that have a plainer form, and that form.
const PHRASES: [(&str, &str); 17] = [
    ("nobody", "name the subject: \"no reader\", \"no caller\""),
    (
        "somebody",
        "name the subject: \"a reader\", \"another thread\"",
    ),
    ("of whom", "name the subject again"),
    ("for whom", "name the subject again"),
    ("to whom", "name the subject again"),
    ("by whom", "name the subject again"),
    ("whoever", "\"a caller that\", \"the thread that\""),
    ("that which", "\"what\", or name it"),
    ("is to be", "\"must be\", \"will be\", or the active voice"),
    ("are to be", "\"must be\", \"will be\", or the active voice"),
    ("there is nothing that", "\"nothing\" and the verb"),
    ("so many", "\"this many\", \"the number of\""),
    ("as it is", "leave it out, or \"unchanged\""),
    ("such a one", "name it again"),
    (
        "beside",
        "\"next to\", \"compared with\", \"concurrently with\"",
    ),
    ("meanwhile", "\"concurrently\", \"during the call\""),
    ("of those who", "name the subject"),
];

/// A paragraph of prose: words between empty lines, list items or code.
struct Paragraph {
    /// The line it begins on, from 1.
    line: usize,
    /// Its lines, joined by spaces.
    text: String,
    /// `true` if it opens the documentation of an item or a module.
    opens_item: bool,
}

/// Checks the given paths, or [`CHECKED`] if there are none, and prints each finding as `path:line: text`.
///
/// # Errors
///
/// Fails if there is a finding, or if a file cannot be read.
pub(crate) fn run(shell: &Shell, paths: &[PathBuf]) -> Result<()> {
    let paths = if paths.is_empty() {
        CHECKED.iter().map(PathBuf::from).collect()
    } else {
        paths.to_vec()
    };
    // Untracked files count, since new files are checked before they are committed.
    let listed = cmd!(
        shell,
        "git ls-files --cached --others --exclude-standard -- {paths...}"
    )
    .read()?;
    let mut findings = 0;
    for path in listed.lines() {
        let markdown = path.ends_with(".md");
        if !markdown && !path.ends_with(".rs") && !path.ends_with(".h") {
            continue;
        }
        // A file that was deleted and not yet committed is listed, too.
        if !shell.path_exists(path) {
            continue;
        }
        let text = shell.read_file(path)?;
        let paragraphs = if markdown {
            of_markdown(&text)
        } else {
            of_comments(&text)
        };
        // This file's list would find itself.
        let phrases: &[_] = if path == "xtask/src/prose.rs" {
            &[]
        } else {
            &PHRASES
        };
        for paragraph in &paragraphs {
            for finding in check(paragraph, phrases) {
                println!("{path}:{}: {finding}", paragraph.line);
                findings += 1;
            }
        }
    }
    if findings > 0 {
        bail!(
            "{findings} passages need a plainer form (`cargo xtask prose PATH` lists those of a path)"
        );
    }
    Ok(())
}

/// Returns what is wrong with a paragraph.
fn check(paragraph: &Paragraph, phrases: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    if paragraph.opens_item {
        let first = paragraph.text.split(' ').next().unwrap_or_default();
        if FIRST_WORDS.contains(&first) {
            findings.push(format!("begins with \"{first}\""));
        } else if sentences(&without_code(&paragraph.text))
            .first()
            .is_some_and(|first| first.trim_end().ends_with('?'))
        {
            findings.push("begins with a question".to_owned());
        }
    }
    let plain = without_code(&paragraph.text);
    for sentence in sentences(&plain) {
        let words = sentence
            .split_whitespace()
            .filter(|word| word.chars().any(char::is_alphanumeric))
            .count();
        if words > LONGEST {
            let start: String = sentence.chars().take(60).collect();
            findings.push(format!("a sentence of {words} words: {start}…"));
        }
    }
    let lower = plain.to_lowercase();
    for (phrase, instead) in phrases {
        if contains_words(&lower, phrase) {
            findings.push(format!("\"{phrase}\": write {instead}"));
        }
    }
    findings
}

/// Returns `true` if `text` has `phrase` between word boundaries.
fn contains_words(text: &str, phrase: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        !is_word(text[..at].chars().next_back())
            && !is_word(text[at + phrase.len()..].chars().next())
    })
}

/// Replaces inline code spans by a single word, and drops the targets of links.
fn without_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, part) in text.split('`').enumerate() {
        out.push_str(if index % 2 == 0 { part } else { "Code" });
    }
    while let Some(from) = out.find("](") {
        let Some(length) = out[from..].find(')') else {
            break;
        };
        out.replace_range(from..=from + length, "]");
    }
    out
}

/// Splits text into sentences: at `.`, `?`, `!` before a space, except after common abbreviations.
fn sentences(text: &str) -> Vec<&str> {
    const ABBREVIATIONS: [&str; 6] = ["e.g.", "i.e.", "etc.", "vs.", "cf.", "No."];
    let mut found = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices() {
        if !matches!(c, '.' | '?' | '!') {
            continue;
        }
        let upto = at + c.len_utf8();
        let rest = text[upto..].trim_start_matches(['"', ')', '*', '_']);
        let ends = rest.is_empty() || rest.starts_with(char::is_whitespace);
        if ends && !ABBREVIATIONS.iter().any(|it| text[..upto].ends_with(it)) {
            found.push(&text[start..upto]);
            start = upto;
        }
    }
    found.push(&text[start..]);
    found
}

/// Returns the paragraphs of a document.
fn of_markdown(text: &str) -> Vec<Paragraph> {
    let mut paragraphs = Paragraphs::default();
    for (index, line) in text.lines().enumerate() {
        paragraphs.line(index + 1, line.trim(), false);
    }
    paragraphs.finish()
}

/// Returns the paragraphs of a source's comments.
fn of_comments(text: &str) -> Vec<Paragraph> {
    let mut paragraphs = Paragraphs::default();
    let mut kind = "";
    let mut in_block = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let (now, comment) = if in_block || line.starts_with("/*") {
            let opens = line.starts_with("/*");
            in_block = !line.ends_with("*/");
            let inner = line.trim_start_matches('/').trim_end_matches('/');
            (
                if opens { "/* opens" } else { "/*" },
                Some(inner.trim_matches('*')),
            )
        } else if let Some(rest) = line.strip_prefix("///") {
            ("///", Some(rest))
        } else if let Some(rest) = line.strip_prefix("//!") {
            ("//!", Some(rest))
        } else if let Some(rest) = line.strip_prefix("//") {
            ("//", Some(rest))
        } else if line.starts_with("#[doc") {
            // A line of the item's documentation that a macro makes: a code block goes on behind it.
            (kind, None)
        } else {
            ("", None)
        };
        let opens_block = now == "/* opens";
        let now = if opens_block { "/*" } else { now };
        if now != kind || opens_block {
            paragraphs.leave_code();
        }
        let opens = now != kind && matches!(now, "///" | "//!");
        kind = now;
        match comment {
            Some(comment) => paragraphs.line(index + 1, comment.trim(), opens),
            None => paragraphs.end(),
        }
    }
    paragraphs.finish()
}

/// Collects lines into paragraphs.
#[derive(Default)]
struct Paragraphs {
    done: Vec<Paragraph>,
    open: Option<Paragraph>,
    /// `true` between the fences of a code block.
    in_code: bool,
}

impl Paragraphs {
    /// Takes a line without its comment mark.
    fn line(&mut self, number: usize, line: &str, opens_item: bool) {
        if line.starts_with("```") {
            self.in_code = !self.in_code;
            return self.end();
        }
        let skipped = ["|", ">", "<", "#", "[!", "SPDX"];
        let is_definition = line.starts_with('[') && line.contains("]: ");
        if self.in_code
            || line.is_empty()
            || is_definition
            || skipped.iter().any(|mark| line.starts_with(mark))
        {
            return self.end();
        }
        let item = ["- ", "* ", "· "]
            .iter()
            .find_map(|mark| line.strip_prefix(mark));
        let numbered = line.split_once(". ").filter(|(number, _)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        if item.is_some() || numbered.is_some() || opens_item {
            self.end();
        }
        let words = item.or(numbered.map(|(_, rest)| rest)).unwrap_or(line);
        match &mut self.open {
            Some(open) => {
                open.text.push(' ');
                open.text.push_str(words);
            }
            None => {
                self.open = Some(Paragraph {
                    line: number,
                    text: words.to_owned(),
                    opens_item,
                });
            }
        }
    }

    /// Ends the open paragraph.
    fn end(&mut self) {
        self.done.extend(self.open.take());
    }

    /// Ends a code block that a comment left open.
    fn leave_code(&mut self) {
        self.end();
        self.in_code = false;
    }

    fn finish(mut self) -> Vec<Paragraph> {
        self.end();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(paragraphs: &[Paragraph]) -> Vec<String> {
        paragraphs
            .iter()
            .flat_map(|it| check(it, &PHRASES))
            .collect()
    }

    #[test]
    fn a_noun_clause_is_refused_only_where_it_opens_an_item() {
        let source = "/// Whether it is empty.\nfn a() {}\n/// Returns the size.\n///\n/// What follows is free.\nfn b() {}\n";
        assert_eq!(findings(&of_comments(source)), ["begins with \"Whether\""]);
    }

    #[test]
    fn code_goes_on_behind_documentation_from_a_macro() {
        let source =
            "/// Stores.\n///\n/// ```\n#[doc = $setup]\n/// nobody()?;\n/// ```\nfn store() {}\n";
        assert!(findings(&of_comments(source)).is_empty());
        let source = "/// Is it there?\nfn is_there() {}\n";
        assert_eq!(findings(&of_comments(source)), ["begins with a question"]);
    }

    #[test]
    fn sentences_of_a_paragraph_are_counted_one_by_one() {
        let short = "word ".repeat(39) + "end. " + &"word ".repeat(39) + "end.";
        assert!(findings(&of_markdown(&short)).is_empty());
        let long = "word ".repeat(40) + "end.";
        assert_eq!(findings(&of_markdown(&long)).len(), 1);
    }

    #[test]
    fn code_and_tables_are_no_prose() {
        let text = "```\nnobody\n```\n| nobody |\n`nobody` reads.\n";
        assert!(findings(&of_markdown(text)).is_empty());
        assert_eq!(findings(&of_markdown("Nobody reads.")).len(), 1);
        assert!(findings(&of_markdown("A besides b.")).is_empty());
    }
}
