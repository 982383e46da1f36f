//! Frames that a source keeps itself: counted, special, and a device's.

use std::sync::{Arc, Mutex};

use samara_mm::abi::{
    MADV_DONTNEED, MAP_FIXED, MAP_PRIVATE, MAP_SHARED, MREMAP_FIXED, MREMAP_MAYMOVE, PROT_EXEC,
    PROT_READ, PROT_WRITE,
};
use samara_mm::observe::{IoVec, PagemapWord};
use samara_mm::process::{
    Access, Fault, ForkMode, Inode, Machine, PAGE_BYTES, PageFrame, PageSource, PageStatus, Process,
};
use samara_mm::walkers::PinFlags;
use samara_mm::{
    Call, Counted, DriverFlags, Errno, File, FileArg, FileId, FileKind, Prot, VmFlags,
};
use samara_paging::Kind;

use crate::countdown::LEFT;
use crate::world::{BASE, Hosted, PAGE, anonymous, byte, free_frames, machine, mapping, process};

const RW: u64 = PROT_READ | PROT_WRITE;
const OTHER: u64 = BASE + 0x100_0000;
/// Beyond all memory.
const REGISTERS: u64 = 0xfe00_0000_0000;

/// Frames by page; without one there is nothing.
struct Kept(Arc<Mutex<Vec<Option<PageFrame>>>>);

impl PageSource for Kept {
    fn frame(&self, page: u64) -> Option<PageFrame> {
        *self.0.lock().unwrap().get(page as usize)?
    }

    fn size(&self) -> u64 {
        self.0.lock().unwrap().len() as u64 * PAGE
    }

    fn read_page(&self, _: u64, _: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
        Err(Errno::EIO)
    }

    fn write_page(&self, _: u64, _: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
        panic!("a frame of the owner's is written back")
    }

    fn punch(&self, _: u64, _: u64) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}

/// A device with these frames, of whose areas the driver says so.
struct Device {
    frames: Arc<Mutex<Vec<Option<PageFrame>>>>,
    file: Counted<File>,
}

impl Device {
    fn new(frames: &[PageFrame], adds: VmFlags) -> Self {
        let frames = Arc::new(Mutex::new(frames.iter().copied().map(Some).collect()));
        let (major, minor, inode) = (10, 1, 5);
        let id = FileId {
            major,
            minor,
            inode,
        };
        let file = File {
            kind: FileKind::Device,
            driver: DriverFlags {
                adds,
                ..DriverFlags::default()
            },
            object: Inode::object(Kept(frames.clone())).unwrap(),
            ..File::new(id, "/dev/frames".into())
        };
        let file = Counted::try_new(file).unwrap();
        Device { frames, file }
    }

    fn map(&self, process: &Process<Hosted>, addr: u64, prot: u64, flags: u64) {
        let pages = self.frames.lock().unwrap().len() as u64;
        let call = mapping(&self.file, addr, 0, pages, prot, flags);
        process.perform(&call).unwrap();
    }
}

/// A frame of the kernel's own, filled with a byte.
fn frame(machine: &Machine<Hosted>, kind: Kind, filled: u8) -> u64 {
    let phys = machine.physical().alloc_page(kind).unwrap();
    // SAFETY: a new frame.
    unsafe {
        machine
            .physical()
            .to_virt(phys)
            .write_bytes(filled, PAGE_BYTES)
    };
    phys
}

fn first(machine: &Machine<Hosted>, phys: u64) -> u8 {
    // SAFETY: a frame of this test's.
    unsafe { machine.physical().to_virt(phys).read() }
}

fn counts(machine: &Machine<Hosted>, phys: u64) -> (u32, u32) {
    let info = machine.physical().frames().info(phys).unwrap();
    (info.mappings, info.references)
}

#[test]
fn a_counted_frame_is_one_for_all_who_share_it() {
    for mode in [ForkMode::Copy, ForkMode::Share] {
        let machine = machine(64);
        let phys = frame(&machine, Kind::File, 7);
        let before = free_frames(&machine);
        let device = Device::new(&[PageFrame::Counted(phys)], VmFlags::empty());
        let parent = process(&machine);
        device.map(&parent, BASE, RW, MAP_SHARED);
        assert_eq!(byte(&parent, BASE), Some(7));
        // The first write after a read, and after the permission has come back.
        assert_eq!(parent.copy_in(BASE, b"a"), 1);
        for prot in [PROT_READ, RW] {
            let (addr, len) = (BASE, PAGE);
            let call = Call::Mprotect {
                addr,
                len,
                prot,
                pkey: -1,
            };
            parent.perform(&call).unwrap();
        }
        assert_eq!(parent.copy_in(BASE, b"b"), 1);
        let child = parent.fork(mode).unwrap();
        assert_eq!(child.copy_in(BASE, b"c"), 1);
        assert_eq!(byte(&parent, BASE), Some(b'c'));
        assert_eq!(parent.translate(BASE).unwrap().0, phys);
        assert_eq!(child.translate(BASE).unwrap().0, phys);
        machine.check().unwrap();
        drop(parent);
        machine.physical().reclaim();
        assert_eq!(counts(&machine, phys), (1, 1));
        drop(child);
        drop(device);
        machine.physical().reclaim();
        assert_eq!(counts(&machine, phys), (0, 1));
        assert_eq!(free_frames(&machine), before);
        assert_eq!(first(&machine, phys), b'c');
        machine.physical().put(phys);
        machine.check().unwrap();
    }
}

