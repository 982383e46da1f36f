//! Unmapping, and cleaning of pages.

use super::*;

pub(super) fn a_hole_leaves_private_copies_and_markers<F: Format>() {
    for share in [false, true] {
        let memory = memory();
        let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        map_file(&space, &memory, AT, CLEAN);
        let copy = map_anon(&space, &memory, AT + PAGE_SIZE);
        space.set_marker(AT + 2 * PAGE_SIZE, Some(7), &()).unwrap();
        if share {
            space.share_range(&child, STRETCH, &()).unwrap();
        }
        assert_eq!(told(&space, UnmapFilter::FilePages).len(), 1);
        assert_eq!(space.entry(AT), Entry::Empty);
        assert_eq!(space.translate(AT + PAGE_SIZE).unwrap().0, copy);
        assert_eq!(space.entry(AT + 2 * PAGE_SIZE), Entry::Marker(7));
        assert_eq!(child.translate(AT).is_some(), share);
        // No page matches any more: a shared table stays shared.
        let tables = memory.table_frames();
        assert_eq!(told(&space, UnmapFilter::FilePages), []);
        assert_eq!(memory.table_frames(), tables);
        check(&[&space, &child]).unwrap();
    }
}

pub(super) fn markers_survive_a_discard<F: Format>() {
    for share in [false, true] {
        let memory = memory();
        let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
        map_anon(&space, &memory, AT);
        space.set_marker(AT + PAGE_SIZE, Some(7), &()).unwrap();
        if share {
            space.share_range(&child, STRETCH, &()).unwrap();
        }
        assert_eq!(told(&space, UnmapFilter::Pages).len(), 1);
        assert_eq!(space.entry(AT), Entry::Empty);
        assert_eq!(space.entry(AT + PAGE_SIZE), Entry::Marker(7));
        assert_eq!(told(&space, UnmapFilter::All).len(), 1);
        check(&[&space, &child]).unwrap();
    }
}

pub(super) fn pageout_drops_only_reclaimable_pages<F: Format>() {
    let memory = memory();
    let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
    let clean = Change::without(Attrs::WRITE | Attrs::DIRTY | Attrs::ACCESSED);
    let page = |n: u64| AT + n * PAGE_SIZE;
    for n in 0..3 {
        map_anon(&space, &memory, page(n));
    }
    map_file(&space, &memory, page(3), RW);
    let zero = Source::Special(memory.zero_page());
    space
        .map(page(4), PageSize::Small, zero, CLEAN, &())
        .unwrap();
    space.set_marker(page(5), Some(7), &()).unwrap();
    space.protect(page(0)..page(2), clean, &()).unwrap();
    // A page that was written again is dirty again.
    let second = space.translate(page(1)).unwrap().0;
    assert!(space.access(page(1), Attrs::WRITE, |_| ()).is_err());
    assert!(space.pte(page(1), &()).reuse_exclusive(second).unwrap());
    // A sharer of the table still has all of its pages.
    space.share_range(&child, STRETCH, &()).unwrap();
    let tables = memory.table_frames();
    assert_eq!(told(&space, UnmapFilter::Reclaimable), []);
    assert_eq!(memory.table_frames(), tables);
    child.unmap(STRETCH, &()).unwrap();
    let gone: Vec<u64> = told(&space, UnmapFilter::Reclaimable)
        .iter()
        .map(|told| told.0)
        .collect();
    assert_eq!(gone, [page(0), page(3)]);
    // So does an address space that copied it.
    space.protect(page(1)..page(3), clean, &()).unwrap();
    space
        .copy_range(&child, STRETCH, Mapping::Private, ForkFilter::All, &())
        .unwrap();
    assert_eq!(told(&space, UnmapFilter::Reclaimable), []);
    child.unmap(page(1)..page(2), &()).unwrap();
    assert_eq!(told(&space, UnmapFilter::Reclaimable).len(), 1);
    check(&[&space, &child]).unwrap();
}

