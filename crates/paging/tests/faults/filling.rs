//! Mapping at empty addresses.

use super::*;

pub(super) fn filling_passes_over_what_is_there<F: Format>() {
    let memory = memory();
    let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
    let own = map_anon(&space, &memory, AT);
    space.set_marker(AT + PAGE_SIZE, Some(1), &()).unwrap();
    let block = memory.alloc_block(9, Kind::Anon).unwrap();
    let source = Source::Owned(block);
    space
        .map(STRETCH.end, PageSize::Large, source, RW, &())
        .unwrap();
    space.share_range(&child, STRETCH, &()).unwrap();
    let (mut pages, mut asked) = (Vec::new(), Vec::new());
    // From the page before, across the huge page, into the region after it.
    let after = STRETCH.end + (2 << 20);
    let mapped = space.populate(AT - PAGE_SIZE..after + PAGE_SIZE, RW, &(), |addr| {
        asked.push(addr);
        if addr > AT && addr < after {
            return Ok(None);
        }
        let page = memory.alloc_page(Kind::Anon)?;
        pages.push(page);
        Ok(Some(Source::Owned(page)))
    });
    assert_eq!(mapped, Ok(2));
    assert_eq!(asked.len(), 511);
    assert!(asked.is_sorted() && !asked.contains(&AT));
    assert_eq!(space.translate(AT - PAGE_SIZE).unwrap().0, pages[0]);
    assert_eq!(space.translate(AT).unwrap().0, own);
    assert_eq!(space.translate(after).unwrap().0, pages[1]);
    assert_eq!(child.entry(AT - PAGE_SIZE), Entry::Empty);
    // Nothing is mapped, and no table is left.
    let tables = memory.table_frames();
    let far = 0x10_0000_0000;
    let nothing = space.populate(far..far + (4 << 20), RW, &(), |_| Ok(None));
    assert_eq!((nothing, memory.table_frames()), (Ok(0), tables));
    check(&[&space, &child]).unwrap();
}

pub(super) fn filling_stops_at_an_error<F: Format>() {
    let memory = memory();
    let space = space::<F>(&memory, 1);
    let mut left = 3;
    let result = space.populate(STRETCH, RW, &(), |_| {
        if left == 0 {
            return Err(Error::NoMemory);
        }
        left -= 1;
        memory
            .alloc_page(Kind::Anon)
            .map(|page| Some(Source::Owned(page)))
    });
    assert_eq!(result, Err(Error::NoMemory));
    assert!(space.translate(AT + PAGE_SIZE).is_some());
    assert!(space.translate(AT + 2 * PAGE_SIZE).is_none());
    check(&[&space]).unwrap();
    // An owned frame that cannot be mapped is freed.
    let free = memory.backing().free_frames();
    let result = space.populate(AT + 2 * PAGE_SIZE..STRETCH.end, RW, &(), |_| {
        Ok(Some(Source::Special(1)))
    });
    assert_eq!(result, Err(Error::Misaligned));
    assert_eq!(memory.backing().free_frames(), free);
}

pub(super) fn new_frames_fill_what_is_empty<F: Format>() {
    let memory = memory();
    let (space, child) = (space::<F>(&memory, 1), space::<F>(&memory, 2));
    let there = map_anon(&space, &memory, AT + PAGE_SIZE);
    space.set_marker(AT + 2 * PAGE_SIZE, Some(7), &()).unwrap();
    space.share_range(&child, STRETCH, &()).unwrap();
    // The frames hold bytes of earlier users.
    let mut frames = [0; 64];
    assert_eq!(memory.alloc_pages(Kind::Anon, &mut frames), 64);
    for &phys in &frames {
        // SAFETY: the test's own frame.
        unsafe { memory.to_virt(phys).write_bytes(0xee, PAGE_SIZE as usize) };
        memory.put(phys);
    }
    assert_eq!(memory.alloc_zeroed_pages(Kind::Anon, &mut frames), 64);
    for &phys in &frames {
        // SAFETY: as above.
        let bytes = unsafe { memory.to_virt(phys).cast::<[u8; 4096]>().as_ref() };
        assert!(bytes.iter().all(|&byte| byte == 0));
    }
    // Fewer empty addresses than frames: two of eight are used. The other side's table does not
    // change.
    let range = AT..AT + 8 * PAGE_SIZE;
    let (mapped, result) = space.populate_owned(range.clone(), RW, &(), &frames[..8]);
    assert_eq!((mapped, result), (6, Ok(())));
    let found: Vec<_> = (range.clone().step_by(PAGE_SIZE as usize))
        .filter_map(|page| Some(space.translate(page)?.0))
        .collect();
    assert_eq!(
        found,
        [
            frames[0], there, frames[1], frames[2], frames[3], frames[4], frames[5]
        ]
    );
    assert_eq!(space.entry(AT + 2 * PAGE_SIZE), Entry::Marker(7));
    assert_eq!(child.translate(AT), None);
    let (_, attrs) = space.translate(AT).unwrap();
    assert!(attrs.contains(RW));
    // Fewer frames than empty addresses, across the end of a table; then a frame that is
    // misaligned.
    let far = STRETCH.end - 2 * PAGE_SIZE..STRETCH.end + 20 * PAGE_SIZE;
    let (mapped, result) = space.populate_owned(far, RW, &(), &frames[6..14]);
    assert_eq!((mapped, result), (8, Ok(())));
    let odd = [frames[14], frames[15] + 1];
    let end = STRETCH.end + 100 * PAGE_SIZE;
    let (mapped, result) = space.populate_owned(end..end + 2 * PAGE_SIZE, RW, &(), &odd);
    assert_eq!((mapped, result), (1, Err(Error::Misaligned)));
    // Without memory for a table, no trace of the attempt is left.
    memory.backing().refuse_after(Some(1));
    let nowhere = 0x10_0000_0000;
    let range = nowhere..nowhere + 4 * PAGE_SIZE;
    let (mapped, result) = space.populate_owned(range, RW, &(), &frames[15..19]);
    assert_eq!((mapped, result), (0, Err(Error::NoMemory)));
    memory.backing().refuse_after(None);
    frames[15..].iter().for_each(|&phys| memory.put(phys));
    check(&[&space, &child]).unwrap();
}
