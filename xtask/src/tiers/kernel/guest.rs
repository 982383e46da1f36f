//! A guest for tests: the initial files with all programs, and functions that run them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use super::{ALL, SOURCES, histories, programs};
use crate::kernel::{self, Arch, Cross};

pub(super) struct Guest<'a> {
    pub(super) shell: &'a Shell,
    pub(super) arch: Arch,
    /// The folder with the initial files.
    pub(super) root: PathBuf,
    archive: PathBuf,
    /// The programs whose output is compared with Linux.
    pub(super) names: Vec<String>,
}

impl<'a> Guest<'a> {
    pub(super) fn new(shell: &'a Shell, arch: Arch) -> Result<Self> {
        let cross = match arch {
            Arch::X86_64 => None,
            _ => Some(Cross::new(shell, arch)?),
        };
        let compile =
            |source: &Path, to: &Path| programs::compile(shell, cross.as_ref(), arch, source, to);
        let sources = Path::new(SOURCES);
        let root = kernel::root_folder(shell, arch)?;
        let tests = root.join("tests");
        shell.create_dir(&tests)?;
        shell.write_file(tests.join("all.sh"), ALL)?;
        for (script, name) in [
            ("script.sh", "script.sh"),
            ("out-of-memory/script.sh", "out-of-memory.sh"),
            ("refusals/script.sh", "refusals.sh"),
        ] {
            shell.copy_file(sources.join(script), tests.join(name))?;
        }
        compile(&sources.join("out-of-memory/hog.c"), &root.join("bin/hog"))?;
        for source in [
            "storm.c",
            "refusals/each.c",
            "refusals/touch.c",
            "refusals/break.c",
        ] {
            let source = sources.join(source);
            compile(
                &source,
                &tests.join(source.file_stem().unwrap_or(OsStr::new(""))),
            )?;
        }
        let mut names = Vec::new();
        let mut all = shell.read_dir(sources.join("programs"))?;
        all.sort();
        for source in all {
            let name = source.file_stem().context("a program has no name")?;
            compile(&source, &tests.join(name))?;
            names.push(name.to_string_lossy().into_owned());
        }
        if arch == Arch::X86_64 {
            names.extend(programs::with_musl(shell, &tests)?);
            names.push(programs::lua(shell, &tests)?);
            histories::build(shell, &tests.join("pages"))?;
        }
        let archive = kernel::archive(shell, &root)?;
        Ok(Guest {
            shell,
            arch,
            root,
            archive,
            names,
        })
    }

    /// Boots the kernel with these options of `cargo xtask kernel`, and runs a program to its end.
    pub(super) fn boot(&self, options: &[&str], program: &[&str], input: &str) -> Result<Output> {
        let (xtask, name, archive) = (std::env::current_exe()?, self.arch.name(), &self.archive);
        let command = cmd!(
            self.shell,
            "{xtask} kernel --arch {name} --initrd {archive} --quiet {options...} -- {program...}"
        );
        Ok(command.quiet().ignore_status().stdin(input).output()?)
    }

    /// Runs a program that must succeed. Returns its output.
    pub(super) fn run(&self, options: &[&str], program: &[&str]) -> Result<String> {
        self.run_with(options, program, "")
    }

    pub(super) fn run_with(
        &self,
        options: &[&str],
        program: &[&str],
        input: &str,
    ) -> Result<String> {
        let options = [&["--timeout", "1500"], options].concat();
        let output = self.boot(&options, program, input)?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let last: Vec<&str> = printed.lines().rev().take(20).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        ensure!(
            output.status.success(),
            "{} on {} with {}: {}\n{}\n{}",
            program.join(" "),
            self.arch.name(),
            options.join(" "),
            output.status,
            last.join("\n"),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(printed.trim_end().to_owned())
    }
}
