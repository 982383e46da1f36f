//! A tree in a `static` of a kernel with RCU of its own: readers count themselves per CPU, writers wait for a grace period.
//! (Here CPUs are threads.)

use std::sync::atomic::{AtomicUsize, Ordering, fence};

use maple_tree::{Reclaim, SyncMapleTree};

/// One counter for each CPU; a reader only touches its own.
struct KernelRcu;

#[repr(align(64))]
struct PerCpu(AtomicUsize);

static READERS: [PerCpu; 4] = [const { PerCpu(AtomicUsize::new(0)) }; 4];

fn this_cpu() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static CPU: usize = NEXT.fetch_add(1, Ordering::Relaxed) % READERS.len();
    }
    CPU.with(|cpu| *cpu)
}

struct Section(&'static AtomicUsize);

impl Drop for Section {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

// SAFETY: a reader adds itself, then comes its fence. `published` has a fence and then sees each counter at zero: either the reader's
// fence came first, and it has left, or the writer's came first, and the reader sees what was published.
unsafe impl Reclaim for KernelRcu {
    type Guard<'a> = Section;

    fn enter(&self) -> Section {
        let counter = &READERS[this_cpu()].0;
        counter.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Section(counter)
    }

    fn published(&self) {
        fence(Ordering::SeqCst);
        for cpu in &READERS {
            while cpu.0.load(Ordering::Acquire) != 0 {
                std::thread::yield_now();
            }
        }
    }

    unsafe fn retire<F: FnOnce() + Send + 'static>(&self, free: F) {
        free();
    }
}

/// The handler of an interrupt.
#[derive(Debug)]
struct Handler {
    name: &'static str,
}

static IRQS: SyncMapleTree<u32, Box<Handler>, KernelRcu> = SyncMapleTree::new(KernelRcu);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    IRQS.write()
        .insert_range(0..16, Box::new(Handler { name: "legacy" }))?;
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                for i in 0..1000 {
                    assert!(IRQS.read().get(i % 16).is_some());
                }
            });
        }
        s.spawn(|| {
            for i in 0..100 {
                let name = if i % 2 == 0 { "pic" } else { "apic" };
                let stored = IRQS.write().store_range(0..16, Box::new(Handler { name }));
                assert!(stored.is_ok());
            }
        });
    });
    println!("{:?}", IRQS.read().get(3).map(|handler| handler.name));
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
