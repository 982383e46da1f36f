//! `process_madvise(2)` of a process for itself: advice for several ranges in one call.

use crate::abi;
use crate::errno::Errno;
use crate::kernel::Rule;
use crate::pages::Pages;
use crate::space::AddressSpace;

/// Ranges in one call (`UIO_MAXIOV`).
const MOST_RANGES: usize = 1024;
/// Bytes in one call: what one reads or writes at most.
const MOST_BYTES: u64 = 0x7fff_f000;

impl AddressSpace {
    /// The result is the number of bytes advised. After an error it is that of the ranges before, if there are any; but what the owner of the
    /// pages refuses, or memory that runs out, undoes all of it.
    #[cold]
    #[inline(never)]
    pub(crate) fn process_madvise<P: Pages + ?Sized>(
        &mut self,
        ranges: &[(u64, u64)],
        advice: i32,
        flags: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        self.check_ranges(ranges, flags)?;
        let kernel = self.config.kernel;
        let any = kernel.has(Rule::AnyAdviceToOneself);
        let allowed = any
            || matches!(
                advice,
                abi::MADV_WILLNEED | abi::MADV_COLD | abi::MADV_PAGEOUT | abi::MADV_COLLAPSE
            );
        if !allowed {
            return Err(Errno::EINVAL);
        }
        let privileged = any || kernel.has(Rule::OneselfIsNoOther);
        if !privileged && !self.config.capabilities.sys_nice {
            return Err(Errno::EPERM);
        }
        let all = ranges
            .iter()
            .fold(0, |all: u64, (_, len)| all.saturating_add(*len));
        let mut left = all.min(MOST_BYTES);
        let mut done = 0;
        for (index, (addr, len)) in ranges.iter().enumerate() {
            if left == 0 {
                break;
            }
            let len = (*len).min(left);
            // Empty ones are passed over, but for the first, of which the address is looked at.
            if len == 0 && index > 0 {
                continue;
            }
            match self.do_madvise(*addr, len, advice, pages) {
                Ok(_) => done += len,
                Err(errno) if done == 0 || self.is_refused() => return Err(errno),
                Err(_) => break,
            }
            left -= len;
        }
        Ok(done)
    }

    /// What is refused before anything is advised.
    fn check_ranges(&self, ranges: &[(u64, u64)], flags: u64) -> Result<(), Errno> {
        if flags != 0 || ranges.len() > MOST_RANGES {
            return Err(Errno::EINVAL);
        }
        if ranges.iter().any(|(_, len)| *len > i64::MAX as u64) {
            return Err(Errno::EINVAL);
        }
        // The only one is cut to what one call does before it is looked at; of several, each is looked at as it was given.
        let cut = ranges.len() == 1 && self.config.kernel.has(Rule::OneRangeIsCutFirst);
        let most = if cut { MOST_BYTES } else { u64::MAX };
        let top = self.config.task_size;
        let within = |addr: u64, len: u64| addr <= top && len.min(most) <= top - addr;
        match ranges.iter().all(|(addr, len)| within(*addr, *len)) {
            true => Ok(()),
            false => Err(Errno::EFAULT),
        }
    }
}
