//! Tables shared by several address spaces.

use samara_paging::Context;

use super::*;

pub(super) fn each_user_of_a_shared_table_reports_its_pages<F: Format>() {
    let memory = memory();
    let (parent, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
    let file = map_file(&parent, &memory, AT, RW);
    map_anon(&parent, &memory, AT + PAGE_SIZE);
    parent.set_marker(AT + 2 * PAGE_SIZE, Some(7), &()).unwrap();
    parent.share_range(&child, STRETCH, &()).unwrap();
    for (users, space) in [(2, &child), (1, &parent)] {
        assert_eq!(space.page(AT).unwrap().users, users);
        let told = told(space, UnmapFilter::All);
        assert_eq!(told.len(), 3);
        assert_eq!(told[2], (AT + 2 * PAGE_SIZE, Entry::Marker(7)));
        let (AT, Entry::Page { phys, attrs, .. }) = told[0] else {
            panic!("{told:?}")
        };
        assert!(phys == file && attrs.contains(Attrs::DIRTY));
        check(&[&parent, &child]).unwrap();
    }
    assert_eq!(memory.frames().info(file).unwrap().mappings, 0);
}

/// No page becomes dirty after a user of the table has reported it.
pub(super) fn nothing_is_stored_through_a_shared_table<F: Format>() {
    let memory = memory();
    let (parent, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
    let file = map_file(&parent, &memory, AT, RW);
    let device = AT + PAGE_SIZE;
    let source = Source::Special(0x1000);
    parent
        .map(device, PageSize::Small, source, RW, &())
        .unwrap();
    parent.share_range(&child, STRETCH, &()).unwrap();
    for addr in [AT, device] {
        for space in [&parent, &child] {
            assert!(!space.translate(addr).unwrap().1.contains(Attrs::WRITE));
            assert!(space.access(addr, Attrs::WRITE, |_| ()).is_err());
        }
    }
    parent.add_attrs(AT, file, Attrs::WRITE, &()).unwrap();
    assert!(parent.translate(AT).unwrap().1.contains(Attrs::WRITE));
    assert!(!child.translate(AT).unwrap().1.contains(Attrs::WRITE));
    child.add_attrs(AT, file, Attrs::WRITE, &()).unwrap();
    assert!(child.translate(AT).unwrap().1.contains(Attrs::WRITE));
    check(&[&parent, &child]).unwrap();
}

pub(super) fn pages_leave_shared_tables_without_memory<F: Format>() {
    let memory = memory();
    let spaces = [1, 2, 3].map(|asid| space::<F>(&memory, asid));
    let cached = memory.alloc_page(Kind::File).unwrap();
    let last = STRETCH.end;
    for addr in [AT, last] {
        let source = Source::Counted(cached);
        (spaces[0].map(addr, PageSize::Small, source, RW, &())).unwrap();
    }
    let own = map_anon(&spaces[0], &memory, AT + PAGE_SIZE);
    let range = STRETCH.start..STRETCH.end + (2 << 20);
    for child in &spaces[1..] {
        spaces[0].share_range(child, range.clone(), &()).unwrap();
    }
    memory.backing().refuse_after(Some(0));
    let file = AT..last + PAGE_SIZE;
    let told = std::cell::RefCell::new(Vec::new());
    let tlb = |context: &Context, ranges: &[std::ops::Range<u64>], _| {
        told.borrow_mut().push((context.asid(), ranges.to_vec()));
    };
    for space in &spaces {
        space
            .rmap_revoke(file.clone(), UnmapFilter::FilePages, &tlb)
            .unwrap();
    }
    // Each address space was invalidated for both pages, whichever visit revoked access.
    let both = vec![AT..AT + PAGE_SIZE, last..last + PAGE_SIZE];
    let expected: Vec<_> = (1..=3).map(|asid| (asid, both.clone())).collect();
    assert_eq!(*told.borrow(), expected);
    assert_eq!(memory.frames().info(cached).unwrap().mappings, 2);
    // One address space makes the page accessible again, in its own table, and shares that.
    memory.backing().refuse_after(None);
    let again = Change::access(Attrs::READ, WritePolicy::Never);
    spaces[1].protect(AT..AT + PAGE_SIZE, again, &()).unwrap();
    let late = space::<F>(&memory, 4);
    spaces[1].share_range(&late, range.clone(), &()).unwrap();
    memory.backing().refuse_after(Some(0));
    let unmap = |space: &Space<F>| {
        space
            .rmap_unmap(file.clone(), UnmapFilter::FilePages, &tlb)
            .unwrap()
    };
    let all: Vec<_> = spaces.iter().chain([&late]).collect();
    let complete: Vec<bool> = all.iter().map(|space| unmap(space)).collect();
    assert_eq!(complete, [true, false, true, false]);
    for space in &all {
        space
            .rmap_revoke(file.clone(), UnmapFilter::FilePages, &tlb)
            .unwrap();
    }
    for space in &all {
        assert!(unmap(space));
        assert_eq!(space.translate(AT), None);
        assert_eq!(space.translate(last), None);
        assert_eq!(space.translate(AT + PAGE_SIZE).unwrap().0, own);
    }
    let info = memory.frames().info(cached).unwrap();
    assert_eq!((info.mappings, info.references), (0, 1));
    memory.put(cached);
    check(&all).unwrap();
}
