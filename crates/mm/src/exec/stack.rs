//! The stack of a new program: the strings of arguments and environment, the room to grow, the vectors.

use crate::config::Limits;
use crate::errno::Errno;
use crate::flags::{PAGE_MASK, PAGE_SIZE, VmFlags, page_align};
use crate::kernel::Rule;
use crate::space::AddressSpace;
use crate::space::areas::Span;
use crate::vma::vma_box::VmaBox;
use crate::vma::{AnonVma, Backing, Vma};

use super::headers::Class;
use super::layout::Frame;
use super::random::{Base, Choice, Random, place};

/// Longest string, with its zero byte (`MAX_ARG_STRLEN` in `execve(2)`).
const LONGEST: u64 = 32 * PAGE_SIZE;
/// The size that strings and pointers together may always have (`ARG_MAX`), and the most that they
/// may ever have.
const LEAST: u64 = 128 << 10;
const MOST: u64 = 6 << 20;
/// The space that the stack gets below the strings, if its limit allows it.
const ROOM: u64 = 128 << 10;
/// Sizes of what is between the strings and the vectors: bytes drawn by lot for `AT_RANDOM`; the alignment of vectors.
pub(super) const SEED: u64 = 16;
const ALIGN: u64 = 16;
/// By how much the place of the vectors may be lowered by lot (exclusive).
const SHUFFLE: u64 = 8192;

/// The strings while they are put below the end of the stack, wherever that will be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strings {
    /// Bytes from the end of the stack down to the lowest string.
    used: u64,
    /// The most that ever were in use: pages stay, though a script's name replaces another.
    deepest: u64,
    /// Bytes that may be used.
    limit: u64,
    /// Bytes that the stack may have.
    stack_limit: u64,
}

impl Strings {
    /// Starts a stack for this many arguments and variables of the environment. Their pointers, of
    /// the caller's class, count against the limit.
    ///
    /// # Errors
    /// `E2BIG` if the pointers alone are too many.
    pub(super) fn new(arguments: usize, variables: usize, limits: &Limits) -> Result<Self, Errno> {
        let pointers = (arguments.max(1) as u64)
            .saturating_add(variables as u64)
            .saturating_mul(Class::Elf64.word());
        let all = (limits.stack / 4).clamp(LEAST, MOST);
        if all <= pointers {
            return Err(Errno::E2BIG);
        }
        // The last word of the stack stays zero.
        let used = Class::Elf64.word();
        Ok(Strings {
            used,
            deepest: used,
            limit: used + all - pointers,
            stack_limit: limits.stack,
        })
    }

    /// Puts a string, without its zero byte, below the others.
    ///
    /// # Errors
    /// `E2BIG`.
    pub(super) fn push(&mut self, text: &[u8]) -> Result<(), Errno> {
        let len = (text.len() as u64).saturating_add(1);
        if len > LONGEST {
            return Err(Errno::E2BIG);
        }
        self.used = self.used.saturating_add(len);
        self.deepest = self.deepest.max(self.used);
        // The first page is there whatever the limit says.
        let stack = page_align(self.used);
        if self.used > self.limit || stack > PAGE_SIZE && stack > self.stack_limit {
            return Err(Errno::E2BIG);
        }
        Ok(())
    }

    /// Returns the address of the lowest string, with the end of the stack at `end`.
    pub(super) fn lowest(&self, end: u64) -> u64 {
        end.saturating_sub(self.used)
    }

    /// Removes the lowest string, which has `len` bytes.
    pub(super) fn pop(&mut self, len: usize) {
        self.used = self.used.saturating_sub(len as u64 + 1);
    }
}

/// The facts that decide the length of the vectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vectors {
    pub(super) arguments: usize,
    pub(super) variables: usize,
    /// `true` if the program is passed a descriptor.
    pub(super) descriptor: bool,
}

