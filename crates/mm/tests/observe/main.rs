//! Observers of the map beside naive models over random histories, and beside the running kernel.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod perf;

use samara_mm::observe::{Contents, QueryFlags};
use samara_mm::{
    AddressSpace, Call, Config, Counted, Errno, File, FileArg, FileId, Layout, Limits, VmFlags,
};

const PAGE: u64 = 4096;
const BASE: u64 = 0x10_0000_0000;
const PAGES: u64 = 40;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % limit
    }
}

/// Areas of several kinds at random.
fn space(random: &mut Random) -> AddressSpace {
    let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
    let mut space = AddressSpace::new(config, limits, layout).unwrap();
    let id = FileId {
        major: 8,
        minor: 1,
        inode: 7,
    };
    let file = Counted::try_new(File::new(id, "/a file".into())).unwrap();
    for _ in 0..random.below(30) {
        let addr = BASE + random.below(PAGES) * PAGE;
        let len = (1 + random.below(5)) * PAGE;
        let _ = space.perform(&match random.below(4) {
            0 => Call::Munmap { addr, len },
            kind => Call::Mmap {
                addr,
                len,
                prot: random.below(8),
                // Fixed; shared or private; anonymous unless there is a file.
                flags: 0x10 | (1 + random.below(2)) | if kind == 1 { 0 } else { 0x20 },
                file: match kind {
                    1 => FileArg::File(file.clone()),
                    _ => FileArg::None,
                },
                offset: 0,
            },
        });
    }
    space
}

#[test]
fn a_probe_finds_what_is_anywhere_in_a_range() {
    let mut random = Random(1);
    for _ in 0..400 {
        let space = space(&mut random);
        let start = BASE + random.below(PAGES) * PAGE;
        let end = start + random.below(8) * PAGE;
        let mut expected = Contents::empty();
        for page in (start..end).step_by(PAGE as usize) {
            match space.lookup(page) {
                None => expected |= Contents::HOLE,
                Some(area) => {
                    if !area.vma.is_anonymous() {
                        expected |= Contents::FILE;
                    }
                    if !area.vma.flags.contains(VmFlags::WRITE) {
                        expected |= Contents::READ_ONLY;
                    }
                }
            }
        }
        assert_eq!(space.probe(start, end), expected);
    }
}

