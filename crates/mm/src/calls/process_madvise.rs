//! `process_madvise(2)` of a process for itself: advice for several ranges in one call.

use crate::abi;
use crate::errno::Errno;
use crate::kernel::Rule;
use crate::pages::Pages;
use crate::space::AddressSpace;

/// The most ranges in one call (`UIO_MAXIOV`).
const MOST_RANGES: usize = 1024;
/// The most bytes in one call, as for reading and writing.
const MOST_BYTES: u64 = 0x7fff_f000;

impl AddressSpace {
    /// Performs `process_madvise`, and returns the number of bytes advised. After an error this is
    /// the number for the ranges before, if there are any. A refusal by the owner of the pages, or
    /// a failed allocation, undoes all of it.
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
            // Empty ranges are skipped, except the first one, whose address is checked.
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

    /// Checks the ranges before anything is advised.
    ///
    /// # Errors
    /// `EINVAL` for flags, too many ranges or a length that is too large, `EFAULT` for a range
    /// beyond user space.
    fn check_ranges(&self, ranges: &[(u64, u64)], flags: u64) -> Result<(), Errno> {
        if flags != 0 || ranges.len() > MOST_RANGES {
            return Err(Errno::EINVAL);
        }
        if ranges.iter().any(|(_, len)| *len > i64::MAX as u64) {
            return Err(Errno::EINVAL);
        }
        // A single range is trimmed to the most bytes of one call before it is checked. Several
        // ranges are checked as given.
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
