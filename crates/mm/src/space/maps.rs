//! The map as `/proc/PID/maps` prints it.

use core::fmt;

use crate::config::Layout;
use crate::file::FileId;
use crate::flags::VmFlags;
use crate::kernel::Rule;
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
    pub perms: [u8; 4],
    /// Offset in the file in bytes; 0 without a file.
    pub offset: u64,
    /// Device and inode. Shared anonymous memory has device 0:1 and a number of the engine's.
    pub id: FileId,
    /// Path or name in brackets; empty if there is none.
    pub name: &'a str,
    /// All flags.
    pub flags: VmFlags,
}

/// A writer that counts characters, to find the column of the name.
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
        let perms = core::str::from_utf8(&self.perms).unwrap_or("????");
        write!(
            out,
            "{:08x}-{:08x} {perms} {:08x} {:02x}:{:02x} {} ",
            self.start, self.end, self.offset, self.id.major, self.id.minor, self.id.inode
        )?;
        if self.name.is_empty() {
            return Ok(());
        }
        while out.written < NAME_COLUMN {
            out.write_char(' ')?;
        }
        out.write_str(self.name)
    }
}

impl<'a> MapsLine<'a> {
    /// Returns the line of a VMA. `layout` says where heap and stack are:
    /// [`AddressSpace::shown_layout`].
    ///
    /// ```
    /// # use samara_mm::{AddressSpace, Config, Layout, Limits, MapsLine, MmapOptions};
    /// let mut space = AddressSpace::new(Config::default(), Limits::default(), Layout::default())?;
    /// space.mmap(&MmapOptions::anonymous(0x1000).fixed(0x10000))?;
    /// let area = space.lookup(0x10000).unwrap();
    /// let line = MapsLine::of(area, &space.shown_layout());
    /// assert_eq!(line.to_string(), "00010000-00011000 ---p 00000000 00:00 0 ");
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn of(area: Area<'a>, layout: &Layout) -> Self {
        line(area, layout)
    }
}

impl AddressSpace {
    /// Returns the whole map, upwards, as `/proc/PID/maps` lists it.
    pub fn maps(&self) -> impl DoubleEndedIterator<Item = MapsLine<'_>> {
        let layout = self.shown_layout();
        self.areas.iter().map(move |area| line(area, &layout))
    }

    /// Returns the line of the VMA that holds `address`. O(log n).
    pub fn area_at(&self, address: u64) -> Option<MapsLine<'_>> {
        self.areas
            .at(address)
            .map(|area| line(area, &self.shown_layout()))
    }

    /// Returns the layout by which lines of the map name the heap, for
    /// [`MapView::maps`](crate::MapView::maps). Some kernels also name a VMA that only borders on
    /// the heap so: there the heap is one byte larger on both sides.
    pub fn shown_layout(&self) -> Layout {
        let mut layout = self.layout;
        if !self.config.kernel.has(Rule::HeapIsWithin) {
            layout.start_brk = layout.start_brk.saturating_sub(1);
            layout.brk = layout.brk.saturating_add(1);
        }
        layout
    }
}

/// Returns the line of a VMA. `layout` says where heap and stack are.
pub(crate) fn line<'a>(area: Area<'a>, layout: &Layout) -> MapsLine<'a> {
    let flags = area.vma.flags;
    let nothing = FileId {
        major: 0,
        minor: 0,
        inode: 0,
    };
    let (id, offset) = match &area.vma.backing {
        Backing::File(file) => (file.id, area.page_offset() << 12),
        Backing::Shm { segment, .. } => (segment.file.id, area.page_offset() << 12),
        Backing::SharedAnonymous(object) => (
            FileId {
                major: 0,
                minor: 1,
                inode: object.id(),
            },
            area.page_offset() << 12,
        ),
        Backing::Anonymous | Backing::Special(_) => (nothing, 0),
    };
    let letter = |flag, yes: u8| if flags.contains(flag) { yes } else { b'-' };
    MapsLine {
        start: area.start,
        end: area.end,
        perms: [
            letter(VmFlags::READ, b'r'),
            letter(VmFlags::WRITE, b'w'),
            letter(VmFlags::EXEC, b'x'),
            if flags.contains(VmFlags::MAYSHARE) {
                b's'
            } else {
                b'p'
            },
        ],
        offset,
        id,
        name: name(area, layout),
        flags: area.vma.shown_flags(),
    }
}

fn name<'a>(area: Area<'a>, layout: &Layout) -> &'a str {
    let given = area.vma.name.as_deref();
    match &area.vma.backing {
        Backing::SharedAnonymous(_) => given.unwrap_or("/dev/zero (deleted)"),
        Backing::File(file) => &file.name,
        Backing::Shm { segment, .. } => &segment.file.name,
        Backing::Special(object) => object.name(),
        Backing::Anonymous => {
            if area.start < layout.brk && area.end > layout.start_brk {
                "[heap]"
            } else if layout.stack_top != 0
                && area.start <= layout.stack_top
                && area.end >= layout.stack_top
            {
                "[stack]"
            } else {
                given.unwrap_or("")
            }
        }
    }
}
