//! The memory of a library OS or an emulator: the pages of an address space are a region of this process, changed with the host's own calls.
//! A random history runs on it; after every step each page's bytes are those that a model has, and `/proc/self/maps` shows each page with
//! the protection that the engine's map has. `cargo run --release -p samara-mm --example host_region`

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "an example")]

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};

use libc::{MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED, PROT_NONE, c_void};
use samara_mm::*;

const PAGES: u64 = 96;
const RESERVED: i32 = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

/// Returns the answer of a host's call.
fn host(result: i64) -> Result<(), Errno> {
    let errno = std::io::Error::last_os_error().raw_os_error();
    let fine = (result != -1).then_some(());
    fine.ok_or(Errno(errno.unwrap_or(5)))
}

fn place(start: u64, end: u64) -> (*mut c_void, usize) {
    (start as *mut c_void, (end - start) as usize)
}

/// The owner of the pages. What is not mapped is reserved, without access.
struct Region;

impl Pages for Region {
    fn refuses(&self) -> bool {
        true
    }

    // A memfd, which lives as long as an area maps it. (That of a file would be in its `File`.)
    fn object(&mut self, pages: u64) -> Result<Object, Errno> {
        // SAFETY: the name is a constant.
        let fd = unsafe { libc::memfd_create(c"shared".as_ptr(), libc::MFD_CLOEXEC) };
        host(fd.into())?;
        // SAFETY: the descriptor is new.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(pages * PAGE_SIZE).map_err(|_| Errno::ENOSPC)?;
        Object::try_new(file)
    }

    fn map(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        let (flags, fd, offset) = match &vma.backing {
            Backing::SharedAnonymous(shared) => {
                let file = shared.object().get::<File>().ok_or(Errno::EIO)?;
                let offset = vma.page_offset(start) * PAGE_SIZE;
                (MAP_SHARED, file.as_raw_fd(), offset as i64)
            }
            Backing::Anonymous => (RESERVED, -1, 0),
            _ => return Err(Errno::ENODEV),
        };
        let (prot, (at, len)) = (vma.flags & VmFlags::ACCESS, place(start, end));
        let (prot, flags) = (prot.bits() as i32, flags | MAP_FIXED);
        // SAFETY: the range lies in the region, to which the address space is confined, and nothing of this program lies there.
        host(unsafe { libc::mmap(at, len, prot, flags, fd, offset) } as i64)
    }

    fn unmap(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let (at, len) = place(start, end);
        // SAFETY: as in `map`.
        host(unsafe { libc::mmap(at, len, PROT_NONE, RESERVED | MAP_FIXED, -1, 0) } as i64)
    }

    fn protect(&mut self, start: u64, end: u64, vma: &Vma) -> Result<(), Errno> {
        let (prot, (at, len)) = (vma.flags & VmFlags::ACCESS, place(start, end));
        // SAFETY: as in `map`.
        host(unsafe { libc::mprotect(at, len, prot.bits() as i32) }.into())
    }

    // Page by page: what is one area here may be several of the host's.
    fn relocate(&mut self, from: u64, to: u64, len: u64) -> Result<(), Errno> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        for page in (0..len).step_by(4096) {
            let (old, new) = ((from + page) as *mut c_void, (to + page) as *mut c_void);
            // SAFETY: as in `map`.
            host(unsafe { libc::mremap(old, 4096, 4096, flags, new) } as i64)?;
        }
        self.unmap(from, from + len)
    }

    // Other advice likewise, each with its own number. What changes contents and cannot be done here is refused.
    fn advise(&mut self, start: u64, end: u64, _: &Vma, advice: PageAdvice) -> Result<(), Errno> {
        let advice = match advice {
            PageAdvice::DontNeed => libc::MADV_DONTNEED,
            PageAdvice::Remove => libc::MADV_REMOVE,
            PageAdvice::GuardInstall | PageAdvice::GuardRemove => return Err(Errno::EINVAL),
            _ => libc::MADV_NORMAL,
        };
        let (at, len) = place(start, end);
        // SAFETY: as in `map`.
        host(unsafe { libc::madvise(at, len, advice) }.into())
    }

    // The host brings pages in as they are used.
    fn populate(&mut self, _: u64, _: u64, _: &Area<'_>, _: bool) -> Result<(), Errno> {
        Ok(())
    }

    // There is no file: shared memory is all that there is of it.
    fn sync(&mut self, _: u64, _: u64, _: &Vma, _: SyncFlags) -> Result<(), Errno> {
        Ok(())
    }
}

/// The first byte of each page that was written: of shared objects by number and offset, of private pages by 0 and address.
#[derive(Default)]
struct Model(BTreeMap<(u64, u64), u8>);

