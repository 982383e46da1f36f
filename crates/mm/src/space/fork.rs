//! The map of a child of a fork, and copies of an address space.

use core::mem::MaybeUninit;
use core::ops::RangeInclusive;

use crate::config::Config;
use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::heap::boxed::try_box;
use crate::heap::place::fill;
use crate::huge_pool::HugePool;
use crate::space::guards::Guards;
use crate::space::{AddressSpace, Counters};
use crate::vma::vma_box::CopyAttrs;
use crate::vma::{AnonVma, Vma};

impl AddressSpace {
    /// Returns the address space of a child made by `fork(2)`: VMAs marked `MADV_DONTFORK` are left
    /// out, locks are not inherited, and every VMA with an anon_vma gets a new one.
    ///
    /// VMAs that have been written must have been reported before.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails, or when one charged VMA is larger than the memory and
    /// swap of the machine; the child is dropped.
    pub fn fork(&mut self) -> Result<AddressSpace, Errno> {
        let mut child = MaybeUninit::uninit();
        self.fork_into(&mut child, |_, _| {})?;
        // SAFETY: `fork_into` has initialised it.
        Ok(unsafe { child.assume_init() })
    }

    /// As [`fork`](Self::fork), but builds the child in place. Calls `look` for each VMA of the
    /// parent with its inclusive range, upwards; on failure perhaps not for all.
    ///
    /// # Errors
    /// As [`fork`](Self::fork).
    #[inline]
    pub(crate) fn fork_into(
        &mut self,
        child: &mut MaybeUninit<AddressSpace>,
        mut look: impl FnMut(RangeInclusive<u64>, &Vma),
    ) -> Result<(), Errno> {
        if !self.may_commit_copies() {
            return Err(Errno::ENOMEM);
        }
        let guards = self.forked_guards()?;
        let mut next_anon = self.next_anon;
        // SAFETY: a field of `child`, as uninitialised memory.
        let areas = unsafe { &mut *(&raw mut (*child.as_mut_ptr()).areas).cast() };
        self.areas.try_clone_into(areas, |range, vma| {
            look(range, vma);
            if vma.flags.contains(VmFlags::DONTCOPY) {
                return None;
            }
            let owned = vma.anon().is_some() && !vma.flags.contains(VmFlags::WIPEONFORK);
            next_anon += u64::from(owned);
            Some(CopyAttrs {
                flags: vma.flags - (VmFlags::LOCKED_MASK | VmFlags::UFFD),
                anon: owned.then(|| AnonVma::forked(next_anon)),
                keep_uffd: false,
            })
        })?;
        fill!(
            child,
            AddressSpace {
                areas,
                guards: guards,
                config: Config {
                    mdwe: self.config.mdwe.inherited(),
                    ..self.config.clone()
                },
                limits: self.limits,
                layout: self.layout,
                future_locked: VmFlags::empty(),
                pkeys: self.pkeys,
                execute_only: self.execute_only,
                next_anon: next_anon,
                locked_leak: 0,
                counters: Counters::default(),
            }
        );
        Ok(())
    }

    /// Returns a second model of the same process, unlike a [`fork`](Self::fork): the same map,
    /// anon_vmas and figures. It takes nothing from the pool of huge pages, because the first one
    /// has taken everything that the process has.
    ///
    /// # Errors
    /// `ENOMEM` when an allocation fails.
    pub fn try_clone(&self) -> Result<AddressSpace, Errno> {
        let mut areas = MaybeUninit::uninit();
        self.areas
            .try_clone_into(&mut areas, |_, vma| Some(CopyAttrs::same(vma)))?;
        Ok(AddressSpace {
            // SAFETY: `try_clone_into` has initialised it.
            areas: unsafe { areas.assume_init() },
            guards: self.guards.try_clone()?,
            config: Config {
                huge_pool: match &self.config.huge_pool {
                    Some(pool) if pool.is_told() => Some(pool.clone()),
                    Some(_) => Some(HugePool::told()?),
                    None => None,
                },
                ..self.config.clone()
            },
            limits: self.limits,
            layout: self.layout,
            future_locked: self.future_locked,
            pkeys: self.pkeys,
            execute_only: self.execute_only,
            next_anon: self.next_anon,
            locked_leak: self.locked_leak,
            counters: self.counters,
        })
    }

    /// Returns the markers of a child. VMAs that it does not inherit, or that are wiped for it,
    /// have none. Poison is copied only with page tables: where there may be private pages or
    /// guards.
    fn forked_guards(&self) -> Result<Guards, Errno> {
        if self.guards.is_empty() {
            return Ok(Guards::new());
        }
        let mut guards = self.guards.marks()?;
        guards.huge = match self.forked_slots()? {
            Some(slots) => Some(try_box(slots)?),
            None => None,
        };
        let copies = |vma: &Vma| {
            !vma.flags
                .intersects(VmFlags::DONTCOPY | VmFlags::WIPEONFORK)
        };
        let mut next = 0;
        while let Some((first, _)) = guards.first_in(next, u64::MAX) {
            let Some(area) = self.areas.at(first) else {
                break;
            };
            next = area.end;
            if !copies(area.vma) {
                guards.remove(area.start, area.end)?;
            } else if area.vma.anon().is_none() && !area.vma.guarded.get() {
                guards.clear_poison(area.start, area.end)?;
            }
        }
        Ok(guards)
    }
}
