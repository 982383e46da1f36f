//! The packages that a change can affect, for `cargo xtask test --changed`.
//!
//! A changed file belongs to the workspace's package whose folder contains it. A package is affected if
//! it depends on a changed one, also for its tests. The tests of changed packages run whole; affected
//! packages are linted, and their unit tests run. Their integration tests compare whole programs and
//! take minutes: the ordinary tiers run them.
//!
//! Workspaces of their own (`bench`, `fuzz`, `kernel`, `loom`, `tools/site`) are only named: each has a
//! tier. Files outside of any package need no tests.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use xshell::{Shell, cmd};

use crate::{excerpts, prose, setup};

/// Workspaces of their own, and the tier that tests each.
const APART: [(&str, &str); 5] = [
    ("bench", "bench"),
    ("fuzz", "fuzz"),
    ("kernel", "kernel"),
    ("loom", "loom"),
    ("tools/site", "pages"),
];

/// Tests what differs from `base` (a branch or commit), uncommitted and new files included.
///
/// # Errors
///
/// Fails if a check or a test fails, or if git or cargo cannot be asked.
pub(crate) fn test(shell: &Shell, base: &str) -> Result<()> {
    let files = files(shell, base)?;
    if files.is_empty() {
        eprintln!("nothing differs from {base}");
        return Ok(());
    }
    setup::components(shell, None, &["rustfmt", "clippy"])?;
    cmd!(shell, "cargo fmt --all --check").run()?;
    excerpts::run(shell, false)?;
    prose::run(shell, &[])?;

    let packages = packages(shell)?;
    let changed: BTreeSet<&str> = packages
        .iter()
        .filter(|package| files.iter().any(|file| package.owns(file, &packages)))
        .map(|package| package.name.as_str())
        .collect();
    let affected = affected(&packages, &changed);
    for (folder, tier) in APART {
        if files.iter().any(|file| Path::new(file).starts_with(folder)) {
            eprintln!("{folder} has changed, too: `cargo xtask test --tier {tier}` tests it");
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    let named = |names: &BTreeSet<&str>| -> Vec<String> {
        let pairs = names.iter().flat_map(|name| ["-p", name]);
        pairs.map(str::to_owned).collect()
    };
    let (every, own) = (named(&(&changed | &affected)), named(&changed));
    cmd!(
        shell,
        "cargo clippy --locked {every...} --all-features --all-targets -- -D warnings"
    )
    .run()?;
    cmd!(shell, "cargo test --locked {own...} --all-features").run()?;
    if !affected.is_empty() {
        let others = named(&affected);
        cmd!(
            shell,
            "cargo test --locked {others...} --all-features --lib --bins"
        )
        .run()?;
    }
    Ok(())
}

/// Returns the files that differ from `base`, from the workspace's root.
fn files(shell: &Shell, base: &str) -> Result<BTreeSet<String>> {
    let fork = cmd!(shell, "git merge-base HEAD {base}")
        .read()
        .with_context(|| {
            format!("git knows no {base}; name a branch or a commit after `--changed=`")
        })?;
    let tracked = cmd!(shell, "git diff --name-only {fork}").read()?;
    let new = cmd!(shell, "git ls-files --others --exclude-standard").read()?;
    Ok(tracked
        .lines()
        .chain(new.lines())
        .map(str::to_owned)
        .collect())
}

/// A package of the workspace.
struct Package {
    name: String,
    /// Its folder, from the workspace's root.
    folder: String,
    /// The names of its dependencies, those of tests included.
    needs: BTreeSet<String>,
}

impl Package {
    /// Returns `true` if the file lies in this package and in no package below it.
    fn owns(&self, file: &str, all: &[Package]) -> bool {
        let lies_in = |folder: &str| Path::new(file).starts_with(folder);
        let deeper = |other: &&Package| other.folder.len() > self.folder.len();
        lies_in(&self.folder)
            && !all
                .iter()
                .filter(deeper)
                .any(|other| lies_in(&other.folder))
    }
}

/// Returns the workspace's packages, as cargo describes them.
fn packages(shell: &Shell) -> Result<Vec<Package>> {
    let described = cmd!(
        shell,
        "cargo metadata --format-version 1 --no-deps --locked"
    )
    .read()?;
    let described: Value = serde_json::from_str(&described)?;
    let root = described["workspace_root"]
        .as_str()
        .context("cargo names no root")?;
    let packages = described["packages"]
        .as_array()
        .context("cargo lists no packages")?;
    packages
        .iter()
        .map(|package| {
            let text = |key: &str| package[key].as_str().context("a package has no name");
            let manifest = Path::new(text("manifest_path")?);
            let folder = manifest.parent().unwrap_or(manifest).strip_prefix(root)?;
            let needs = package["dependencies"].as_array().into_iter().flatten();
            Ok(Package {
                name: text("name")?.to_owned(),
                folder: folder.to_string_lossy().into_owned(),
                needs: needs
                    .filter_map(|it| it["name"].as_str())
                    .map(str::to_owned)
                    .collect(),
            })
        })
        .collect()
}

/// Returns the packages that depend on a changed one, directly or through others, without the changed ones.
fn affected<'a>(packages: &'a [Package], changed: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let mut reached = changed.clone();
    loop {
        let before = reached.len();
        for package in packages {
            if package
                .needs
                .iter()
                .any(|need| reached.contains(need.as_str()))
            {
                reached.insert(&package.name);
            }
        }
        if reached.len() == before {
            return &reached - changed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str, needs: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            folder: folder.to_owned(),
            needs: needs.iter().map(|&need| need.to_owned()).collect(),
        }
    }

    #[test]
    fn dependents_are_affected_through_others() {
        let all = [
            package("slab", "crates/slab", &[]),
            package("tree", "crates/tree", &["slab"]),
            package("mm", "crates/mm", &["tree"]),
            package("boot", "crates/boot", &[]),
        ];
        let changed = BTreeSet::from(["slab"]);
        assert_eq!(affected(&all, &changed), BTreeSet::from(["mm", "tree"]));
    }

    #[test]
    fn a_file_belongs_to_the_innermost_package() {
        let all = [
            package("tool", "tools", &[]),
            package("site", "tools/site", &[]),
        ];
        assert!(all[0].owns("tools/src/main.rs", &all));
        assert!(!all[0].owns("tools/site/src/main.rs", &all));
        assert!(all[1].owns("tools/site/src/main.rs", &all));
        assert!(!all[1].owns("tools/sites.md", &all));
    }
}
