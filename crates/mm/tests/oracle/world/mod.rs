//! Both sides and what they share: performs histories on each and compares them after every step.
//!
//! The kernel's side is in `kernel`, the engine's in `engine.rs` here.

mod differences;
mod engine;
mod features;
mod huge;
mod objects;
mod zygote;

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs;

use samara_mm::{AddressSpace, Config, KernelVersion};

use crate::coverage::Coverage;
use crate::kernel::{Flags, Kernel};
use crate::op::{Objects, Op};
use crate::pool::Pool;
use crate::shortest::shortest;
use differences::{compare_flags, compare_maps, show};
use features::unbacked;
use objects::objects;
use zygote::seed;

pub(crate) struct World {
    pub(crate) kernel: Kernel,
    pub(crate) objects: Objects,
    /// The zygote's address space.
    base: AddressSpace,
    /// From the first to the last of its areas that the kernel installed at exec.
    pub(crate) special: (u64, u64),
    /// Pages of these areas that the kernel does not back: who reads one gets SIGBUS. By name of the area and number in it.
    unbacked: HashSet<(Box<str>, u64)>,
    /// Histories are performed while there is a handle for other threads, through which maps are then compared.
    pub(crate) shared: bool,
    /// The flags of all areas are compared after each step, and not only at the end.
    pub(crate) flags_after_each: bool,
    /// The pool of huge pages, as long as no other process uses it: it is compared after each step.
    pub(crate) huge: Option<Pool>,
    /// Other processes of the history, then.
    others: RefCell<Vec<AddressSpace>>,
    /// The coverage of the histories.
    pub(crate) coverage: Coverage,
}

/// The way in which the engine learns of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It is told of every fault.
    Told,
    /// It asks when it must know, as for a program that is traced.
    Asked,
}

/// The first difference between the engine and the kernel.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub(crate) step: usize,
    pub(crate) what: String,
}

impl World {
    pub(crate) fn new() -> World {
        let mut objects = objects();
        let brk = fs::read_to_string("/proc/self/stat").unwrap();
        objects.start_brk = brk
            .split_ascii_whitespace()
            .nth(46)
            .unwrap()
            .parse()
            .unwrap();
        let kernel = Kernel::start(&objects);
        let (base, special) = seed(&mut objects, kernel.zygote);
        let unbacked = unbacked(&base, special);
        World {
            kernel,
            objects,
            base,
            special,
            unbacked,
            shared: false,
            flags_after_each: true,
            huge: None,
            others: RefCell::default(),
            coverage: Coverage::default(),
        }
    }

    /// The areas that the kernel installed at exec, ascending.
    pub(crate) fn special_areas(&self) -> Vec<(u64, u64)> {
        let within = self.special.0..self.special.1;
        let areas = self.base.areas().map(|area| (area.start, area.end));
        areas.filter(|area| within.contains(&area.0)).collect()
    }

    /// Returns `true` if the kernel is the newest with which the engine was compared.
    pub(crate) fn is_newest(&self) -> bool {
        self.base.config().kernel >= KernelVersion::NEWEST
    }

    /// Returns `true` if there are addresses of 57 bits.
    pub(crate) fn is_wide(&self) -> bool {
        self.base.config().task_size > 1 << 47
    }

    /// Executes the history on both sides; the first difference.
    pub(crate) fn compare(&mut self, ops: &[Op], way: Way) -> Option<Difference> {
        let told = way == Way::Told;
        let flags = match (told, self.flags_after_each) {
            (false, _) => Flags::Never,
            (true, false) => Flags::Last,
            (true, true) => Flags::Each,
        };
        let pool = self.begin_huge();
        let steps = self
            .kernel
            .look_and_run(ops, flags, !told, self.huge.is_some());
        let mut facts = match way {
            Way::Told => None,
            Way::Asked => Some(0),
        };
        let mut space = self.base.fork().unwrap();
        if pool.is_some() {
            let config = space.config().clone();
            space.set_config(Config {
                huge_pool: pool.clone(),
                ..config
            });
        }
        for (step, (op, kernel)) in ops.iter().zip(&steps).enumerate() {
            // Made anew for each step, which may put a child in the place of the space.
            let shared = self.shared.then(|| space.share());
            let engine = self.step(&mut space, op, kernel, facts);
            let shared = shared.map(|_| space.share());
            if let Some(bits) = &mut facts {
                *bits = kernel.written;
            }
            let difference = |what| {
                let pools = steps.iter().take(step + 1).map(|step| step.pool);
                let what = match self.huge {
                    Some(_) => format!("{what}\npool: {:?}", pools.collect::<Vec<_>>()),
                    None => what,
                };
                Some(Difference { step, what })
            };
            if let Err(broken) = space.check() {
                return difference(format!("{op:?}: check: {broken}"));
            }
            if engine != kernel.result {
                return difference(format!(
                    "{op:x?}: the kernel returned {}, the engine {}",
                    show(kernel.result),
                    show(engine)
                ));
            }
            if let Some(what) = self.compare_pool(pool.as_ref(), kernel) {
                return difference(format!("{op:x?} = {}: {what}", show(engine)));
            }
            let compared = compare_maps(&space, shared.as_ref(), kernel).or_else(|| {
                let read = flags == Flags::Each || flags == Flags::Last && step + 1 == ops.len();
                compare_flags(&space, kernel).filter(|_| read)
            });
            if let Some(what) = compared {
                return difference(format!("{op:x?} = {}: {what}", show(engine)));
            }
            self.coverage.add(op, kernel.result);
        }
        drop(space);
        if let Some(what) = self.end_huge(pool.as_ref()) {
            let step = steps.len() - 1;
            return Some(Difference { step, what });
        }
        if steps.len() != ops.len() {
            return Some(Difference {
                step: steps.len(),
                what: format!("{:x?}: the child died", ops[steps.len()]),
            });
        }
        None
    }

    /// The shortest history found that still shows a difference. None if this one does not.
    pub(crate) fn shrink(&mut self, ops: &[Op], way: Way) -> Option<(Vec<Op>, Difference)> {
        self.flags_after_each = true;
        shortest(ops, |ops| {
            let found = self.compare(ops, way)?;
            Some((found.step, found))
        })
    }
}
