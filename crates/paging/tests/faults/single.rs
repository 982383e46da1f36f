//! A fault on one page, and changes during it.

use super::*;

pub(super) fn a_page_is_allowed_only_where_it_still_is<F: Format>() {
    let memory = memory();
    let space = space::<F>(&memory, 1);
    let page = map_file(&space, &memory, AT, CLEAN);
    let add = Attrs::WRITE | Attrs::DIRTY;
    let missing = Err(Error::NotMapped);
    assert_eq!(space.add_attrs(AT, page + PAGE_SIZE, add, &()), missing);
    assert_eq!(space.add_attrs(AT + PAGE_SIZE, page, add, &()), missing);
    space.add_attrs(AT, page, add, &()).unwrap();
    assert!(space.translate(AT).unwrap().1.contains(add));
}

pub(super) fn a_referenced_page_is_not_exclusive<F: Format>() {
    let memory = memory();
    let space = space::<F>(&memory, 1);
    let page = map_anon(&space, &memory, AT);
    let change = Change::without(Attrs::WRITE);
    space.protect(AT..AT + PAGE_SIZE, change, &()).unwrap();
    assert_eq!(space.get_page(AT, Attrs::WRITE), Err(Error::NotMapped));
    let pin = space.get_page(AT + 5, Attrs::READ).unwrap();
    assert!(pin.phys() == page && pin.counted());
    assert_eq!(space.pte(AT, &()).reuse_exclusive(page), Ok(false));
    // The reference outlives the mapping.
    space.unmap(STRETCH, &()).unwrap();
    assert_eq!(memory.frames().info(page).unwrap().references, 1);
    pin.put(&memory);
    assert_eq!(memory.frames().info(page), None);

    let zero = memory.zero_page();
    let source = Source::Special(zero);
    space.map(AT, PageSize::Small, source, CLEAN, &()).unwrap();
    let pin = space.get_page(AT, Attrs::READ).unwrap();
    assert!(pin.phys() == zero && !pin.counted());
    pin.put(&memory);
    assert!(space.page(AT).unwrap().zero);
}

