//! `pkey_alloc(2)` and `pkey_free(2)`.

use crate::abi;
use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::space::AddressSpace;

/// Protection keys of the processor.
const KEYS: u16 = 16;
/// `PKEY_DISABLE_ACCESS | PKEY_DISABLE_WRITE`.
const RIGHTS: u64 = 3;

impl AddressSpace {
    pub(crate) fn pkey_alloc(&mut self, flags: u64, rights: u64) -> Result<u64, Errno> {
        if flags != 0 || rights & !RIGHTS != 0 {
            return Err(Errno::EINVAL);
        }
        // A processor without keys has one all the same, as Linux counts, but nobody can set rights to it: it is taken, and the call fails.
        let keys = if self.config.pkeys { KEYS } else { 1 };
        // The key of all memory is one like the others, once it has been given back.
        let Some(key) = (0..keys).find(|key| self.pkeys & (1 << key) == 0) else {
            return Err(Errno::ENOSPC);
        };
        self.pkeys |= 1 << key;
        if self.config.pkeys {
            Ok(u64::from(key))
        } else {
            Err(Errno::EINVAL)
        }
    }

    pub(crate) fn pkey_free(&mut self, pkey: i32) -> Result<u64, Errno> {
        if !self.is_pkey(pkey) {
            return Err(Errno::EINVAL);
        }
        self.pkeys &= !(1 << pkey);
        Ok(0)
    }

    /// The key of an area with only execute permission: Linux sets one aside for this on first use, which denies reading. 0
    /// if there is none.
    pub(crate) fn execute_only_key(&mut self) -> u32 {
        if !self.config.pkeys {
            return 0;
        }
        if self.execute_only == 0 {
            let Some(key) = (1..KEYS).find(|key| self.pkeys & (1 << key) == 0) else {
                return 0;
            };
            self.pkeys |= 1 << key;
            self.execute_only = key as u8;
        }
        u32::from(self.execute_only)
    }

    /// The key of a new mapping, set aside even if that is refused later. Only for that very protection: not with `PROT_SEM`, or bits that mean nothing here.
    #[inline(always)]
    pub(crate) fn key_for_new(&mut self, protection: u64) -> u32 {
        match protection {
            abi::PROT_EXEC => self.execute_only_key(),
            _ => 0,
        }
    }

    /// The key that `mprotect` gives an area when the caller names none.
    pub(crate) fn key_for(&mut self, old: VmFlags, protection: u64) -> u32 {
        // That very protection: PROT_SEM beside it takes no key.
        if protection == abi::PROT_EXEC {
            let key = self.execute_only_key();
            if key != 0 {
                return key;
            }
        }
        let was_execute_only = old & VmFlags::ACCESS == VmFlags::EXEC
            && self.execute_only != 0
            && old.pkey() == u32::from(self.execute_only);
        if was_execute_only { 0 } else { old.pkey() }
    }

    /// Whether the area's key denies reading and writing to every thread.
    pub(crate) fn is_execute_only(&self, flags: VmFlags) -> bool {
        self.execute_only != 0 && flags.pkey() == u32::from(self.execute_only)
    }

    /// Whether the key is allocated: key 0 is from the beginning, and none is without keys.
    pub(crate) fn is_pkey(&self, pkey: i32) -> bool {
        self.config.pkeys
            && (0..i32::from(KEYS)).contains(&pkey)
            && self.pkeys & (1 << pkey) != 0
            && (pkey == 0 || pkey != i32::from(self.execute_only))
    }
}
