//! A machine monitor's bus: every access finds its device without a lock, while devices are plugged in and out.

use maple_tree::{Reader, SyncMapleTree, Waiting};

struct Device {
    name: &'static str,
    base: u64,
}

type Bus = SyncMapleTree<u64, Box<Device>, Waiting>;

static BUS: Bus = SyncMapleTree::with_gaps(Waiting::new());

fn access(
    bus: &Reader<'_, u64, Box<Device>, Waiting>,
    address: u64,
) -> Option<(&'static str, u64)> {
    bus.get(address)
        .map(|device| (device.name, address - device.base))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plug = |name, base: u64, size: u64| {
        BUS.write()
            .insert_range(base..base + size, Box::new(Device { name, base }))
    };
    plug("uart", 0x1000_0000, 0x100)?;
    plug("virtio", 0x1000_1000, 0x1000)?;
    assert!(plug("clash", 0x1000_0080, 0x10).is_err());

    std::thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..1000 {
                let bus = BUS.read();
                assert_eq!(access(&bus, 0x1000_0004), Some(("uart", 4)));
                let found = access(&bus, 0x2000_0000);
                assert!(found.is_none() || found == Some(("disk", 0)));
            }
        });
        s.spawn(|| {
            for _ in 0..100 {
                assert!(plug("disk", 0x2000_0000, 0x1000).is_ok());
                // Waits for readers, then drops the device.
                assert!(BUS.write().remove(0x2000_0000).is_ok());
            }
        });
    });
    println!(
        "{BUS:#x?}",
        BUS = BUS.read().get(0x1000_1010).map(|d| d.name)
    );
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
