//! The map as `/proc/PID/maps` prints it.

use core::fmt;

use crate::flags::VmFlags;
use crate::space::AddressSpace;
use crate::vma::{Area, Backing};

/// One line of `/proc/PID/maps`; its `Display` is the line itself, without the line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapsLine<'a> {
    /// First address.
    pub start: u64,
    /// First address beyond.
    pub end: u64,
    /// For example `rw-p`.
    pub perms: Perms,
    /// Offset in the file in bytes; 0 without a file.
    pub offset: u64,
    /// Device, major and minor number.
    pub dev: (u32, u32),
    /// Inode number; for shared anonymous memory a number of our own.
    pub inode: u64,
    /// Path or name in brackets; empty if there is none.
    pub name: Name<'a>,
    /// All properties.
    pub flags: VmFlags,
}

/// The permissions column of a line: `r`, `w`, `x`, and `s` or `p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Perms {
    /// `r`.
    pub read: bool,
    /// `w`.
    pub write: bool,
    /// `x`.
    pub exec: bool,
    /// `s` instead of `p`.
    pub shared: bool,
}

/// The last column of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name<'a> {
    /// A path or a fixed name, possibly empty.
    Plain(&'a str),
    /// `[anon:…]`: a name that the program gave to private memory.
    Anonymous(&'a str),
    /// `[anon_shmem:…]`: a name that the program gave to shared anonymous memory.
    AnonymousShared(&'a str),
}

impl fmt::Display for Perms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |set: bool, yes: char| if set { yes } else { '-' };
        write!(
            f,
            "{}{}{}{}",
            letter(self.read, 'r'),
            letter(self.write, 'w'),
            letter(self.exec, 'x'),
            if self.shared { 's' } else { 'p' }
        )
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Plain(text) => f.write_str(text),
            Name::Anonymous(name) => write!(f, "[anon:{name}]"),
            Name::AnonymousShared(name) => write!(f, "[anon_shmem:{name}]"),
        }
    }
}

/// Counts what is written, to find the column of the name.
struct Width<'f, 'g> {
    out: &'f mut fmt::Formatter<'g>,
    written: usize,
}

impl fmt::Write for Width<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.written += text.len();
        self.out.write_str(text)
    }
}

impl fmt::Display for MapsLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        /// The name starts in this column, counted from 0.
        const NAME_COLUMN: usize = 73;
        let mut out = Width { out: f, written: 0 };
        write!(
            out,
            "{:08x}-{:08x} {} {:08x} {:02x}:{:02x} {} ",
            self.start, self.end, self.perms, self.offset, self.dev.0, self.dev.1, self.inode
        )?;
        if self.name == Name::Plain("") {
            return Ok(());
        }
        while out.written < NAME_COLUMN {
            out.write_char(' ')?;
        }
        write!(out, "{}", self.name)
    }
}

impl AddressSpace {
    /// The whole map, upwards, as `/proc/PID/maps` lists it.
    pub fn maps(&self) -> impl DoubleEndedIterator<Item = MapsLine<'_>> {
        self.vmas.iter().map(|area| self.line(area))
    }

    /// The line for the area that holds `address`. O(log n).
    pub fn area_at(&self, address: u64) -> Option<MapsLine<'_>> {
        self.vmas.at(address).map(|area| self.line(area))
    }

    fn line<'a>(&self, area: Area<'a>) -> MapsLine<'a> {
        let flags = area.vma.flags;
        let (dev, inode, offset) = match &area.vma.backing {
            Backing::File(file) | Backing::Shm(file) => (
                (file.id.major, file.id.minor),
                file.id.inode,
                area.page_offset() << 12,
            ),
            Backing::SharedAnonymous(number) => ((0, 1), *number, area.page_offset() << 12),
            Backing::Anonymous | Backing::Special(_) => ((0, 0), 0, 0),
        };
        MapsLine {
            start: area.start,
            end: area.end,
            perms: Perms {
                read: flags.contains(VmFlags::READ),
                write: flags.contains(VmFlags::WRITE),
                exec: flags.contains(VmFlags::EXEC),
                shared: flags.contains(VmFlags::MAYSHARE),
            },
            offset,
            dev,
            inode,
            name: self.name(area),
            flags,
        }
    }

    fn name<'a>(&self, area: Area<'a>) -> Name<'a> {
        let given = area.vma.name.as_deref();
        match &area.vma.backing {
            Backing::SharedAnonymous(_) => {
                given.map_or(Name::Plain("/dev/zero (deleted)"), Name::AnonymousShared)
            }
            Backing::File(file) | Backing::Shm(file) => Name::Plain(&file.name),
            Backing::Special(name) => Name::Plain(name),
            Backing::Anonymous => {
                let layout = &self.layout;
                if area.start < layout.brk && area.end > layout.start_brk {
                    Name::Plain("[heap]")
                } else if area.start <= layout.stack_top && area.end >= layout.stack_top {
                    Name::Plain("[stack]")
                } else {
                    given.map_or(Name::Plain(""), Name::Anonymous)
                }
            }
        }
    }
}
