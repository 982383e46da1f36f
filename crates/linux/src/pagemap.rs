//! `/proc/PID/pagemap`: which pages of an address space hold anonymous memory.
//!
//! A page that a private area has of its own means that the area has an `anon_vma`, which decides
//! whether areas merge.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use crate::living::Living;
use crate::maps::{Map, MapsFile};
use crate::{Tid, proc_file, smaps};

/// `struct pm_scan_arg` of the `PAGEMAP_SCAN` ioctl (Documentation/admin-guide/mm/pagemap.rst).
#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region`: what the scan reports.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610u32 as libc::Ioctl;
/// Not write-protected by a userfaultfd.
const WRITTEN: u64 = 1 << 1;
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const PFNZERO: u64 = 1 << 5;
const HUGE: u64 = 1 << 6;
/// Since Linux 6.15. A guard marker looks like a page that was swapped out, but makes no `anon_vma` by itself.
const GUARD: u64 = 1 << 8;
const PAGE: u64 = 4096;
const REGIONS: usize = 64;
/// The frame number in a word of `/proc/PID/pagemap`.
const FRAME: u64 = (1 << 55) - 1;
/// The largest range in bytes that is looked through word by word.
const LARGE: u64 = 1 << 30;

/// The state of a page that [`Pagemap::held`] looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The page is present.
    Page,
    /// The page is swapped out or poisoned, which looks the same. Before Linux 6.15, guard markers do, too.
    Marker,
}

/// The pagemap of one address space, kept open. After the program's `execve` it answers that there
/// are no pages.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
    /// The process that uses the address space.
    living: Living,
    /// The categories that the kernel can tell of a page, with [`GUARD`] or without.
    tells: u64,
    /// The kernel is older than `PAGEMAP_SCAN` (6.7): its table of words is read instead.
    words: bool,
}

impl Pagemap {
    /// Opens the pagemap of a thread's address space.
    ///
    /// # Errors
    /// Those of opening the file.
    pub fn open(tid: Tid) -> io::Result<Self> {
        Ok(Self {
            file: File::open(format!("/proc/{tid}/pagemap"))?,
            living: Living::through(tid),
            tells: WRITTEN | PRESENT | SWAPPED | PFNZERO | HUGE | GUARD,
            words: false,
        })
    }

    /// Returns `true` if `start..end` has an anonymous page, present or swapped out. The shared zero page
    /// does not count. The huge one does, because its fault prepares the `anon_vma`.
    ///
    /// # Errors
    /// Those of reading; that the process has ended is no error.
    pub fn written(&mut self, start: u64, end: u64) -> io::Result<bool> {
        let mut found = false;
        self.each_written(start, end, &mut |_, _| {
            found = true;
            false
        })?;
        Ok(found)
    }

