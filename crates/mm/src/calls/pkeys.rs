//! `pkey_alloc(2)` and `pkey_free(2)`.

use crate::abi;
use crate::errno::Errno;
use crate::flags::VmFlags;
use crate::space::AddressSpace;

/// The number of protection keys of the processor.
const KEYS: u16 = 16;
/// `PKEY_DISABLE_ACCESS | PKEY_DISABLE_WRITE`.
const RIGHTS: u64 = 3;

impl AddressSpace {
    pub(crate) fn pkey_alloc(&mut self, flags: u64, rights: u64) -> Result<u64, Errno> {
        if flags != 0 || rights & !RIGHTS != 0 {
            return Err(Errno::EINVAL);
        }
        // Linux counts one key on a processor without keys, but its rights cannot be set: it is
        // allocated, and the call fails.
        let keys = if self.config.pkeys { KEYS } else { 1 };
        // Key 0 can be allocated like the others once it has been freed.
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

    /// Returns the key for VMAs with only execute permission, which denies reading. Linux allocates
    /// it on first use. Returns 0 if none is free.
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

    /// Returns the key of a new mapping. It is allocated even if the mapping is refused later. Only
    /// for exactly this protection: not with `PROT_SEM` or unknown bits.
    #[inline(always)]
    pub(crate) fn key_for_new(&mut self, protection: u64) -> u32 {
        match protection {
            abi::PROT_EXEC => self.execute_only_key(),
            _ => 0,
        }
    }

    /// Returns the key that `mprotect` gives a VMA if the caller names none.
    pub(crate) fn key_for(&mut self, old: VmFlags, protection: u64) -> u32 {
        // Exactly this protection: with PROT_SEM it has no key.
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

    /// Returns `true` if the key of the VMA denies every thread reading and writing.
    pub(crate) fn is_execute_only(&self, flags: VmFlags) -> bool {
        self.execute_only != 0 && flags.pkey() == u32::from(self.execute_only)
    }

    /// Returns `true` if the key is allocated. Key 0 is from the beginning, and no key is on a
    /// machine without keys.
    pub(crate) fn is_pkey(&self, pkey: i32) -> bool {
        self.config.pkeys
            && (0..i32::from(KEYS)).contains(&pkey)
            && self.pkeys & (1 << pkey) != 0
            && (pkey == 0 || pkey != i32::from(self.execute_only))
    }
}