pub(super) fn a_copy_may_come_too_late<F: Format>() {
    let memory = memory();
    let (parent, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
    let fork = || {
        let copied = parent.copy_range(&child, STRETCH, Mapping::Private, ForkFilter::All, &());
        copied.unwrap();
    };
    let old = map_anon(&parent, &memory, AT);
    let frame = || memory.alloc_page(Kind::Anon).unwrap();
    let references = |phys| memory.frames().info(phys).map(|info| info.references);
    let spaces = [&parent, &child];

    // Another thread was faster.
    fork();
    let (first, second) = (frame(), frame());
    let mut pte = child.pte(AT, &());
    assert!(matches!(pte.entry(), Entry::Page { .. }) && !pte.seems_exclusive(old));
    assert_eq!(
        child.pte(AT, &()).copy_on_write(old, first, RW, |_| ()),
        Ok(true)
    );
    let copy = |_| panic!("what is to be copied has gone");
    assert_eq!(
        pte.copy_on_write(old, second, RW, copy),
        Err(Error::NotMapped)
    );
    assert_eq!(references(second), Some(1));
    assert_eq!(child.page(AT).unwrap().phys, first);
    drop(pte);
    check(&spaces).unwrap();

    // The table was removed, and another has replaced it.
    let mut pte = child.pte(AT, &());
    pte.entry();
    child.unmap(STRETCH, &()).unwrap();
    fork();
    let mut still = None;
    let copy = |is| still = Some(is);
    assert_eq!(pte.copy_on_write(old, second, RW, copy), Ok(true));
    assert_eq!(still, Some(true));
    assert_eq!(child.page(AT).unwrap().phys, second);
    assert_eq!(parent.page(AT).unwrap().phys, old);
    drop(pte);
    check(&spaces).unwrap();

    // The other side has given up the page.
    child.unmap(STRETCH, &()).unwrap();
    fork();
    let new = frame();
    let mut pte = child.pte(AT, &());
    pte.entry();
    parent.unmap(STRETCH, &()).unwrap();
    let copy = |_| panic!("nobody else has the page");
    assert_eq!(pte.copy_on_write(old, new, RW, copy), Ok(false));
    drop(pte);
    assert_eq!(references(new), Some(1));
    memory.put(new);
    assert_eq!(child.page(AT).unwrap().phys, old);
    assert!(child.translate(AT).unwrap().1.contains(Attrs::WRITE));
    check(&spaces).unwrap();
}

pub(super) fn an_access_sets_the_bits_that_a_processor_sets<F: Format>() {
    let memory = memory();
    let space = space::<F>(&memory, 1);
    assert_eq!(
        space.access(u64::MAX / 2, Attrs::READ, |_| ()),
        Err(Entry::Empty)
    );
    let page = map_file(
        &space,
        &memory,
        AT,
        Attrs::READ | Attrs::WRITE | Attrs::USER,
    );
    let attrs = || space.translate(AT).unwrap().1;
    assert_eq!(space.access(AT + 9, Attrs::READ, |phys| phys), Ok(page + 9));
    assert!(attrs().contains(Attrs::ACCESSED) && !attrs().contains(Attrs::DIRTY));
    assert_eq!(space.access(AT, Attrs::WRITE, |phys| phys), Ok(page));
    assert!(attrs().contains(Attrs::DIRTY));
    assert!(matches!(
        space.access(AT, Attrs::EXEC, |_| ()),
        Err(Entry::Page { .. })
    ));
    let change = Change::access(Attrs::empty(), WritePolicy::Never);
    space.protect(STRETCH, change, &()).unwrap();
    assert!(space.access(AT, Attrs::empty(), |_| ()).is_err());
    // Within a huge page: the address of the byte itself.
    let block = memory.alloc_block(9, Kind::Anon).unwrap();
    let large = 0x8000_0000;
    let source = Source::Owned(block);
    space.map(large, PageSize::Large, source, RW, &()).unwrap();
    let there = space.access(large + 0x12345, Attrs::WRITE, |phys| phys);
    assert_eq!(there, Ok(block + 0x12345));
    let pin = space.get_page(large + 0x12345, Attrs::WRITE).unwrap();
    assert_eq!(pin.phys(), block + 0x12000);
    pin.put(&memory);
}

pub(super) fn an_exclusive_huge_page_is_reused<F: Format>() {
    let memory = memory();
    let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
    let block = memory.alloc_block(9, Kind::Anon).unwrap();
    let source = Source::Owned(block);
    space
        .map(STRETCH.start, PageSize::Large, source, RW, &())
        .unwrap();
    space
        .copy_range(&child, STRETCH, Mapping::Private, ForkFilter::All, &())
        .unwrap();
    assert_eq!(space.pte(AT, &()).reuse_exclusive(block), Ok(false));
    // One of its frames is still mapped by the child.
    child
        .unmap(STRETCH.start..STRETCH.end - PAGE_SIZE, &())
        .unwrap();
    assert_eq!(space.pte(AT, &()).reuse_exclusive(block), Ok(false));
    drop(child);
    assert_eq!(
        space.pte(AT, &()).reuse_exclusive(block + PAGE_SIZE),
        Err(Error::NotMapped)
    );
    assert_eq!(space.pte(AT, &()).reuse_exclusive(block), Ok(true));
    let page = space.page(AT).unwrap();
    assert!(page.size == PageSize::Large && page.attrs.contains(Attrs::WRITE));
    check(&[&space]).unwrap();
}

pub(super) fn a_fork_skips_restorable_pages<F: Format>() {
    let page = |i: u64| AT + i * PAGE_SIZE;
    for (copy, expected) in [
        (ForkFilter::All, [true; 5]),
        (ForkFilter::SkipCleanFile, [false, true, true, true, true]),
        (ForkFilter::SkipRestorable, [false, true, true, false, true]),
    ] {
        let memory = memory();
        let (parent, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        map_file(&parent, &memory, page(0), CLEAN);
        map_file(&parent, &memory, page(1), RW);
        map_anon(&parent, &memory, page(2));
        let zero = Source::Special(memory.zero_page());
        parent
            .map(page(3), PageSize::Small, zero, CLEAN, &())
            .unwrap();
        parent.set_marker(page(4), Some(3), &()).unwrap();
        parent
            .copy_range(&child, STRETCH, Mapping::Private, copy, &())
            .unwrap();
        let found: [bool; 5] = std::array::from_fn(|i| child.entry(page(i as u64)) != Entry::Empty);
        assert_eq!(found, expected, "{copy:?}");
        check(&[&parent, &child]).unwrap();
    }
}

/// A view notices everything that can replace the table it keeps.
pub(super) fn a_view_sees_what_has_changed<F: Format>() {
    let memory = memory();
    let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
    let mut view = space.view(AT);
    let page = map_anon(&space, &memory, AT);
    map_anon(&space, &memory, AT + PAGE_SIZE);
    assert_eq!(view.translate(AT), Some((page, RW)));
    // The table is shared, and unshared again in either way.
    for leaves in [false, true] {
        let child = PageTables::<F, _>::new(memory.clone(), 3).unwrap();
        space.share_range(&child, STRETCH, &()).unwrap();
        let mut other = child.view(AT);
        for found in [view.translate(AT), other.translate(AT)] {
            let (phys, attrs) = found.unwrap();
            assert!(phys == page && !attrs.contains(Attrs::WRITE));
        }
        child.unmap(AT..AT + PAGE_SIZE, &()).unwrap();
        assert_eq!(other.translate(AT), None);
        if leaves {
            child.unmap(STRETCH, &()).unwrap();
        }
        assert_eq!(space.pte(AT, &()).reuse_exclusive(page), Ok(true));
        assert!(view.translate(AT).unwrap().1.contains(Attrs::WRITE));
    }
    // It is removed, and a huge page is mapped and split.
    space.unmap(STRETCH, &()).unwrap();
    assert_eq!(view.translate(AT), None);
    let block = memory.alloc_block(9, Kind::Anon).unwrap();
    let source = Source::Owned(block);
    space
        .map(STRETCH.start, PageSize::Large, source, RW, &())
        .unwrap();
    assert_eq!(view.translate(AT).unwrap().0, block + PAGE_SIZE);
    space.split(AT, PageSize::Small, &()).unwrap();
    assert_eq!(view.translate(AT).unwrap().0, block + PAGE_SIZE);
    // Moved away and back, and then collapsed.
    let away = 0x10_0000_0000;
    space.move_range(STRETCH.start, away, 2 << 20, &()).unwrap();
    assert_eq!(view.translate(AT), None);
    assert!(view.translate(away).is_some());
    space.move_range(away, STRETCH.start, 2 << 20, &()).unwrap();
    assert_eq!(view.translate(away), None);
    assert!(view.translate(AT).is_some());
    let source = Source::Owned(memory.alloc_block(9, Kind::Anon).unwrap());
    space
        .collapse(STRETCH.start, PageSize::Large, source, RW, &())
        .unwrap();
    assert_eq!(view.translate(AT).unwrap().0, source.phys() + PAGE_SIZE);
    assert_eq!(view.entry(u64::MAX / 2), Entry::Empty);
    check(&[&space, &child]).unwrap();
}

/// Tables at the destination that stay empty in the first part serve the second part.
pub(super) fn a_move_needs_no_more_than_was_preallocated<F: Format>() {
    let memory = memory();
    let space = space::<F>(&memory, 1);
    map_anon(&space, &memory, AT);
    map_anon(&space, &memory, STRETCH.end + PAGE_SIZE);
    let (from, to, len) = (STRETCH.end - 2 * PAGE_SIZE, 0x10_0000_0000, 8 * PAGE_SIZE);
    let mut spare = space.preallocate_move(from, to, len).unwrap();
    memory.backing().refuse_after(Some(0));
    let moved = space.move_range_with(from, to, len, &mut spare, &());
    memory.backing().refuse_after(None);
    moved.unwrap();
    assert!(space.translate(to + 3 * PAGE_SIZE).is_some());
    drop(spare);
    check(&[&space]).unwrap();
}

/// A move needs no tables beyond those that were counted.
pub(super) fn a_move_makes_no_table_where_nothing_comes<F: Format>() {
    let memory = memory();
    let space = space::<F>(&memory, 1);
    let (to, len) = (0x10_0000_0000, 8 * PAGE_SIZE);
    let mut spare = space.preallocate_move(AT, to, len).unwrap();
    // Next to the pages to move, in the same table.
    map_anon(&space, &memory, AT + len);
    memory.backing().refuse_after(Some(0));
    let moved = space.move_range_with(AT, to, len, &mut spare, &());
    memory.backing().refuse_after(None);
    moved.unwrap();
    drop(spare);
    check(&[&space]).unwrap();
}