#[test]
fn private_mappings_copy_frames_that_are_memory() {
    for mode in [ForkMode::Copy, ForkMode::Share] {
        let machine = machine(64);
        let frames = [
            frame(&machine, Kind::File, 1),
            frame(&machine, Kind::File, 2),
        ];
        let before = free_frames(&machine);
        let [counted, special] = frames;
        let kept = [PageFrame::Counted(counted), PageFrame::Special(special)];
        let device = Device::new(&kept, VmFlags::empty());
        let parent = process(&machine);
        device.map(&parent, BASE, RW, MAP_PRIVATE);
        // Read first, and written at once.
        device.map(&parent, OTHER, RW, MAP_PRIVATE);
        for (at, phys) in [BASE, BASE + PAGE].into_iter().zip(frames) {
            let value = first(&machine, phys);
            assert_eq!(byte(&parent, at), Some(value));
            assert_eq!(parent.translate(at), Some((phys, Prot::READ)));
            assert!(!parent.page(at).contains(PageStatus::ZERO));
            let child = parent.fork(mode).unwrap();
            assert_eq!(child.copy_in(at + 1, b"x"), 1);
            assert_eq!(byte(&child, at), Some(value));
            assert_eq!(byte(&parent, at + 1), Some(value));
            assert_eq!(parent.copy_in(at - BASE + OTHER + 1, b"y"), 1);
            assert_eq!(byte(&parent, at - BASE + OTHER), Some(value));
            machine.check().unwrap();
        }
        assert_eq!(frames.map(|phys| first(&machine, phys)), [1, 2]);
        drop((parent, device));
        machine.physical().reclaim();
        assert_eq!(free_frames(&machine), before);
        assert_eq!(frames.map(|phys| counts(&machine, phys)), [(0, 1), (0, 1)]);
    }
}

#[test]
fn a_special_frame_is_shared_without_a_count() {
    let machine = machine(64);
    let phys = frame(&machine, Kind::File, 3);
    let device = Device::new(&[PageFrame::Special(phys)], VmFlags::PFNMAP | VmFlags::IO);
    let (one, two) = (process(&machine), process(&machine));
    device.map(&one, BASE, RW, MAP_SHARED);
    device.map(&two, OTHER, RW, MAP_SHARED);
    assert_eq!(one.copy_in(BASE, b"s"), 1);
    assert_eq!(byte(&two, OTHER), Some(b's'));
    let mut word = [0];
    two.pagemap(OTHER, &mut word).unwrap();
    assert_eq!(PagemapWord::frame(word[0]), phys / PAGE);
    assert_eq!(counts(&machine, phys), (0, 1));
    let (old_addr, new_addr, flags) = (BASE, OTHER, MREMAP_MAYMOVE | MREMAP_FIXED);
    let (old_len, new_len) = (PAGE, PAGE);
    let call = Call::Mremap {
        old_addr,
        old_len,
        new_len,
        flags,
        new_addr,
    };
    one.perform(&call).unwrap();
    assert_eq!(one.translate(OTHER).unwrap().0, phys);
    machine.check().unwrap();
}

#[test]
fn what_is_no_memory_is_mapped_and_never_touched() {
    let machine = machine(64);
    let kept = [
        PageFrame::Device(REGISTERS),
        PageFrame::Special(REGISTERS + PAGE),
    ];
    let flags = VmFlags::PFNMAP | VmFlags::IO | VmFlags::DONTEXPAND | VmFlags::DONTDUMP;
    let device = Device::new(&kept, flags);
    let parent = process(&machine);
    device.map(&parent, BASE, RW, MAP_SHARED);
    device.map(&parent, OTHER, RW, MAP_PRIVATE);
    let child = parent.fork(ForkMode::Copy).unwrap();
    for process in [&parent, &child] {
        for (page, phys) in [(0, REGISTERS), (PAGE, REGISTERS + PAGE)] {
            assert_eq!(process.fault(BASE + page, Access::WRITE), Ok(()));
            assert_eq!(
                process.translate(BASE + page),
                Some((phys, Prot::READ | Prot::WRITE))
            );
            assert_eq!(process.copy_in(BASE + page, b"x"), 0);
            assert_eq!(byte(process, BASE + page), None);
            let word = process.atomic_u32(BASE + page, |_| ());
            assert_eq!(word, Err(Fault::ADRERR));
            // A private mapping is read, and cannot copy.
            let at = OTHER + page;
            assert_eq!(process.fault(at, Access::WRITE), Err(Fault::ADRERR));
            assert_eq!(process.fault(at, Access::READ), Ok(()));
            assert_eq!(process.translate(at), Some((phys, Prot::READ)));
            assert_eq!(process.fault(at, Access::WRITE), Err(Fault::ADRERR));
            assert_eq!(
                process.pin(at, 1, PinFlags::empty()).err(),
                Some(Errno::EFAULT)
            );
        }
        process.check().unwrap();
    }
    let (addr, len) = (BASE, 2 * PAGE);
    let advice = MADV_DONTNEED;
    assert_eq!(
        parent.perform(&Call::Madvise { addr, len, advice }),
        Err(Errno::EINVAL)
    );
    let buffer = OTHER + 0x100_0000;
    child.perform(&anonymous(buffer, 1, RW)).unwrap();
    let [here, there] = [buffer, BASE].map(|base| [IoVec { base, len: 1 }]);
    assert_eq!(
        child.vm_readv(&here, &parent, &there, 0),
        Err(Errno::EFAULT)
    );
    let mut smaps = String::new();
    parent.write_smaps(&mut smaps).unwrap();
    let sizes = smaps.lines().filter(|line| line.starts_with("Rss:"));
    assert!(sizes.clone().all(|line| line.ends_with(" 0 kB")), "{smaps}");
    assert_eq!(sizes.count(), 2);
    parent.perform(&Call::Munmap { addr, len }).unwrap();
    assert_eq!(parent.fault(BASE, Access::READ), Err(Fault::MAPERR));
    machine.check().unwrap();
}