pub(super) fn cold_advice_skips_pages_mapped_elsewhere<F: Format>() {
    let memory = memory();
    let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
    let cold = Change::without(Attrs::ACCESSED).filter(PageFilter::Exclusive);
    let used = |addr| {
        let (_, attrs) = space.translate(addr).unwrap();
        attrs.contains(Attrs::ACCESSED)
    };
    map_anon(&space, &memory, AT);
    map_anon(&space, &memory, AT + PAGE_SIZE);
    space.share_range(&child, STRETCH, &()).unwrap();
    space.protect(STRETCH, cold, &()).unwrap();
    assert!(used(AT));
    assert_eq!(memory.shared_tables(), 1);
    child.unmap(STRETCH, &()).unwrap();
    space
        .copy_range(
            &child,
            AT..AT + PAGE_SIZE,
            Mapping::Private,
            ForkFilter::All,
            &(),
        )
        .unwrap();
    space.protect(STRETCH, cold, &()).unwrap();
    assert!(used(AT) && !used(AT + PAGE_SIZE));
    check(&[&space, &child]).unwrap();
}

pub(super) fn cleaning_reports_dirty_pages<F: Format>() {
    let memory = memory();
    let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
    let dirty = map_file(&space, &memory, AT, RW);
    map_file(&space, &memory, AT + PAGE_SIZE, CLEAN);
    space.share_range(&child, STRETCH, &()).unwrap();
    let mut told = Vec::new();
    let change = Change::without(Attrs::WRITE | Attrs::DIRTY);
    let mut clean = |space: &Space<F>| {
        space
            .protect_with(STRETCH, change, &(), |addr, before| {
                told.push((addr, before))
            })
            .unwrap();
        told.len()
    };
    assert_eq!(clean(&space), 1);
    assert_eq!(clean(&space), 1);
    // The other side has dirty bits of its own for the same pages.
    assert_eq!(clean(&child), 2);
    for (addr, before) in told {
        let Entry::Page { phys, attrs, .. } = before else {
            panic!("{before:?}")
        };
        assert!((addr, phys) == (AT, dirty) && attrs.contains(Attrs::DIRTY));
    }
    check(&[&space, &child]).unwrap();
}

/// Runs of unreferenced frames: ascending, descending and scattered, of single frames and of parts
/// of blocks.
pub(super) fn frames_come_back_in_any_order<F: Format>() {
    let memory = memory();
    let space = space::<F>(&memory, 1);
    let free = memory.backing().free_frames();
    let block = memory.alloc_block(9, Kind::Anon).unwrap();
    let mut sources: Vec<_> = (0..512)
        .map(|i| Source::Owned(block + i * PAGE_SIZE))
        .collect();
    sources.extend((0..500).map(|_| Source::Owned(memory.alloc_page(Kind::Anon).unwrap())));
    let steps: &[usize] = if cfg!(miri) {
        &[1, 255]
    } else {
        &[1, 1011, 5, 255]
    };
    for &step in steps {
        let order: Vec<_> = (0..1012).map(|i| sources[i * step % 1012]).collect();
        // Each mapping takes over a reference, and one more is kept.
        for source in &order {
            memory.get(source.phys()).unwrap();
        }
        space.map_pages(AT, &order, RW, &()).unwrap();
        if step != 255 {
            space.unmap(AT..AT + 1012 * PAGE_SIZE, &()).unwrap();
        }
    }
    for source in sources.iter().skip(1) {
        memory.put(source.phys());
    }
    check(&[&space]).unwrap();
    space.unmap(AT..AT + 1012 * PAGE_SIZE, &()).unwrap();
    // The block waits for its first frame.
    assert_eq!(memory.backing().free_frames(), free - 512);
    memory.put(block);
    assert_eq!(memory.backing().free_frames(), free);
    let again = memory.alloc_block(9, Kind::Anon).unwrap();
    memory.put_block(again, 9);
}
