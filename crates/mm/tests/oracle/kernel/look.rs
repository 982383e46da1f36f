//! The kernel's view of a process: its areas and its pages. A process that must not allocate asks
//! about itself.

use std::sync::atomic::{AtomicU64, Ordering};

use samara_linux::maps::Area;
use samara_mm::VmFlags;

use super::{LOG_BYTES, map_new};
use crate::generate::{ARENA, PAGE};
use crate::pool::{Figures, parse};

/// One area as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct KArea {
    /// As smaps shows them, with the protection key.
    pub(crate) flags: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Read 1, write 2, execute 4, shared 8.
    pub(crate) perms: u64,
    pub(crate) offset: u64,
    pub(crate) inode: u64,
    pub(crate) dev: (u32, u32),
}

/// The interfaces of this kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ways {
    /// It is older than `PROCMAP_QUERY` (6.11): its maps are read as text.
    text: bool,
    /// It is older than `PAGEMAP_SCAN` (6.7): words are read. The frame of the zero page, or 0.
    zero: u64,
}

impl Ways {
    pub(crate) fn find() -> Self {
        learn_letters();
        let eyes = Eyes::open();
        let query = Query {
            size: size_of::<Query>() as u64,
            query_flags: COVERING_OR_NEXT,
            ..Query::default()
        };
        let scan = Scan {
            size: size_of::<Scan>() as u64,
            ..Scan::default()
        };
        let ask = |file: i32, request: u64, argument: u64| {
            raw(libc::SYS_ioctl, [file as u64, request, argument, 0, 0, 0])
        };
        let text = ask(eyes.maps, PROCMAP_QUERY, (&raw const query) as u64) != 0;
        let zero = match ask(eyes.pages, PAGEMAP_SCAN, (&raw const scan) as u64) {
            0 => 0,
            _ => zero_frame(eyes.pages),
        };
        eyes.close();
        Ways { text, zero }
    }
}

/// The meanings of the letters of `VmFlags:`, by both letters. Not on the heap, which histories may
/// unmap.
static LETTERS: [AtomicU64; 26 * 26] = [const { AtomicU64::new(0) }; 26 * 26];

fn learn_letters() {
    for (index, meaning) in LETTERS.iter().enumerate() {
        let letter = |number: usize| b'a' + number as u8;
        let word = [letter(index / 26), letter(index % 26)];
        let flags = VmFlags::from_smaps(std::str::from_utf8(&word).unwrap());
        meaning.store(flags.bits(), Ordering::Relaxed);
    }
}

/// Open files through which a process looks at itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Eyes {
    maps: i32,
    pages: i32,
    smaps: i32,
    memory: i32,
}

