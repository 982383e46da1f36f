//! An allocator of numbers: the lowest free, a block of them, and cyclic as process ids are.

use maple_tree::MapleTree;

#[derive(Debug, PartialEq)]
struct Owner(&'static str);

fn owner(name: &'static str) -> Box<Owner> {
    Box::new(Owner(name))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut ids: MapleTree<u32, Box<Owner>> = MapleTree::with_gaps();
    assert_eq!(ids.alloc_range(1..1000, 1, owner("init"))?, 1);
    assert_eq!(ids.alloc_range(1..1000, 8, owner("a block"))?, 2);
    assert_eq!(ids.alloc_rrange(1..1000, 1, owner("top"))?, 999);

    let mut next = 997;
    assert_eq!(
        ids.alloc_cyclic(1..1000, &mut next, owner("x"))?,
        (997, false)
    );
    assert_eq!(
        ids.alloc_cyclic(1..1000, &mut next, owner("y"))?,
        (998, false)
    );
    // 999 is taken: the search starts over.
    assert_eq!(
        ids.alloc_cyclic(1..1000, &mut next, owner("z"))?,
        (10, true)
    );

    // A refused value comes back.
    let refused = ids
        .alloc_range(2..10, 1, owner("no room"))
        .map_err(|e| *e.into_value());
    assert_eq!(refused, Err(Owner("no room")));
    println!("{ids:?}");
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
