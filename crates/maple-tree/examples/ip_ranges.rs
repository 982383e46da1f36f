//! Networks by address: 32 bits and 128 bits wide, more specific ones over less specific ones.

use std::net::{Ipv4Addr, Ipv6Addr};

use maple_tree::MapleTree;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Values are numbers of networks, stored in place on machines of any width.
    let mut v4: MapleTree<u32, u16> = MapleTree::new();
    let net = |a: u8, b: u8, bits: u32| {
        let first = u32::from(Ipv4Addr::new(a, b, 0, 0));
        first..=first | (u32::MAX >> bits)
    };
    v4.store_range(net(10, 0, 8), 1)?;
    v4.store_range_splitting(net(10, 7, 16), 2, |_, outer| Some(outer))?;
    assert_eq!(v4.get(Ipv4Addr::new(10, 6, 0, 1).into()), Some(1));
    assert_eq!(v4.get(Ipv4Addr::new(10, 7, 0, 1).into()), Some(2));
    assert_eq!(v4.get(Ipv4Addr::new(10, 8, 0, 1).into()), Some(1));

    let mut v6: MapleTree<u128, u16> = MapleTree::new();
    let doc = u128::from("2001:db8::".parse::<Ipv6Addr>()?);
    v6.insert_range(doc..=doc | (u128::MAX >> 32), 3)?;
    v6.insert(u128::MAX, 4)?;
    assert_eq!(v6.get("2001:db8:1::1".parse::<Ipv6Addr>()?.into()), Some(3));
    assert_eq!(v6.get(u128::MAX), Some(4));
    println!("{v4:?}\n{v6:?}");
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