impl Eyes {
    /// Those of the process that calls this: a child of a fork must open its own.
    pub(crate) fn open() -> Self {
        // SAFETY: constant paths.
        unsafe {
            Eyes {
                maps: libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY),
                pages: libc::open(c"/proc/self/pagemap".as_ptr(), libc::O_RDONLY),
                smaps: libc::open(c"/proc/self/smaps".as_ptr(), libc::O_RDONLY),
                memory: libc::open(c"/proc/meminfo".as_ptr(), libc::O_RDONLY),
            }
        }
    }

    pub(crate) fn close(self) {
        // SAFETY: descriptors that no other code uses.
        unsafe {
            libc::close(self.maps);
            libc::close(self.pages);
            libc::close(self.smaps);
            libc::close(self.memory);
        }
    }

    /// Adds the flags to areas that have just been written down, `count` of them.
    ///
    /// # Safety
    /// As of [`areas`](Self::areas), which has written them.
    pub(crate) unsafe fn flags(self, log: *mut u8, areas: *mut KArea, count: u64) {
        // SAFETY: as the caller says.
        let text = unsafe { read_whole(self.smaps, log) };
        let (mut index, mut key) = (0, 0);
        for line in text.split(|byte| *byte == b'\n') {
            if let Some(number) = line.strip_prefix(b"ProtectionKey:") {
                key = number
                    .iter()
                    .filter(|byte| byte.is_ascii_digit())
                    .fold(0, |key, digit| key * 10 + u64::from(digit - b'0'));
            } else if let Some(words) = line.strip_prefix(b"VmFlags:") {
                let mut flags = key << VmFlags::PKEY.bits().trailing_zeros();
                key = 0;
                for word in words.split(|byte| *byte == b' ') {
                    if let [a @ b'a'..=b'z', b @ b'a'..=b'z'] = word {
                        let index = usize::from(a - b'a') * 26 + usize::from(b - b'a');
                        flags |= LETTERS[index].load(Ordering::Relaxed);
                    }
                }
                if index < count as usize {
                    // SAFETY: there are at least this many.
                    unsafe { (*areas.add(index)).flags = flags };
                }
                index += 1;
            }
        }
    }

    /// Writes down all areas; how many there are.
    ///
    /// # Safety
    /// `log` is the shared log, of which `areas` is a part with room for all areas before its last megabytes.
    pub(crate) unsafe fn areas(self, ways: Ways, log: *mut u8, areas: *mut KArea) -> u64 {
        if ways.text {
            // SAFETY: as the caller says.
            return unsafe { read_text(self.maps, log, areas) };
        }
        let mut count = 0;
        let mut query = Query::default();
        loop {
            query.size = size_of::<Query>() as u64;
            query.query_flags = COVERING_OR_NEXT;
            query.name_size = 0;
            query.build_id_size = 0;
            let argument = (&raw mut query) as u64;
            if raw(
                libc::SYS_ioctl,
                [self.maps as u64, PROCMAP_QUERY, argument, 0, 0, 0],
            ) != 0
            {
                return count;
            }
            // SAFETY: there is room, as the caller says.
            unsafe {
                areas.add(count as usize).write(KArea {
                    flags: 0,
                    start: query.start,
                    end: query.end,
                    perms: query.flags & 15,
                    offset: query.offset,
                    inode: query.inode,
                    dev: (query.dev_major, query.dev_minor),
                });
            }
            count += 1;
            query.query_addr = query.end;
        }
    }

    /// The pool of huge pages, as all processes see it.
    ///
    /// # Safety
    /// `log` is the shared log, of which the last megabytes are free.
    pub(crate) unsafe fn pool(self, log: *mut u8) -> Figures {
        // SAFETY: as the caller says.
        parse(unsafe { read_whole(self.memory, log) })
    }

    /// Which pages of the arena hold private anonymous memory, bit by bit.
    pub(crate) fn written(self, ways: Ways) -> u64 {
        match ways.zero {
            0 => scan(self.pages),
            zero => scan_words(self.pages, zero),
        }
    }
}

/// Argument of `ioctl(PAGEMAP_SCAN)`.
#[repr(C)]
#[derive(Default)]
struct Scan {
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

const PAGEMAP_SCAN: u64 = 0xc060_6610;
const IS_FILE: u64 = 4;
const IS_PRESENT: u64 = 8;
const IS_SWAPPED: u64 = 16;
const IS_PFNZERO: u64 = 32;

#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    start: u64,
    end: u64,
    flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    name_size: u32,
    build_id_size: u32,
    name_addr: u64,
    build_id_addr: u64,
}

const PROCMAP_QUERY: u64 = 0xc068_6611;
const COVERING_OR_NEXT: u64 = 0x10;

/// Which pages of the arena hold private anonymous memory.
fn scan(pagemap: i32) -> u64 {
    let mut found = [[0u64; 3]; 64];
    let scan = Scan {
        size: size_of::<Scan>() as u64,
        start: ARENA,
        end: ARENA + 64 * PAGE,
        vec: found.as_mut_ptr() as u64,
        vec_len: found.len() as u64,
        category_inverted: IS_FILE | IS_PFNZERO,
        category_mask: IS_FILE | IS_PFNZERO,
        category_anyof_mask: IS_PRESENT | IS_SWAPPED,
        return_mask: IS_PRESENT,
        ..Scan::default()
    };
    let count = raw(
        libc::SYS_ioctl,
        [
            pagemap as u64,
            PAGEMAP_SCAN,
            (&raw const scan) as u64,
            0,
            0,
            0,
        ],
    );
    let mut bits = 0;
    for region in &found[..usize::try_from(count).unwrap_or(0)] {
        for page in (region[0] - ARENA) / PAGE..(region[1] - ARENA) / PAGE {
            bits |= 1 << page;
        }
    }
    bits
}

