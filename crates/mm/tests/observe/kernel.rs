//! Observers of the map compared with the running kernel, on a process that waits.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use samara_linux::maps::Map;
use samara_linux::smaps::Smaps;
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
    model_of(&fs::read_to_string(format!("/proc/{pid}/maps")).unwrap())
}

/// The same from the text of its maps; or from that of smaps, which tells flags that are guessed else.
pub(crate) fn model_of(text: &str) -> AddressSpace {
    let told = text.contains("VmFlags:");
    let mut layout = Layout::default();
    let mut seeds = Vec::new();
    let mut files = BTreeMap::new();
    let mut smaps = Smaps::default();
    match told {
        true => smaps = Smaps::read(text.as_bytes()).unwrap(),
        false => smaps.map = Map::parse(text.as_bytes()).unwrap(),
    }
    for (index, area) in smaps.map.areas().iter().enumerate() {
        let (start, end) = (area.start, area.end);
        let name = String::from_utf8_lossy(smaps.map.name(area)).into_owned();
        match name.as_str() {
            "[heap]" => (layout.start_brk, layout.brk) = (start, end),
            "[stack]" => layout.stack_top = end - 8,
            _ => {}
        }
        let id = FileId {
            major: area.major,
            minor: area.minor,
            inode: area.inode,
        };
        let flags = |(flags, _)| VmFlags::from_smaps(smaps.letters(flags));
        let file = (id.inode != 0).then(|| {
            let file = || Counted::try_new(File::new(id, name.as_str().into())).unwrap();
            files.entry(name.clone()).or_insert_with(file).clone()
        });
        let perms = area.perms;
        let bit = |i: usize, letter, value| u64::from(perms[i] == letter) * value;
        seeds.push(SeedVma {
            start,
            end,
            prot: bit(0, b'r', 1) | bit(1, b'w', 2) | bit(2, b'x', 4),
            shared: perms[3] == b's',
            offset: area.offset,
            file,
            flags: smaps.told.get(index).copied().map(flags),
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

/// Starts a `cat` that waits for input: its memory does not change.
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
    let pages = number(&status, "VmRSS:") + number(&status, "VmPTE:") + number(&status, "VmSwap:");
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
            let result = unsafe { libc::ioctl(file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
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
