//! A tier in a process of its own, beside others. What it says is printed when it is done.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result, bail};

use crate::tiers::Tier;

pub(crate) struct Beside {
    tier: Tier,
    log: PathBuf,
    child: Child,
}

impl Beside {
    pub(crate) fn start(tier: Tier, root: &Path) -> Result<Self> {
        let log = root.join("target").join(format!("{}.log", tier.name()));
        fs::create_dir_all(root.join("target")).context("cannot make the folder target")?;
        let file = File::create(&log).context("cannot keep what a tier says")?;
        let again = file.try_clone()?;
        let child = Command::new(std::env::current_exe()?)
            .args(["test", "--tier", tier.name()])
            .stdout(file)
            .stderr(again)
            .spawn()
            .with_context(|| format!("cannot start tier {}", tier.name()))?;
        Ok(Beside { tier, log, child })
    }

    /// Waits for it.
    pub(crate) fn finish(mut self) -> Result<()> {
        let status = self.child.wait()?;
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        eprint!("{said}");
        if !status.success() {
            bail!("tier {} failed", self.tier.name());
        }
        Ok(())
    }
}

impl Drop for Beside {
    /// Where another tier has failed, it begins nothing more.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