const FRAME: u64 = (1 << 55) - 1;

/// The frame number of the page that reads of untouched memory find.
fn zero_frame(pagemap: i32) -> u64 {
    let page = map_new(libc::MAP_PRIVATE, PAGE as usize);
    let mut word = 0u64;
    // SAFETY: the page is new and readable; the word is ours.
    unsafe {
        page.read_volatile();
        let at = page as i64 / PAGE as i64 * 8;
        assert_eq!(
            libc::pread(pagemap, (&raw mut word).cast(), 8, at),
            8,
            "pagemap cannot be read"
        );
        libc::munmap(page.cast(), PAGE as usize);
    }
    assert_ne!(
        word & FRAME,
        0,
        "on kernels before 6.7 only root can tell what was written"
    );
    word & FRAME
}

/// As [`scan`], from one word for each page: bit 63 present, 62 swapped, 61 file or shared.
fn scan_words(pagemap: i32, zero: u64) -> u64 {
    let mut words = [0u64; 64];
    let at = ARENA / PAGE * 8;
    raw(
        libc::SYS_pread64,
        [
            pagemap as u64,
            (&raw mut words) as u64,
            size_of_val(&words) as u64,
            at,
            0,
            0,
        ],
    );
    let mut bits = 0;
    for (page, word) in words.iter().enumerate() {
        let own = word >> 62 != 0 && word >> 61 & 1 == 0;
        if own && (word >> 63 == 0 || word & FRAME != zero) {
            bits |= 1 << page;
        }
    }
    bits
}

/// Reads a file of `/proc` into the end of the log, without allocating.
///
/// # Safety
/// `log` is the shared log, of which the last megabytes are free; what was read there before is gone.
unsafe fn read_whole<'a>(file: i32, log: *mut u8) -> &'a [u8] {
    const ROOM: usize = 4 << 20;
    // SAFETY: the end of the log is kept free for this.
    let text = unsafe { log.add(LOG_BYTES - ROOM) };
    let mut length = 0;
    loop {
        let place = (text as usize + length) as u64;
        let room = (ROOM - length) as u64;
        let read = raw(
            libc::SYS_pread64,
            [file as u64, place, room, length as u64, 0, 0],
        );
        match usize::try_from(read) {
            Ok(read) if read > 0 => length += read,
            _ => break,
        }
    }
    // SAFETY: this many bytes were read into it.
    unsafe { std::slice::from_raw_parts(text, length) }
}

/// Reads `/proc/self/maps` as text, without allocating, and writes its areas; how many there are.
///
/// # Safety
/// `log` is the shared log, of which `areas` is a part with room for all areas before its last megabytes.
unsafe fn read_text(maps: i32, log: *mut u8, areas: *mut KArea) -> u64 {
    // SAFETY: as the caller says.
    let text = unsafe { read_whole(maps, log) };
    let mut count = 0;
    for line in text.split(|byte| *byte == b'\n') {
        let Some(area) = Area::parse(line) else {
            continue;
        };
        // [vsyscall] is no area.
        if area.start >> 63 != 0 {
            continue;
        }
        let bit = |at: usize, letter: u8, value: u64| {
            if area.perms[at] == letter { value } else { 0 }
        };
        // SAFETY: there is room, as the caller says.
        unsafe {
            areas.add(count as usize).write(KArea {
                flags: 0,
                start: area.start,
                end: area.end,
                perms: bit(0, b'r', 1) | bit(1, b'w', 2) | bit(2, b'x', 4) | bit(3, b's', 8),
                offset: area.offset,
                inode: area.inode,
                dev: (area.major, area.minor),
            });
        }
        count += 1;
    }
    count
}

/// A system call.
pub(crate) fn raw(number: i64, a: [u64; 6]) -> i64 {
    // SAFETY: the generator keeps the operations away from the memory that this process lives in.
    unsafe {
        let result: i64;
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
        );
        result
    }
}
