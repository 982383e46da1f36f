//! `mbind(2)` and `set_mempolicy_home_node(2)`: the nodes that the pages of a VMA come from.

use crate::errno::Errno;
use crate::flags::{PAGE_SIZE, page_align};
use crate::kernel::Rule;
use crate::pages::{Moving, Pages};
use crate::space::AddressSpace;
use crate::space::huge::size_of;
use crate::vma::Policy;

const DEFAULT: u64 = 0;
const PREFERRED: u64 = 1;
const BIND: u64 = 2;
const LOCAL: u64 = 4;
const PREFERRED_MANY: u64 = 5;
const WEIGHTED_INTERLEAVE: u64 = 6;
const LAST: u64 = WEIGHTED_INTERLEAVE;
const STATIC_NODES: u64 = 1 << 15;
const RELATIVE_NODES: u64 = 1 << 14;
const NUMA_BALANCING: u64 = 1 << 13;
const MODE_FLAGS: u64 = STATIC_NODES | RELATIVE_NODES | NUMA_BALANCING;
const MF_STRICT: u64 = 1;
const MF_MOVE: u64 = 2;
const MF_MOVE_ALL: u64 = 4;

impl AddressSpace {
    /// Returns `true` if a mode may be combined with [`NUMA_BALANCING`].
    fn may_be_balanced(&self, mode: u64) -> bool {
        mode == BIND || mode == PREFERRED_MANY && self.config.kernel.has(Rule::ManyAreBalanced)
    }

    #[inline(never)]
    pub(crate) fn mbind<P: Pages + ?Sized>(
        &mut self,
        addr: u64,
        len: u64,
        mode: u64,
        nodes: u64,
        flags: u64,
        pages: &mut P,
    ) -> Result<u64, Errno> {
        let mode_flags = mode & MODE_FLAGS;
        let plain = mode & !mode_flags;
        if plain > LAST
            || plain == WEIGHTED_INTERLEAVE && !self.config.kernel.has(Rule::WeightedInterleave)
            || mode_flags & (STATIC_NODES | RELATIVE_NODES) == STATIC_NODES | RELATIVE_NODES
            || mode_flags & NUMA_BALANCING != 0 && !self.may_be_balanced(plain)
            || flags & !(MF_STRICT | MF_MOVE | MF_MOVE_ALL) != 0
        {
            return Err(Errno::EINVAL);
        }
        if flags & MF_MOVE_ALL != 0 && !self.config.capabilities.sys_nice {
            return Err(Errno::EPERM);
        }
        if !addr.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        let end = addr.checked_add(page_align(len)).ok_or(Errno::EINVAL)?;
        if end == addr {
            return Ok(0);
        }
        let policy = self.policy(plain, mode_flags, nodes)?;
        // The default policy accepts all pages. Any other compares them with the nodes that were
        // named, even if it uses only some of these itself.
        let moving = match flags {
            _ if flags & MF_MOVE_ALL != 0 => Moving::All,
            _ if flags & MF_MOVE != 0 => Moving::Own,
            _ => Moving::Nothing,
        };
        let strict = flags & MF_STRICT != 0 && plain != DEFAULT;
        if strict && moving == Moving::Nothing && self.strays(addr, end, nodes, moving, pages) {
            return Err(Errno::EIO);
        }
        // The default policy accepts a range with holes, but not one without any VMA.
        let mapped = if policy == Policy::default() {
            self.areas.find_in(addr, end).is_some()
        } else {
            self.is_mapped(addr, end)
        };
        if !mapped {
            return Err(Errno::EFAULT);
        }
        self.for_parts(addr, end, |space, from, to| {
            space.alter(from, to, |vma| vma.policy = policy)
        })?;
        // Pages that could not be moved are reported after the policy has been set.
        if strict && moving != Moving::Nothing && self.strays(addr, end, nodes, moving, pages) {
            return Err(Errno::EIO);
        }
        Ok(0)
    }

    /// Returns `true` if a page of the range is on none of these nodes and stays there. Linux goes
    /// from VMA to VMA and stops at one that is followed by a hole before it looks at the pages
    /// there.
    fn strays<P: Pages + ?Sized>(
        &self,
        start: u64,
        end: u64,
        nodes: u64,
        moving: Moving,
        pages: &mut P,
    ) -> bool {
        let mut next = start;
        while let Some(area) = self.areas.find_in(next, end) {
            let (from, to) = (area.start.max(start), area.end.min(end));
            if from > next || to < end && self.areas.at(to).is_none() {
                return false;
            }
            next = area.end;
            // The kernel's own pages are on no node.
            if area.vma.is_special() {
                continue;
            }
            let found = match size_of(area.vma) {
                // Pages of the pool all count as pages of node 0, and no other process pins them.
                Some(size) => {
                    moving == Moving::Nothing
                        && nodes & 1 == 0
                        && self.has_huge(from, to, area.vma, size)
                }
                None => pages.strays(from, to, nodes, moving),
            };
            if found {
                return true;
            }
        }
        false
    }