    /// Calls `visit` for each run of pages that [`written`](Self::written) counts, ascending, until it
    /// returns `false`.
    ///
    /// # Errors
    /// As [`written`](Self::written).
    pub fn each_written(
        &mut self,
        start: u64,
        end: u64,
        visit: &mut dyn FnMut(u64, u64) -> bool,
    ) -> io::Result<()> {
        if self.words {
            return self.each_among_words(start, end, visit);
        }
        let mut regions = [Region::default(); REGIONS];
        let mut from = start;
        while from < end {
            let mut argument = ScanArgument {
                size: size_of::<ScanArgument>() as u64,
                start: from,
                end,
                vec: regions.as_mut_ptr() as u64,
                vec_len: REGIONS as u64,
                category_inverted: FILE,
                category_mask: FILE,
                category_anyof_mask: PRESENT | SWAPPED,
                return_mask: self.tells,
                ..ScanArgument::default()
            };
            // SAFETY: `argument` is the struct that this ioctl takes; `vec` and `vec_len` describe `regions`.
            let count =
                unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
            if count < 0 {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    Some(libc::EINVAL) if self.tells & GUARD != 0 => {
                        self.tells -= GUARD;
                        continue;
                    }
                    Some(libc::ENOTTY | libc::EINVAL) => {
                        self.words = true;
                        return self.each_among_words(from, end, visit);
                    }
                    // No process has this address space any more.
                    Some(libc::ESRCH) => return Ok(()),
                    _ => return Err(error),
                }
            }
            for region in &regions[..count as usize] {
                let zero = region.categories & (PFNZERO | HUGE) == PFNZERO;
                let guard = region.categories & GUARD != 0;
                let mut more = true;
                if region.categories & (WRITTEN | PRESENT | SWAPPED) == SWAPPED {
                    // Pages that are swapped out, and what protects where no page is.
                    self.each_word(region.start, region.end, &mut |from, to| {
                        more = visit(from, to);
                        more
                    })?;
                } else if !zero && !guard {
                    more = visit(region.start, region.end);
                }
                if !more {
                    return Ok(());
                }
            }
            if argument.walk_end <= from || count == 0 && argument.walk_end >= end {
                break;
            }
            from = argument.walk_end;
        }
        Ok(())
    }

    /// Returns the same where only words can be read, of which there is one for each page, mapped
    /// or not: in a large range, only those of areas that have such pages are looked at. An area
    /// that is too large itself counts as a whole.
    fn each_among_words(
        &mut self,
        start: u64,
        end: u64,
        visit: &mut dyn FnMut(u64, u64) -> bool,
    ) -> io::Result<()> {
        if end - start <= LARGE {
            return self.each_word(start, end, visit);
        }
        for (low, high) in self.living.ask(smaps::with_own_pages)? {
            let (low, high) = (low.max(start), high.min(end));
            if low >= high {
                continue;
            }
            let mut more = true;
            if high - low > LARGE {
                more = visit(low, high);
            } else {
                self.each_word(low, high, &mut |from, to| {
                    more = visit(from, to);
                    more
                })?;
            }
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// Returns `true` if this is the huge zero page. It fills its stretch of 512 pages, in order, in memory of no file. `frame` is that of the page, or 0 where it is hidden.
    fn is_huge_zero(&self, page: u64, frame: u64) -> io::Result<bool> {
        let first = page / 512 * 512;
        if frame != 0 && frame % 512 != page - first {
            return Ok(false);
        }
        for page in [first, first + 511] {
            let mut word = [0; 8];
            let read = self.file.read_at(&mut word, page * 8)?;
            if read < 8 || u64::from_ne_bytes(word) >> 61 != PRESENT_OF_NO_OWNER {
                return Ok(false);
            }
        }
        self.living.ask(|tid| is_anonymous(tid, page * PAGE))
    }

    /// Returns the runs of pages in `start..end` in this state, ascending.
    ///
    /// # Errors
    /// Those of reading.
    pub fn held(&self, start: u64, end: u64, kind: Held) -> io::Result<Vec<(u64, u64)>> {
        let mut words = vec![0; 8 * 512];
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut at = start;
        while at < end {
            let wanted = ((end - at) / PAGE).min(512) as usize * 8;
            let read = self.file.read_at(&mut words[..wanted], at / PAGE * 8)?;
            if read < 8 {
                break;
            }
            for word in words[..read].chunks_exact(8) {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(word);
                let word = u64::from_ne_bytes(bytes);
                let is_so = match kind {
                    Held::Page => word >> 63 != 0,
                    Held::Marker => word >> 62 == 1 && word >> 58 & 1 == 0,
                };
                match runs.last_mut() {
                    Some((_, last)) if is_so && *last == at => *last = at + PAGE,
                    _ if is_so => runs.push((at, at + PAGE)),
                    _ => {}
                }
                at += PAGE;
            }
        }
        Ok(runs)
    }

    /// From the words of `/proc/PID/pagemap`: bit 63 present, 62 swapped, 61 file or shared anonymous (or the huge zero page), 58 a guard marker, 57 write-protected by a
    /// userfaultfd.
    /// The small zero page can only be told by its frame number, which root sees; others count it as written.
    fn each_word(
        &mut self,
        start: u64,
        end: u64,
        visit: &mut dyn FnMut(u64, u64) -> bool,
    ) -> io::Result<()> {
        let mut words = [0u8; 8 * 512];
        // Of the stretch that was looked at last: which one, and whether it is the huge zero page.
        let mut zeroes = (u64::MAX, false);
        let mut page = start / PAGE;
        let last = end.div_ceil(PAGE);
        while page < last {
            let wanted = ((last - page) as usize).min(512) * 8;
            let read = self.file.read_at(&mut words[..wanted], page * 8)?;
            if read < 8 {
                break;
            }
            for chunk in words[..read].chunks_exact(8) {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(chunk);
                let word = u64::from_ne_bytes(bytes);
                let anonymous = word >> 62 != 0
                    && word >> 61 & 1 == 0
                    && word >> 58 & 1 == 0
                    && !is_protection(word)
                    && (word >> 63 == 0 || !is_zero_page(word & FRAME));
                if word >> 61 == PRESENT_OF_NO_OWNER && zeroes.0 != page / 512 {
                    zeroes = (page / 512, self.is_huge_zero(page, word & FRAME)?);
                }
                let zero = word >> 61 == PRESENT_OF_NO_OWNER && zeroes.1;
                if (anonymous || zero) && !visit(page * PAGE, (page + 1) * PAGE) {
                    return Ok(());
                }
                page += 1;
            }
        }
        Ok(())
    }
}

/// Returns `true` if an address lies in private memory of no file.
fn is_anonymous(tid: Tid, address: u64) -> io::Result<bool> {
    let mut map = Map::default();
    MapsFile::open(tid)?.read(&mut map)?;
    let area = map.at(address);
    Ok(area.is_some_and(|area| area.perms[3] == b'p' && area.inode == 0))
}

/// Bits 61 to 63 of a word: present, and of a file, shared, or the huge zero page.
const PRESENT_OF_NO_OWNER: u64 = 0b101;

/// Returns `true` if this word tells of a userfaultfd's protection against writing alone, where no page
/// is. It looks like a page in a swap area that does not exist (observed), and makes no `anon_vma`. The
/// swap area is hidden from all but root: where there is none, no page is swapped out.
fn is_protection(word: u64) -> bool {
    const MARKERS: u64 = 31;
    const PROTECTED: u64 = 1 << 5;
    let may_be = word >> 62 == 1 && word >> 57 & 1 != 0;
    may_be
        && match word & FRAME {
            0 => !swaps(),
            frame => frame == MARKERS | PROTECTED,
        }
}

/// Returns `true` if this machine has a swap area.
fn swaps() -> bool {
    // One line is the heading.
    proc_file::read_text("/proc/swaps").map_or(true, |text| text.lines().count() > 1)
}

/// Returns `true` if this is the frame of the page that reads of untouched memory find. Frame numbers are hidden from all but root.
fn is_zero_page(frame: u64) -> bool {
    static ZERO: OnceLock<u64> = OnceLock::new();
    frame != 0 && frame == *ZERO.get_or_init(|| zero_frame().unwrap_or(0))
}

/// Its frame number, found with a page of our own.
fn zero_frame() -> io::Result<u64> {
    // SAFETY: a new mapping of one page, placed by the kernel, which is read once and removed again.
    let word = unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            PAGE as usize,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        page.cast::<u8>().read_volatile();
        let mut word = [0; 8];
        let read = File::open("/proc/self/pagemap")
            .and_then(|file| file.read_exact_at(&mut word, page as u64 / PAGE * 8));
        libc::munmap(page, PAGE as usize);
        read?;
        word
    };
    Ok(u64::from_ne_bytes(word) & FRAME)
}

#[cfg(test)]
mod tests;
