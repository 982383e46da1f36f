//! Extents of a file: logical blocks to where they are on the disk. Writes in the middle of an extent split it.

use maple_tree::MapleTree;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Extent {
    /// Logical block that `disk` belongs to.
    logical: u64,
    disk: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut file: MapleTree<u64, Box<Extent>> = MapleTree::new();
    let write = |file: &mut MapleTree<u64, Box<Extent>>, at: u64, blocks: u64, disk: u64| {
        // Both parts of a split extent keep their reference point, so that the copy is exact.
        file.store_range_splitting(
            at..at + blocks,
            Box::new(Extent { logical: at, disk }),
            |_, whole| Some(Box::new(*whole)),
        )
    };
    write(&mut file, 0, 100, 5000)?;
    write(&mut file, 40, 10, 9000)?;
    let map = |file: &MapleTree<u64, Box<Extent>>, block: u64| {
        file.get(block).map(|e| e.disk + (block - e.logical))
    };
    assert_eq!(map(&file, 39), Some(5039));
    assert_eq!(map(&file, 45), Some(9005));
    assert_eq!(map(&file, 50), Some(5050));
    assert_eq!(map(&file, 100), None);

    // Truncation, and the first hole.
    file.erase_range(60..)?;
    assert_eq!(file.hole_at(60), Some(60..=u64::MAX));
    for (blocks, extent) in &file {
        println!(
            "{blocks:?} -> {}",
            extent.disk + (blocks.start() - extent.logical)
        );
    }
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
