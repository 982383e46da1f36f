//! Everything that an engine needs to start at the point where a program's address space is: at exec, or anew after the
//! two have parted.

use samara_mm::{AddressSpace, Config, Errno, Layout, Limits, SeedVma};

/// The start of an address space, as plain data that can be recorded.
#[derive(Debug, Clone)]
pub(crate) struct Seed {
    pub(crate) config: Config,
    pub(crate) limits: Limits,
    pub(crate) layout: Layout,
    /// Ascending.
    pub(crate) areas: Vec<SeedVma>,
}

impl Seed {
    /// Builds the engine.
    pub(crate) fn build(&self) -> Result<AddressSpace, Errno> {
        let mut space = AddressSpace::new(self.config.clone(), self.limits, self.layout)?;
        for area in &self.areas {
            space.seed(area.clone())?;
        }
        Ok(space)
    }
}
