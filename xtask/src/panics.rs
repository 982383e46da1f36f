//! Compares the panics of the libraries that remain in the kernel's image with a committed list,
//! which has a reason for each.
//!
//! Each panic passes its location to the handler: file name, line and column. The compiler removes
//! the location with a call that it proves impossible. So the image's constants hold the locations
//! of all panics that may be called, even in inlined functions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use object::{Object, ObjectSection, SectionKind};
use xshell::Shell;

use crate::kernel::machines::{self, Arch};

/// The list: a line for each function, with file, function and reason.
const LIST: &str = "kernel/panics.txt";
/// The size of a location in the image: pointer to the name, its length, line and column.
const LOCATION_SIZE: usize = 24;

/// Builds the kernel for x86-64, and compares its panics with the list.
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
        println!("crates/{file} {function} no longer panics: remove it from {LIST}");
    }
    if !new.is_empty() {
        bail!("{} functions may panic and are not on the list", new.len());
    }
    println!(
        "panics: {} functions of the libraries, each with its reason",
        found.len()
    );
    Ok(())
}

type Function = (String, String);

/// Returns the list's functions with their reasons.
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

/// Returns the functions of the libraries with locations of panics in an image.
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
        for location in data.windows(LOCATION_SIZE).step_by(8) {
            if let Some((path, line)) = read_location(location, &constants)
                && let Some((_, inside)) = path.split_once("/crates/")
            {
                let source = shell.read_file(Path::new("crates").join(inside))?;
                found.insert((inside.to_owned(), function_at(&source, line)));
            }
        }
    }
    if found.is_empty() {
        bail!("no location of a panic was found: has their format changed?");
    }
    Ok(found)
}

/// Returns the name of the source and the line, if these bytes are a location.
fn read_location<'a>(location: &[u8], constants: &[(u64, &'a [u8])]) -> Option<(&'a str, usize)> {
    let word = |at: usize| {
        Some(u64::from_le_bytes(
            location.get(at..at + 8)?.try_into().ok()?,
        ))
    };
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

/// Returns the function of a line in a source: the last one that begins at or above the line.
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
