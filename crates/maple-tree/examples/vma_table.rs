//! Areas of an address space: placement from above, unmapping in the middle, a duplicate for a child process.

use maple_tree::MapleTree;

#[derive(Clone, Debug, PartialEq)]
struct Area {
    name: &'static str,
    inherited: bool,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const PAGE: u64 = 4096;
    let mut areas: MapleTree<u64, Box<Area>> = MapleTree::with_gaps();
    let area = |name, inherited| Box::new(Area { name, inherited });

    areas.insert_range(0x40_0000..0x42_0000, area("text", true))?;
    // The highest free place for 16 pages below the stack.
    let bounds = 0x1_0000..0x7fff_0000_0000;
    let heap = areas.alloc_rrange(bounds.clone(), 16 * PAGE, area("heap", true))?;
    let secret = areas.alloc_rrange(bounds, 2 * PAGE, area("secret", false))?;
    assert_eq!(heap, 0x7fff_0000_0000 - 16 * PAGE);
    assert_eq!(secret, heap - 2 * PAGE);

    // A hole in the middle of the heap: the upper part becomes an area of its own.
    areas.erase_range_splitting(heap + 4 * PAGE..heap + 6 * PAGE, |_, whole| {
        Some(Box::new(whole.clone()))
    })?;
    assert_eq!(areas.len(), 4);
    assert_eq!(areas.get(heap + 5 * PAGE), None);

    // The child inherits all areas that are inherited at fork.
    let child = areas
        .try_clone_with(|_, a| Ok(a.inherited.then(|| Box::new(a.clone()))))
        .map_err(|_| "no memory")?;
    assert_eq!(child.len(), 3);
    assert_eq!(child.get(secret), None);

    for (range, area) in &areas {
        println!(
            "{:#014x}-{:#014x} {}",
            range.start(),
            range.end(),
            area.name
        );
    }
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
