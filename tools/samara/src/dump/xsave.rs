//! A thread's extended registers (`NT_X86_XSTATE`) in the form that every debugger reads.
//!
//! A processor says where each component of this area is (leaf 13 of `cpuid`), and processors differ: where one has no bounds registers, it may put
//! what follows them in their place. A core file is read elsewhere, though, and debuggers before gdb 15 take for granted that components are where
//! Intel's processors have them (Software Developer's Manual, volume 1, chapter 13). They complain even of the kernel's own core files where that is not
//! so, and show wrong registers. So what is written here has that layout, as it has in the files of gdb's `generate-core-file`.

/// The offset at which the kernel notes the present components, and the one at which the processor
/// notes the used ones.
const PRESENT: usize = 464;
const USED: usize = 512;
/// The x87 and SSE registers and the header, which are in one place everywhere.
const LEGACY: usize = 576;
/// Both components of matrix tiles.
const TILES: u64 = 3 << 17;

/// A component: its number, where it is, and how long.
type Component = (u32, usize, usize);

/// The offsets that debuggers expect: AVX, bounds registers and their settings, AVX-512's three,
/// protection keys, settings and bytes of tiles.
const EXPECTED: [Component; 9] = [
    (2, 576, 256),
    (3, 960, 64),
    (4, 1024, 64),
    (5, 1088, 64),
    (6, 1152, 512),
    (7, 1664, 1024),
    (9, 2688, 8),
    (17, 2752, 64),
    (18, 2816, 8192),
];

/// Returns the area without room for tiles that are not in use, and with each component where
/// debuggers expect it. Debuggers that do not know tiles complain of their room, and it is
/// kilobytes for each thread.
pub(super) fn for_debuggers(area: Vec<u8>) -> Vec<u8> {
    let word = |at: usize| {
        let bytes = area.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    let (Some(present), Some(used)) = (word(PRESENT), word(USED)) else {
        return area;
    };
    let kept = if used & TILES == 0 {
        present & !TILES
    } else {
        present
    };
    let here: Vec<Component> = (2..63)
        .filter(|component| kept >> component & 1 == 1)
        .map(place)
        .collect();
    arranged(&area, kept, &here).unwrap_or(area)
}

/// Returns this processor's offset of a component.
fn place(component: u32) -> Component {
    #[allow(unused_unsafe, reason = "the call is safe in newer releases of Rust")]
    // SAFETY: the processor saves extended registers, so that it has the instruction, and its leaf 13 says where each component is.
    let leaf = unsafe { std::arch::x86_64::__cpuid_count(13, component) };
    (component, leaf.ebx as usize, leaf.eax as usize)
}

/// Returns the components that are here, each in its expected place. `None` if one of them is
/// unknown or is not in the area.
fn arranged(area: &[u8], kept: u64, here: &[Component]) -> Option<Vec<u8>> {
    let mut out = area.get(..LEGACY)?.to_vec();
    out.get_mut(PRESENT..PRESENT + 8)?
        .copy_from_slice(&kept.to_le_bytes());
    for &(component, at, len) in here {
        let known = EXPECTED.iter().find(|expected| expected.0 == component)?;
        let bytes = area.get(at..at.checked_add(len)?)?;
        let end = known.1 + known.2;
        if len > known.2 {
            return None;
        }
        out.resize(out.len().max(end), 0);
        out[known.1..known.1 + len].copy_from_slice(bytes);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an area of `len` bytes, none of them alike within 251.
    fn area(len: usize, present: u64, used: u64) -> Vec<u8> {
        let mut area: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        area[PRESENT..PRESENT + 8].copy_from_slice(&present.to_le_bytes());
        area[USED..USED + 8].copy_from_slice(&used.to_le_bytes());
        area
    }

    #[test]
    fn what_is_in_place_stays() {
        let here = [
            (2, 576, 256),
            (5, 1088, 64),
            (6, 1152, 512),
            (7, 1664, 1024),
            (9, 2688, 8),
        ];
        let mut was = area(2696, 0x2e7, 0x2e7);
        // Where no component is.
        was[832..1088].fill(0);
        assert_eq!(arranged(&was, 0x2e7, &here), Some(was));
    }

    #[test]
    fn what_is_elsewhere_moves() {
        // As AMD's fourth Zen has them.
        let here = [
            (2, 576, 256),
            (5, 832, 64),
            (6, 896, 512),
            (7, 1408, 1024),
            (9, 2432, 8),
        ];
        let was = area(2440, 0x2e7, 0x2e7);
        let is = arranged(&was, 0x2e7, &here).unwrap();
        assert_eq!(is.len(), 2696);
        for (at, now, len) in [
            (0, 0, 832),
            (832, 1088, 64),
            (896, 1152, 512),
            (1408, 1664, 1024),
            (2432, 2688, 8),
        ] {
            assert_eq!(was[at..at + len], is[now..now + len], "{at}");
        }
        assert!(is[832..1088].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn room_for_tiles_goes() {
        let was = area(2816 + 8192, 0x602e7, 0xe7);
        let here = [(2, 576, 256), (9, 2688, 8)];
        let is = arranged(&was, 0x602e7 & !TILES, &here).unwrap();
        assert_eq!(
            (is.len(), is[PRESENT..PRESENT + 4].to_vec()),
            (2696, vec![0xe7, 2, 0, 0])
        );
    }

    #[test]
    fn what_is_not_known_stays_as_it_was() {
        let was = area(4096, 1 << 40 | 7, 7);
        assert_eq!(
            arranged(&was, 1 << 40 | 7, &[(2, 576, 256), (40, 832, 8)]),
            None
        );
        assert_eq!(arranged(&was, 7, &[(2, 4000, 256)]), None);
        assert_eq!(arranged(&was[..500], 7, &[]), None);
        assert_eq!(for_debuggers(was[..500].to_vec()), was[..500]);
    }
}
