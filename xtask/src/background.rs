//! A command that runs in the background. Its output is printed when it has ended.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result, bail};

pub(crate) struct Background {
    name: &'static str,
    log: PathBuf,
    child: Child,
}

impl Background {
    /// Starts the tier of this name in a process of its own.
    pub(crate) fn start_tier(tier: &'static str, root: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["test", "--tier", tier]);
        Self::start(tier, root, command)
    }

    /// Starts a command. `name` is the name of its log in the folder `target`.
    pub(crate) fn start(name: &'static str, root: &Path, mut command: Command) -> Result<Self> {
        let log = root.join("target").join(format!("{name}.log"));
        fs::create_dir_all(root.join("target")).context("cannot make the folder target")?;
        let file = File::create(&log).context("cannot make a log")?;
        let again = file.try_clone()?;
        let child = command
            .current_dir(root)
            .stdout(file)
            .stderr(again)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Background { name, log, child })
    }

    /// Waits for the command's end, prints its output, and fails if the command failed.
    pub(crate) fn finish(mut self) -> Result<()> {
        let status = self.child.wait()?;
        let output = fs::read(&self.log).unwrap_or_default();
        eprint!("{}", String::from_utf8_lossy(&output));
        if !status.success() {
            bail!("{} failed", self.name);
        }
        Ok(())
    }
}

impl Drop for Background {
    /// Stops the command if another one has failed.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
