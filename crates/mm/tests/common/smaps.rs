//! What `/proc/PID/maps` and `smaps` say of areas.

#![allow(clippy::unwrap_used, reason = "tests")]

use samara_mm::VmFlags;

/// A line of smaps with its flags.
pub(crate) struct SmapsArea {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) perms: String,
    pub(crate) offset: u64,
    pub(crate) dev: (u32, u32),
    pub(crate) inode: u64,
    pub(crate) name: String,
    pub(crate) flags: VmFlags,
}

/// Of each area; without flags where the text is that of maps.
pub(crate) fn parse_smaps(text: &str) -> Vec<SmapsArea> {
    let mut areas: Vec<SmapsArea> = Vec::new();
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            areas.last_mut().unwrap().flags = VmFlags::from_smaps(flags);
            continue;
        }
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or("");
        let Some((start, end)) = first.split_once('-') else {
            continue;
        };
        let hex = |s: &str| u64::from_str_radix(s, 16).unwrap();
        let perms = words.next().unwrap().to_string();
        let offset = hex(words.next().unwrap());
        let (major, minor) = words.next().unwrap().split_once(':').unwrap();
        let dev = (hex(major) as u32, hex(minor) as u32);
        let inode = words.next().unwrap().parse().unwrap();
        let name = words.collect::<Vec<_>>().join(" ");
        areas.push(SmapsArea {
            start: hex(start),
            end: hex(end),
            perms,
            offset,
            dev,
            inode,
            name,
            flags: VmFlags::empty(),
        });
    }
    areas
}
