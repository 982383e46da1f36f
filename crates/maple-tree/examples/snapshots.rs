//! The areas of a process as a debugger keeps them: a checkpoint at each stop, each O(1), to look back at and to go back to.

use maple_tree::CowMapleTree;

const PAGE: u64 = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut areas: CowMapleTree<u64, &'static &'static str> = CowMapleTree::with_gaps();
    let mut checkpoints = Vec::new();

    areas.insert_range(0x40_0000..0x42_0000, &"text")?;
    areas.insert_range(0x60_0000..0x64_0000, &"heap")?;
    for i in 0..500 {
        let first = 0x7f00_0000_0000 + i * 8 * PAGE;
        areas.insert_range(first..first + 4 * PAGE, &"library")?;
    }
    checkpoints.push(areas.snapshot());

    // The program goes on: it unmaps a part of the heap, and maps a file where there is room.
    areas.erase_range(0x61_0000..0x62_0000)?;
    let file = areas
        .gap_up(0x10_0000.., 16 * PAGE)
        .ok_or("no room for the file")?;
    areas.insert_range(file..file + 16 * PAGE, &"file")?;
    checkpoints.push(areas.snapshot());

    // A thread examines the first checkpoint while the program overwrites what it holds now.
    std::thread::scope(|scope| {
        let first = &checkpoints[0];
        let examined = scope.spawn(move || first.iter().filter(|(_, v)| **v == "library").count());
        for i in 0..500 {
            let first = 0x7f00_0000_0000 + i * 8 * PAGE;
            areas.store_range(first..first + PAGE, &"patched")?;
        }
        assert_eq!(examined.join().map_err(|_| "the examiner failed")?, 500);
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    assert_eq!(areas.get(0x7f00_0000_0000), Some(&"patched"));

    // What the two checkpoints have in common is there once.
    let sharing = checkpoints[0].sharing();
    println!(
        "first checkpoint: {} nodes, {} of them shared with the second",
        sharing.own + sharing.shared,
        sharing.shared
    );

    // Back to the second checkpoint, which stays to be gone back to again.
    areas = checkpoints[1].snapshot();
    assert_eq!(areas.get(0x7f00_0000_0000), Some(&"library"));
    assert_eq!(areas.get(0x61_0000), None);
    assert_eq!(checkpoints[0].get(0x61_0000), Some(&"heap"));
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