/// Maps the stack with its strings and room.
///
/// Its end is drawn by lot; the strings move with it. Says where it ends.
///
/// # Errors
/// `ENOMEM` where a limit forbids it or an allocation fails.
pub(super) fn map<R: Random + ?Sized>(
    space: &mut AddressSpace,
    frame: Frame,
    strings: &Strings,
    executable: bool,
    random: &mut R,
) -> Result<u64, Errno> {
    let end = if frame.is_random {
        // Lowered by whole pages, and then by up to two more, since the place within a page is drawn, too, and rounded.
        let pages = frame.stack_pages() + 2;
        let choice = Choice {
            base: Base::Stack,
            lowest: frame.task_size - pages * PAGE_SIZE,
            step: PAGE_SIZE,
            count: pages + 1,
        };
        place(random, &choice)
    } else {
        frame.task_size
    };
    let len = page_align(strings.deepest).max(PAGE_SIZE);
    let wanted = (len + ROOM).min(space.limits.stack & PAGE_MASK);
    let start = end.checked_sub(len).ok_or(Errno::ENOMEM)?;
    if start < space.config.task_base {
        return Err(Errno::ENOMEM);
    }
    let mut flags =
        VmFlags::READ | VmFlags::WRITE | VmFlags::MAY_ALL | VmFlags::GROWSDOWN | VmFlags::ACCOUNT;
    if executable {
        flags |= VmFlags::EXEC;
    }
    if !space.may_expand(flags, len >> 12) || !space.may_commit(len >> 12) {
        return Err(Errno::ENOMEM);
    }
    // It was made and written at the end of the address space, and keeps the page offsets that it had there.
    let top = space.config.task_size;
    let anon = AnonVma::next(&mut space.next_anon);
    let vma = Vma {
        anon: Some(anon).into(),
        ..Vma::new(flags, top.wrapping_sub(end) >> 12, Backing::Anonymous)
    };
    let mut span = Span::new(start, end);
    space.areas.overlap(&mut span);
    space.areas.insert(&span, VmaBox::try_new(vma)?)?;
    space.areas.open_locks();
    if wanted > len {
        space.grow_stack(end - wanted)?;
    }
    Ok(end)
}

/// Returns the start of the vectors, which is the stack pointer of the new program, and the address
/// of the platform's name.
///
/// From the strings down: the name of the platform, 16 bytes of randomness, and, aligned, the auxiliary vector, the environment, the
/// arguments and their number.
///
/// # Errors
/// `EFAULT` if the stack cannot grow that far.
pub(super) fn lay_vectors<R: Random + ?Sized>(
    space: &mut AddressSpace,
    frame: Frame,
    end: u64,
    strings: &Strings,
    vectors: &Vectors,
    random: &mut R,
) -> Result<(u64, u64), Errno> {
    let lowest_string = strings.lowest(end);
    let highest = lowest_string & !(ALIGN - 1);
    let below = if frame.is_random {
        let lowest = lowest_string.saturating_sub(SHUFFLE - 1) & !(ALIGN - 1);
        let choice = Choice {
            base: Base::Vectors,
            lowest,
            step: ALIGN,
            count: (highest - lowest) / ALIGN + 1,
        };
        place(random, &choice)
    } else {
        highest
    };
    let mut entries = match frame.class {
        Class::Elf64 => 20,
        // There is one more: where system calls are entered.
        Class::Elf32 => 21,
    };
    if tells_rseq(space) {
        entries += 2;
    }
    let name = frame.architecture.platform(frame.class);
    entries -= u64::from(name.is_empty());
    entries += 1 + u64::from(vectors.descriptor);
    let words = 2 * entries + vectors.arguments as u64 + 1 + vectors.variables as u64 + 1 + 1;
    let platform = below.checked_sub(name.len() as u64).ok_or(Errno::EFAULT)?;
    let pointer = platform
        .checked_sub(SEED)
        .and_then(|at| at.checked_sub(words.saturating_mul(frame.class.word())))
        .map(|at| at & !(ALIGN - 1))
        .ok_or(Errno::EFAULT)?;
    let area = space.areas.find(pointer).ok_or(Errno::EFAULT)?;
    if area.start > pointer {
        space.grow_stack(pointer).map_err(|_| Errno::EFAULT)?;
    }
    // Segments may lie where the stack was.
    let mut next = pointer;
    while next < below {
        let area = space.areas.at(next).ok_or(Errno::EFAULT)?;
        if !area.vma.flags.contains(VmFlags::WRITE) {
            return Err(Errno::EFAULT);
        }
        let end = area.end;
        space.touch(next);
        next = end;
    }
    Ok((pointer, platform))
}

/// Returns `true` if programs are told about restartable sequences.
pub(super) fn tells_rseq(space: &AddressSpace) -> bool {
    space.config.kernel.has(Rule::RestartableSequences)
}
