//! Takes the zygote's map over into the engine.

use std::fs::{self, File as StdFile};
use std::os::unix::fs::FileExt;

use samara_linux::maps::Area;
use samara_linux::proc;
use samara_linux::smaps::Smaps;
use samara_mm::{
    AddressSpace, Capabilities, Config, Counted, DriverFlags, File, FileId, FileKind, Layout,
    Limits, Object, SeedVma, VmFlags,
};

use super::features::end_of_user_space;
use crate::op::Objects;
use crate::running::running;

/// The address space of a process, and from where to where it has areas that the kernel installed at exec.
pub(super) fn seed(objects: &mut Objects, pid: i32) -> (AddressSpace, (u64, u64)) {
    let smaps = Smaps::of(pid).unwrap();
    let pagemap = StdFile::open(format!("/proc/{pid}/pagemap")).unwrap();
    let program = proc::layout(pid).unwrap();
    objects.start_brk = program.start_brk;
    let areas = smaps.map.areas();
    let name = |area: &Area| std::str::from_utf8(smaps.map.name(area)).unwrap();
    let mut layout = Layout {
        data_size: program.data_size,
        start_brk: program.start_brk,
        brk: program.start_brk,
        ..Layout::default()
    };
    for area in areas {
        match name(area) {
            "[heap]" => layout.brk = area.end,
            "[stack]" => layout.stack_top = area.end - 16,
            _ => {}
        }
    }
    // The loader's end, as it was at exec, is where top-down placement starts.
    layout.mmap_base = areas
        .iter()
        .filter(|area| name(area).contains("/ld-linux"))
        .map(|area| area.end)
        .next_back()
        .unwrap_or(layout.mmap_base);
    layout.legacy_base = 0x2aaa_aaaa_b000;
    let get = |which| {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the structure is ours.
        unsafe { libc::getrlimit(which, &raw mut limit) };
        limit.rlim_cur
    };
    let limits = Limits {
        address_space: get(libc::RLIMIT_AS),
        data: get(libc::RLIMIT_DATA),
        stack: get(libc::RLIMIT_STACK),
        memlock: get(libc::RLIMIT_MEMLOCK),
    };
    let number = |path: &str| -> u64 { fs::read_to_string(path).unwrap().trim().parse().unwrap() };
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let caps = status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .map_or(0, |l| u64::from_str_radix(l.trim(), 16).unwrap());
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let kib = |label: &str| -> u64 {
        meminfo
            .lines()
            .find_map(|l| l.strip_prefix(label))
            .map_or(0, |l| {
                l.trim().trim_end_matches(" kB").trim().parse().unwrap()
            })
    };
    let config = Config {
        kernel: running(),
        task_size: end_of_user_space(),
        max_map_count: number("/proc/sys/vm/max_map_count") as u32,
        fixed_min_addr: number("/proc/sys/vm/mmap_min_addr"),
        total_pages: (kib("MemTotal:") + kib("SwapTotal:")) / 4,
        capabilities: Capabilities {
            ipc_lock: caps >> 14 & 1 != 0,
            sys_admin: caps >> 21 & 1 != 0,
            sys_nice: caps >> 23 & 1 != 0,
            sys_rawio: caps >> 17 & 1 != 0,
            sys_resource: caps >> 24 & 1 != 0,
        },
        pkeys: fs::read_to_string("/proc/cpuinfo")
            .unwrap()
            .contains(" ospke"),
        ..Config::default()
    };
    let mut space = AddressSpace::new(config, limits, layout).unwrap();
    let special = |area: &&Area| name(area).starts_with("[v");
    let around_special = (
        areas.iter().find(special).map_or(0, |area| area.start),
        areas.iter().rfind(special).map_or(0, |area| area.end),
    );
    for (area, &(flags, _)) in areas.iter().zip(&smaps.told) {
        let name = name(area);
        let pages = ((area.end - area.start) / 4096) as usize;
        let mut touched = false;
        let mut words = vec![0u8; pages.min(1 << 16) * 8];
        let got = pagemap
            .read_at(&mut words, area.start / 4096 * 8)
            .unwrap_or(0);
        for word in words[..got].chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().unwrap());
            // Present and neither file nor shared.
            touched |= word >> 63 & 1 == 1 && word >> 61 & 1 == 0;
        }
        let shared = area.perms[3] == b's';
        let special = name.starts_with('[') && !matches!(name, "[heap]" | "[stack]");
        let file = (area.inode != 0).then(|| {
            Counted::try_new(File {
                id: FileId {
                    major: area.major,
                    minor: area.minor,
                    inode: area.inode,
                },
                description: None,
                name: name.into(),
                readable: true,
                writable: true,
                noexec: false,
                kind: FileKind::Regular,
                seals: 0,
                driver: DriverFlags::default(),
                object: Object::none(),
            })
            .unwrap()
        });
        let prot = area
            .perms
            .iter()
            .zip([1, 2, 4])
            .filter(|(letter, _)| **letter != b'-')
            .map(|p| p.1)
            .sum();
        space
            .seed(SeedVma {
                start: area.start,
                end: area.end,
                prot,
                shared,
                offset: area.offset,
                file,
                flags: Some(VmFlags::from_smaps(smaps.letters(flags))),
                name: special.then(|| name.into()),
                touched: touched && !shared && !special,
            })
            .unwrap();
    }
    (space, around_special)
}