    /// Sets the home node of the policies in a range. VMAs without a policy and holes are skipped.
    /// The first VMA with another policy than `MPOL_BIND` or `MPOL_PREFERRED_MANY` ends it; VMAs
    /// below have the home node then.
    ///
    /// # Errors
    /// Linux's: `EOPNOTSUPP` for such a policy, `ENOENT` if no VMA has a policy.
    #[inline(never)]
    pub(crate) fn set_home_node(
        &mut self,
        addr: u64,
        len: u64,
        home: u64,
        flags: u64,
    ) -> Result<u64, Errno> {
        if flags != 0 || !addr.is_multiple_of(PAGE_SIZE) || home >= self.config.numa_nodes.into() {
            return Err(Errno::EINVAL);
        }
        let home = u16::try_from(home).map_err(|_| Errno::EINVAL)?;
        let end = addr.checked_add(page_align(len)).ok_or(Errno::EINVAL)?;
        if end == addr {
            return Ok(0);
        }
        let mut found = false;
        self.for_parts(addr, end, |space, from, to| {
            let area = space.areas.at(from).ok_or(Errno::EFAULT)?;
            let policy = area.vma.policy;
            if policy == Policy::default() {
                return Ok(());
            }
            if !matches!(u64::from(policy.mode) & !MODE_FLAGS, BIND | PREFERRED_MANY) {
                return Err(Errno::EOPNOTSUPP);
            }
            found = true;
            let home = Some(home);
            space.alter(from, to, |vma| vma.policy.home = home)
        })?;
        if found { Ok(0) } else { Err(Errno::ENOENT) }
    }

    /// Returns the policy that the arguments describe.
    ///
    /// # Errors
    /// `EINVAL` if mode and nodes do not agree.
    fn policy(&self, mode: u64, mode_flags: u64, nodes: u64) -> Result<Policy, Errno> {
        let fixed = mode_flags & (STATIC_NODES | RELATIVE_NODES) != 0;
        match mode {
            DEFAULT if nodes != 0 => return Err(Errno::EINVAL),
            DEFAULT => return Ok(Policy::default()),
            PREFERRED if nodes == 0 && fixed => return Err(Errno::EINVAL),
            PREFERRED if nodes == 0 => return Ok(policy_of(LOCAL, 0)),
            LOCAL if nodes != 0 || fixed => return Err(Errno::EINVAL),
            LOCAL => return Ok(policy_of(LOCAL, 0)),
            _ if nodes == 0 => return Err(Errno::EINVAL),
            _ => {}
        }
        let policy = policy_of(mode | mode_flags, nodes);
        match policy.effective(self.config.numa_nodes) {
            0 => Err(Errno::EINVAL),
            // Nodes that the machine does not have are forgotten.
            existing if mode_flags == 0 => Ok(policy_of(mode | mode_flags, existing)),
            _ => Ok(policy),
        }
    }
}

fn policy_of(mode: u64, nodes: u64) -> Policy {
    Policy {
        // A mode and its flags take 16 bits.
        mode: mode as u32,
        home: None,
        nodes,
    }
}

impl Policy {
    /// Returns the nodes 0 to 63, one bit each, that pages come from on a machine with `count`
    /// nodes. Relative node numbers start over after the last node, and a preferred node is the
    /// first one of those given (`set_mempolicy(2)`,
    /// Documentation/admin-guide/mm/numa_memory_policy.rst).
    pub(crate) fn effective(self, count: u32) -> u64 {
        let existing = 1u64.checked_shl(count).map_or(u64::MAX, |above| above - 1);
        let mode = u64::from(self.mode);
        let mut nodes = self.nodes & existing;
        if mode & RELATIVE_NODES != 0 && count != 0 {
            let mut left = self.nodes;
            while left != 0 {
                nodes |= left & existing;
                left = left.checked_shr(count).unwrap_or(0);
            }
        }
        match mode & !MODE_FLAGS {
            PREFERRED => nodes & nodes.wrapping_neg(),
            _ => nodes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_nodes_a_policy_means() {
        let effective = |mode, nodes, count| policy_of(mode, nodes).effective(count);
        assert_eq!(effective(BIND, 0b1011, 2), 0b11);
        assert_eq!(effective(PREFERRED, 0b1010, 4), 0b10);
        assert_eq!(effective(BIND | STATIC_NODES, 0b1100, 2), 0);
        // Node 5 of four is node 1, the sixth of three node 2.
        assert_eq!(effective(BIND | RELATIVE_NODES, 1 << 5, 4), 0b10);
        assert_eq!(effective(BIND | RELATIVE_NODES, 1 << 5 | 1, 3), 0b101);
        assert_eq!(effective(PREFERRED | RELATIVE_NODES, 1 << 63, 1), 1);
        for count in [64, 100] {
            assert_eq!(
                effective(BIND | RELATIVE_NODES, 1 << 63 | 1, count),
                1 << 63 | 1
            );
        }
    }
}