fn key(vma: &Vma, at: u64) -> (u64, u64) {
    match &vma.backing {
        Backing::SharedAnonymous(object) => (object.id(), vma.page_offset(at)),
        _ => (0, at),
    }
}

impl Model {
    fn forget(&mut self, gone: impl Fn(u64) -> bool) {
        self.0.retain(|key, _| key.0 != 0 || !gone(key.1));
    }

    fn moved(&mut self, old: Range<u64>, new: Range<u64>) {
        let taken = self.0.range((0, old.start)..(0, old.end));
        let moved = taken.map(|(key, byte)| ((0, key.1 - old.start + new.start), *byte));
        let moved: Vec<_> = moved.filter(|(key, _)| key.1 < new.end).collect();
        self.forget(|at| old.contains(&at) || new.contains(&at));
        self.0.extend(moved);
    }
}

/// Compares bytes and protections, page by page.
fn compare(space: &mut AddressSpace, model: &Model, base: u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let bound = |text| u64::from_str_radix(text, 16).unwrap();
    for line in maps.lines() {
        let words: Vec<&str> = line.split(['-', ' ']).collect();
        let (start, end) = (bound(words[0]).max(base), bound(words[1]));
        for at in (start..end.min(base + PAGES * PAGE_SIZE)).step_by(4096) {
            let expected = space.area_at(at).map_or(*b"---p", |line| line.perms);
            assert!(line.contains(str::from_utf8(&expected).unwrap()), "{line}");
            if expected[0] == b'r' && space.fault(at, false).is_ok() {
                let key = key(space.lookup(at).unwrap().vma, at);
                // SAFETY: the page is there and may be read.
                let byte = unsafe { (at as *const u8).read_volatile() };
                assert_eq!(byte, model.0.get(&key).copied().unwrap_or(0), "{at:x}");
            }
        }
    }
}

fn main() {
    let (nowhere, size) = place(0, PAGES * PAGE_SIZE);
    // SAFETY: a new mapping.
    let base = unsafe { libc::mmap(nowhere, size, PROT_NONE, RESERVED, -1, 0) } as u64;
    let region = base..base + PAGES * PAGE_SIZE;
    let (config, layout) = Config::default().within(region).unwrap();
    let mut space = AddressSpace::new(config, Limits::default(), layout).unwrap();
    let (mut model, mut state, mut done) = (Model::default(), 1u64, 0);
    let mut random = |n: u64| {
        state = state * 48_271 % 0x7fff_ffff;
        state % n
    };
    for step in 0..3_000 {
        let mut page = || base + random(PAGES) * PAGE_SIZE;
        let (at, to) = (page(), page());
        let (len, new_len) = ((1 + random(8)) * PAGE_SIZE, (1 + random(8)) * PAGE_SIZE);
        let prot = [Prot::empty(), Prot::READ, Prot::READ | Prot::WRITE][random(3) as usize];
        let inside = space.lookup(at).is_some_and(|area| at + len <= area.end);
        let mut region = Region;
        let mut calls = space.with(&mut region);
        let result = match random(8) {
            0 | 1 => {
                let map = MmapOptions::anonymous(len).prot(prot);
                let map = if random(2) == 0 { map.shared() } else { map };
                let map = if random(4) == 0 { map } else { map.fixed(at) };
                calls
                    .mmap(&map)
                    .map(|new| model.moved(0..0, new..new + len))
            }
            2 => calls.munmap(at, len),
            3 | 4 => calls.mprotect(at, len, prot),
            5 if inside => {
                let plain = MremapOptions::new(at, len, new_len);
                let same = MremapOptions::new(at, len, len).keep_source();
                let remap = [plain, plain.may_move(), plain.to(to), same][random(4) as usize];
                let new_len = if remap == same { len } else { new_len };
                let moved = calls.mremap(&remap);
                moved.map(|new| model.moved(at..at + len, new..new + new_len))
            }
            6 => {
                model.forget(|page| (at..at + len).contains(&page));
                calls.madvise(at, len, Advice::DONTNEED)
            }
            _ => calls.fault(at, true).map(|()| {
                // SAFETY: the page may be written.
                unsafe { (at as *mut u8).write_volatile(step as u8) };
                let key = key(space.lookup(at).unwrap().vma, at);
                model.0.insert(key, step as u8);
            }),
        };
        done += u32::from(result.is_ok());
        model.forget(|at| space.lookup(at).is_none());
        compare(&mut space, &model, base);
    }
    println!("{done} of 3000 steps succeeded; bytes and protections agree.");
}