#[test]
fn a_frame_that_is_taken_back_is_mapped_nowhere() {
    let machine = machine(64);
    let phys = frame(&machine, Kind::File, 9);
    for kept in [PageFrame::Counted(phys), PageFrame::Special(phys)] {
        let device = Device::new(&[kept, kept], VmFlags::empty());
        let (one, two) = (process(&machine), process(&machine));
        device.map(&one, BASE, RW, MAP_SHARED);
        device.map(&two, BASE, PROT_READ, MAP_PRIVATE);
        assert_eq!(byte(&one, BASE), Some(9));
        assert_eq!(byte(&two, BASE + PAGE), Some(9));
        // Another one in its place, for those who read or write next.
        let other = frame(&machine, Kind::File, 8);
        device.frames.lock().unwrap()[0] = Some(PageFrame::Counted(other));
        assert_eq!(one.copy_in(BASE, b"o"), 1);
        assert_eq!(first(&machine, other), b'o');
        *device.frames.lock().unwrap() = vec![None, None];
        machine.truncate(&device.file.object, 0).unwrap();
        assert_eq!(counts(&machine, phys), (0, 1));
        assert_eq!(counts(&machine, other), (0, 1));
        assert_eq!(one.fault(BASE, Access::READ), Err(Fault::ADRERR));
        assert_eq!(two.fault(BASE + PAGE, Access::READ), Err(Fault::ADRERR));
        machine.check().unwrap();
        machine.physical().put(other);
    }
}

/// Every allocation of such a fault is refused once, of the heap and of frames.
#[test]
fn refused_faults_leave_nothing() {
    let machine = machine(64);
    let phys = frame(&machine, Kind::File, 5);
    let refusals: [&dyn Fn(Option<u32>); 2] = [&|left| LEFT.set(left), &|left| {
        let arena = machine.physical().backing();
        arena.refuse_after(left.map(u64::from));
    }];
    for refuse in refusals {
        for (flags, access) in [
            (MAP_SHARED, Access::READ),
            (MAP_SHARED, Access::WRITE),
            (MAP_PRIVATE, Access::WRITE),
        ] {
            for kept in [PageFrame::Counted(phys), PageFrame::Special(phys)] {
                let device = Device::new(&[kept], VmFlags::empty());
                let process = process(&machine);
                device.map(&process, BASE, RW, flags);
                for left in 0.. {
                    refuse(Some(left));
                    let done = process.fault(BASE, access);
                    refuse(None);
                    machine.check().unwrap();
                    if done.is_ok() {
                        assert!(left > 0, "nothing was refused");
                        break;
                    }
                    assert_eq!(done, Err(Fault::NoMemory), "after {left}");
                    assert_eq!(counts(&machine, phys), (0, 1));
                    assert!(left < 100);
                }
                drop((process, device));
                machine.physical().reclaim();
                assert_eq!(counts(&machine, phys), (0, 1));
            }
        }
    }
}

/// A size that ends before the frames: `SIGBUS`, as for every file.
#[test]
fn pages_beyond_the_size_are_not_asked_for() {
    let machine = machine(64);
    let device = Device::new(&[PageFrame::Special(REGISTERS)], VmFlags::empty());
    let process = process(&machine);
    let call = Call::Mmap {
        addr: BASE,
        len: 2 * PAGE,
        prot: PROT_READ | PROT_EXEC,
        flags: MAP_SHARED | MAP_FIXED,
        file: FileArg::File(device.file.clone()),
        offset: 0,
    };
    process.perform(&call).unwrap();
    assert_eq!(process.fault(BASE, Access::EXEC), Ok(()));
    let beyond = process.fault(BASE + PAGE, Access::EXEC);
    assert_eq!(beyond, Err(Fault::ADRERR));
}