#[test]
fn places_are_where_the_page_and_the_byte_are() {
    let mut random = Random(4);
    for _ in 0..300 {
        let space = space(&mut random);
        let id = FileId {
            major: 8,
            minor: 1,
            inode: 7,
        };
        let offset = random.below(6 * PAGE);
        // Byte by byte of the same page offset.
        let expected: Vec<u64> = (0..PAGES + 8)
            .map(|page| BASE + page * PAGE + offset % PAGE)
            .filter(|&at| {
                space.lookup(at).is_some_and(|area| {
                    area.vma.file().is_some_and(|file| file.id == id)
                        && area.vma.page_offset(at) == offset / PAGE
                })
            })
            .collect();
        let found: Vec<u64> = space.places(id, offset).map(|(at, _)| at).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn three_regions_are_all_but_the_two_largest_gaps() {
    let mut random = Random(2);
    let mut none = 0;
    for _ in 0..400 {
        let space = space(&mut random);
        // Pages between the first and the last one, mapped or not.
        let mapped = |page: &u64| space.lookup(BASE + page * PAGE).is_some();
        let all: Vec<u64> = (0..PAGES + 8).filter(mapped).collect();
        let mut gaps: Vec<(u64, u64)> = all
            .windows(2)
            .filter(|pair| pair[1] - pair[0] > 1)
            .map(|pair| (pair[1] - pair[0] - 1, pair[0] + 1))
            .collect();
        let found = space.three_regions();
        if gaps.len() < 2 {
            assert_eq!(found, None);
            none += 1;
            continue;
        }
        // The largest first, of one size the lower ones.
        gaps.sort_by_key(|&(size, at)| (std::cmp::Reverse(size), at));
        let mut two = [gaps[0], gaps[1]];
        two.sort_by_key(|&(_, at)| at);
        let at = |page: u64| BASE + page * PAGE;
        let [one, other] = two;
        let expected = [
            at(all[0])..at(one.1),
            at(one.1 + one.0)..at(other.1),
            at(other.1 + other.0)..at(all[all.len() - 1] + 1),
        ];
        assert_eq!(found, Some(expected));
    }
    assert!(none < 200);
}

#[test]
fn a_query_is_the_first_area_that_meets_it() {
    let mut random = Random(3);
    for _ in 0..400 {
        let space = space(&mut random);
        for _ in 0..20 {
            let address = BASE + random.below(PAGES * PAGE);
            let flags = QueryFlags::from_bits_truncate(random.below(64));
            let meets = |perms: &[u8; 4], name: &str| {
                let letter = |i: usize, letter, flag| !flags.contains(flag) || perms[i] == letter;
                letter(0, b'r', QueryFlags::READABLE)
                    && letter(1, b'w', QueryFlags::WRITABLE)
                    && letter(2, b'x', QueryFlags::EXECUTABLE)
                    && letter(3, b's', QueryFlags::SHARED)
                    && (!flags.contains(QueryFlags::FILE_BACKED) || name.starts_with('/'))
            };
            let next = flags.contains(QueryFlags::COVERING_OR_NEXT);
            let expected = space
                .maps()
                .filter(|line| line.end > address && (next || line.start <= address))
                .find(|line| meets(&line.perms, line.name));
            let found = space.query(address, flags);
            match expected {
                None => assert_eq!(found, Err(Errno::ENOENT)),
                Some(line) => {
                    let found = found.unwrap();
                    assert_eq!((found.start, found.end), (line.start, line.end));
                    assert_eq!((found.offset, found.id), (line.offset, line.id));
                    assert_eq!((found.name, found.page_size), (line.name, PAGE));
                    let told = found.flags.bits();
                    for (i, letter) in [b'r', b'w', b'x', b's'].into_iter().enumerate() {
                        assert_eq!(told >> i & 1 == 1, line.perms[i] == letter);
                    }
                }
            }
        }
    }
    let space = space(&mut random);
    let unknown = QueryFlags::from_bits_retain(0x40);
    assert_eq!(space.query(BASE, unknown), Err(Errno::EINVAL));
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod kernel {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    use samara_mm::SeedVma;

    use super::*;

    /// `struct procmap_query`.
    #[repr(C)]
    #[derive(Default)]
    struct Query {
        size: u64,
        query_flags: u64,
        query_addr: u64,
        vma_start: u64,
        vma_end: u64,
        vma_flags: u64,
        vma_page_size: u64,
        vma_offset: u64,
        inode: u64,
        dev_major: u32,
        dev_minor: u32,
        vma_name_size: u32,
        build_id_size: u32,
        vma_name_addr: u64,
        build_id_addr: u64,
    }

    const PROCMAP_QUERY: libc::Ioctl = 0xc068_6611;

    /// The engine's model of a process that stands still: map, heap and stack.
    fn model(pid: u32) -> AddressSpace {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let mut layout = Layout::default();
        let mut seeds = Vec::new();
        let mut files = BTreeMap::new();
        for line in maps.lines() {
            let mut fields = line.split_whitespace();
            let (start, end) = fields.next().unwrap().split_once('-').unwrap();
            let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
            let (start, end) = (hex(start), hex(end));
            let perms = fields.next().unwrap().as_bytes();
            let offset = hex(fields.next().unwrap());
            let (major, minor) = fields.next().unwrap().split_once(':').unwrap();
            let id = FileId {
                major: hex(major) as u32,
                minor: hex(minor) as u32,
                inode: fields.next().unwrap().parse().unwrap(),
            };
            let name = fields.collect::<Vec<_>>().join(" ");
            match name.as_str() {
                "[heap]" => (layout.start_brk, layout.brk) = (start, end),
                "[stack]" => layout.stack_top = end - 8,
                "[vsyscall]" => continue,
                _ => {}
            }
            let file = (id.inode != 0).then(|| {
                let file = || Counted::try_new(File::new(id, name.as_str().into())).unwrap();
                files.entry(name.clone()).or_insert_with(file).clone()
            });
            let bit = |i: usize, letter, value| u64::from(perms[i] == letter) * value;
            seeds.push(SeedVma {
                start,
                end,
                prot: bit(0, b'r', 1) | bit(1, b'w', 2) | bit(2, b'x', 4),
                shared: perms[3] == b's',
                offset,
                file,
                flags: None,
                name: name.starts_with("[v").then(|| name.as_str().into()),
                touched: false,
            });
        }
        let limits = Limits::UNLIMITED;
        let mut space = AddressSpace::new(Config::default(), limits, layout).unwrap();
        for seed in seeds {
            space.seed(seed).unwrap();
        }
        space
    }

    /// `cat` that waits for input: its memory stays as it is.
    fn waiting() -> std::process::Child {
        let child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while !fs::read_to_string(format!("/proc/{}/syscall", child.id()))
            .is_ok_and(|text| text.starts_with("0 0x0 "))
        {
            std::thread::yield_now();
        }
        child
    }

    #[test]
    fn a_score_is_the_kernels() {
        let mut child = waiting();
        let pid = child.id();
        let number = |file: &str, label: &str| -> u64 {
            let text = fs::read_to_string(file).unwrap();
            let line = text.lines().find(|line| line.starts_with(label)).unwrap();
            line.split_whitespace()
                .nth(1)
                .unwrap()
                .parse::<u64>()
                .unwrap()
                / 4
        };
        let status = format!("/proc/{pid}/status");
        let total = number("/proc/meminfo", "MemTotal:") + number("/proc/meminfo", "SwapTotal:");
        let pages =
            number(&status, "VmRSS:") + number(&status, "VmPTE:") + number(&status, "VmSwap:");
        // Lower ones than before only root may set.
        for adjustment in [0, 1, 17, 250, 999, 1000] {
            fs::write(format!("/proc/{pid}/oom_score_adj"), adjustment.to_string()).unwrap();
            let kernel = fs::read_to_string(format!("/proc/{pid}/oom_score")).unwrap();
            let kernel: u64 = kernel.trim().parse().unwrap();
            let ours = samara_mm::observe::oom_score(pages, adjustment, total);
            // What the kernel's own counters say may be some pages off.
            assert!(kernel.abs_diff(ours) <= 1, "{adjustment}: {kernel}, {ours}");
        }
        // Who may lower them is the machine's to say.
        for adjustment in [-1, -300, -999, -1000] {
            let file = format!("/proc/{pid}/oom_score_adj");
            if fs::write(file, adjustment.to_string()).is_err() {
                eprintln!("skipped: {adjustment} may not be set here");
                continue;
            }
            let kernel = fs::read_to_string(format!("/proc/{pid}/oom_score")).unwrap();
            let ours = samara_mm::observe::oom_score(pages, adjustment, total);
            let kernel: u64 = kernel.trim().parse().unwrap();
            assert!(kernel.abs_diff(ours) <= 1, "{adjustment}: {kernel}, {ours}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_map_and_every_query_are_the_kernels() {
        let mut child = waiting();
        let pid = child.id();
        let space = model(pid);
        let mut text = String::new();
        space.write_maps(&mut text).unwrap();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let own: Vec<&str> = maps.lines().filter(|l| !l.contains("[vsyscall]")).collect();
        assert_eq!(text.lines().collect::<Vec<_>>(), own);

        let file = fs::File::open(format!("/proc/{pid}/maps")).unwrap();
        let mut addresses = vec![0, 1 << 47];
        for area in space.areas() {
            addresses.extend([area.start - 1, area.start, area.end - 1, area.end]);
        }
        let mut known = true;
        'all: for address in addresses {
            for bits in 0..64 {
                let mut name = [0u8; 4096];
                let mut query = Query {
                    size: size_of::<Query>() as u64,
                    query_flags: bits,
                    query_addr: address,
                    vma_name_size: name.len() as u32,
                    vma_name_addr: name.as_mut_ptr() as u64,
                    ..Query::default()
                };
                // SAFETY: the struct that this ioctl takes, with a buffer for the name.
                let result =
                    unsafe { libc::ioctl(file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
                let error = std::io::Error::last_os_error().raw_os_error();
                if result < 0 && error == Some(libc::ENOTTY) {
                    // Before Linux 6.11.
                    known = false;
                    break 'all;
                }
                let flags = QueryFlags::from_bits_truncate(bits);
                match space.query(address, flags) {
                    Err(errno) => {
                        assert!(result < 0, "{address:x} {flags:?}");
                        assert_eq!(error, Some(errno.0), "{address:x} {flags:?}");
                    }
                    Ok(found) => {
                        assert_eq!(result, 0, "{address:x} {flags:?}: {error:?}");
                        let length = (query.vma_name_size as usize).saturating_sub(1);
                        let id = FileId {
                            major: query.dev_major,
                            minor: query.dev_minor,
                            inode: query.inode,
                        };
                        let kernel = (
                            (query.vma_start, query.vma_end),
                            (query.vma_flags, query.vma_page_size),
                            (query.vma_offset, id),
                            std::str::from_utf8(&name[..length]).unwrap(),
                        );
                        let engine = (
                            (found.start, found.end),
                            (found.flags.bits(), found.page_size),
                            (found.offset, found.id),
                            found.name,
                        );
                        assert_eq!(engine, kernel, "{address:x} {flags:?}");
                    }
                }
            }
        }
        if !known {
            eprintln!("skipped: this kernel has no PROCMAP_QUERY");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
