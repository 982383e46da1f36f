//! The panics that the libraries still have in the kernel's image, beside a committed list with a reason for each.
//!
//! Each panic hands its place to the handler: a file's name, a line, a column. The compiler leaves these places out with the calls that it proves impossible, so that what
//! is in the image's constants is what may be called, whatever was made part of what.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use object::{Object, ObjectSection, SectionKind};
use xshell::Shell;

use crate::kernel::machines::{self, Arch};

/// A line for each function: file, function, reason.
const LIST: &str = "kernel/panics.txt";
/// A place in the image: pointer to the name, its length, line and column.
const PLACE: usize = 24;

/// Builds the kernel for x86-64, and compares.
pub(crate) fn run(shell: &Shell) -> Result<()> {
    let image = machines::build(shell, Arch::X86_64, "")?;
    let found = functions(shell, &image)?;
    let text = shell.read_file(LIST)?;
    let known = list(&text)?;
    let new: Vec<_> = found.iter().filter(|it| !known.contains_key(*it)).collect();
    for (file, function) in &new {
        println!("crates/{file} {function} may panic, and {LIST} gives no reason");
    }
    for (file, function) in known.keys().filter(|it| !found.contains(*it)) {
        println!("crates/{file} {function} does not panic any more: {LIST} need not have it");
    }
    if !new.is_empty() {
        bail!("{} functions may panic that could not before", new.len());
    }
    println!(
        "panics: {} functions of the libraries, each with its reason",
        found.len()
    );
    Ok(())
}

type Function = (String, String);

/// The list's functions with their reasons.
fn list(text: &str) -> Result<BTreeMap<Function, String>> {
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            let mut word = || words.next().filter(|word| !word.is_empty());
            match (word(), word(), word()) {
                (Some(file), Some(function), Some(reason)) => Ok((
                    (file.to_owned(), function.to_owned()),
                    reason.trim().to_owned(),
                )),
                _ => bail!("{LIST}: a line has no file, function and reason: {line}"),
            }
        })
        .collect()
}

/// The functions of the libraries that have places of panics in an image.
fn functions(shell: &Shell, image: &Path) -> Result<BTreeSet<Function>> {
    let bytes = fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
    let file = object::File::parse(&*bytes).map_err(|error| anyhow!("{error}"))?;
    let mut constants = Vec::new();
    for section in file.sections() {
        if matches!(
            section.kind(),
            SectionKind::ReadOnlyData | SectionKind::Data
        ) {
            let data = section.data().map_err(|error| anyhow!("{error}"))?;
            constants.push((section.address(), data));
        }
    }
    let mut found = BTreeSet::new();
    for (_, data) in &constants {
        for place in data.windows(PLACE).step_by(8) {
            if let Some((path, line)) = read_place(place, &constants)
                && let Some((_, inside)) = path.split_once("/crates/")
            {
                let source = shell.read_file(Path::new("crates").join(inside))?;
                found.insert((inside.to_owned(), function_at(&source, line)));
            }
        }
    }
    if found.is_empty() {
        bail!("no place of a panic was found: is their form another one?");
    }
    Ok(found)
}

/// The name of the source and the line, if these bytes are a place.
fn read_place<'a>(place: &[u8], constants: &[(u64, &'a [u8])]) -> Option<(&'a str, usize)> {
    let word = |at: usize| Some(u64::from_le_bytes(place.get(at..at + 8)?.try_into().ok()?));
    let (at, len, numbers) = (word(0)?, word(8)?, word(16)?);
    let (line, column) = (numbers & 0xffff_ffff, numbers >> 32);
    if len > 300 || line == 0 || column == 0 {
        return None;
    }
    let name = constants.iter().find_map(|(start, data)| {
        let first = usize::try_from(at.checked_sub(*start)?).ok()?;
        data.get(first..first.checked_add(len as usize)?)
    })?;
    let path = std::str::from_utf8(name).ok()?;
    path.ends_with(".rs").then_some((path, line as usize))
}

/// The function that a line of a source is in: the last one that begins at it or above.
fn function_at(source: &str, line: usize) -> String {
    let mut name = "";
    for text in source.lines().take(line) {
        let code = text.trim_start();
        if let Some((_, rest)) = code.split_once("fn ").filter(|_| !code.starts_with("//")) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            match &rest[..end.unwrap_or(rest.len())] {
                "" => {}
                found => name = found,
            }
        }
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_of_a_line_is_the_last_above() {
        let source = "/// fn no\nfn a() {\n    x[1];\n}\npub(crate) fn b<T>(\n) {\n    let f: fn (u8) = g;\n    y[2];\n}\n";
        assert_eq!(function_at(source, 3), "a");
        assert_eq!(function_at(source, 8), "b");
    }

    #[test]
    fn each_line_of_the_list_has_a_reason() {
        assert_eq!(
            list("# text\n\na.rs f why not\n").map_or(0, |list| list.len()),
            1
        );
        assert!(list("a.rs f\n").is_err());
    }
}
