//! The kinds of records, and the heads of files and chunks.

use alloc::vec::Vec;

/// The first bytes of every file.
pub const MAGIC: &[u8; 8] = b"SAMARATR";
/// The version, which rises whenever the meaning of a byte changes.
pub const VERSION: u32 = 14;
/// The oldest version that can be read.
///
/// What each version added:
///
/// - 2: `totals`
/// - 3: the flags that drivers add and remove
/// - 4: `grown-meanwhile`
/// - 5: `nodes-meanwhile`
/// - 6: calls of userfaultfd and `PR_SET_MM`
/// - 7: `perhaps-written`
/// - 8: the system-call table of the calls
/// - 9: `shown-late`
/// - 10: devices that cannot be split
/// - 11: `perhaps-written` below areas that grow
/// - 12: `bases`
/// - 13: `poisoned` and `brought`
/// - 14: `unknown`
pub const OLDEST: u32 = 1;

/// The kinds of records that kernels write. [`SCHEMA`] lists all kinds.
#[allow(missing_docs)]
pub mod kind {
    pub const FILE: u8 = 1;
    pub const SEED: u8 = 2;
    pub const FORK: u8 = 3;
    pub const WRITTEN: u8 = 4;
    pub const GROWN: u8 = 5;
    pub const LIMITS: u8 = 6;
    pub const CALL: u8 = 7;
    pub const MAP: u8 = 9;
    pub const GONE: u8 = 10;
    pub const END: u8 = 11;
    pub const TOTALS: u8 = 13;
}

/// The names of the records and of their fields, for the description at the head of a file.
pub const SCHEMA: &[(u8, &str, &str)] = &[
    (
        1,
        "file",
        "major minor inode name readable writable noexec kind huge_page_size seals description flags-added flags-removed (numbered from 0 in order)",
    ),
    (2, "seed", "space reason config limits layout areas"),
    (3, "fork", "parent child"),
    (4, "written", "space start length"),
    (5, "grown", "space start"),
    (6, "limits", "space address_space data stack memlock"),
    (
        7,
        "call",
        "space thread returned written-at-entry there-is-more written-at-return kind arguments",
    ),
    (8, "unmodelled", "space thread returned name"),
    (
        9,
        "map",
        "space kept-in-front kept-behind areas (the kernel's map, against the one before it of this space)",
    ),
    (10, "gone", "space main"),
    (11, "end", "exit_code signal"),
    (12, "settings", "space config"),
    (
        13,
        "totals",
        "processes threads reasons-not-to-follow (each with its number)",
    ),
    (
        14,
        "grown-meanwhile",
        "space start (before or after the kernel's part of the next call of this space)",
    ),
    (
        15,
        "nodes-meanwhile",
        "space nodes (what the kernel may have found instead for the next call of this space)",
    ),
    (
        16,
        "perhaps-written",
        "space address (an access found no page of a file there, or nothing that had grown so far: if it was a write, or a limit kept the area from growing, it has left its trace there)",
    ),
    (
        17,
        "shown-late",
        "space start length (written since the last call of this space, or about to be before it)",
    ),
    (
        18,
        "bases",
        "space mmap_base legacy_base (shown by the next call of this space)",
    ),
    (
        19,
        "poisoned",
        "space start length (a userfaultfd has poisoned these pages)",
    ),
    (
        20,
        "brought",
        "space start length (a userfaultfd has brought these pages, where guards or poison were)",
    ),
    (
        21,
        "unknown",
        "space start length reason (not known of these addresses, or, of length 0, of the answer to the next call of this space: what differs decides nothing. 0 writes, 1 what arguments point to, 2 advice through a ring, 3 a BPF arena, 4 a FUSE file, 5 the open file, 6 the kernel's memory, 7 vm.max_map_count, 8 seals)",
    ),
];

/// Returns the head of a file.
pub fn head_of_file(version: u32, description: &str) -> Vec<u8> {
    let mut head = Vec::new();
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&version.to_le_bytes());
    head.extend_from_slice(&(description.len() as u32).to_le_bytes());
    head.extend_from_slice(&crc32fast::hash(description.as_bytes()).to_le_bytes());
    head.extend_from_slice(description.as_bytes());
    head
}

/// Returns the head of a chunk. Chunks are numbered from 0.
pub fn head_of_chunk(number: u32, records: &[u8]) -> [u8; 8] {
    let mut hasher = crc32fast::Hasher::new_with_initial(number);
    hasher.update(records);
    let mut head = [0; 8];
    head[..4].copy_from_slice(&(records.len() as u32).to_le_bytes());
    head[4..].copy_from_slice(&hasher.finalize().to_le_bytes());
    head
}
