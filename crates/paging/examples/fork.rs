//! A fork of 64 MiB, by copying the tables and by sharing them: `cargo run --release -p
//! samara-paging --features hosted --example fork`.

use std::error::Error;
use std::time::Instant;

use samara_paging::format::X86_64;
use samara_paging::{
    Arena, Attrs, Entry, Exclusive, ForkFilter, Kind, Mapping, PageSize, PageTables, Physical,
    Source,
};

const PAGES: usize = 16_384;
const START: u64 = 0x10_0000_0000;
const LEN: u64 = PAGES as u64 * 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let arena = Arena::hosted(2 * PAGES)?;
    let (base, frames) = (0x4000_0000, arena.frames());
    // SAFETY: this program has one thread.
    let memory = Physical::new(arena, unsafe { Exclusive::new() }, base, frames)?;

    let parent = PageTables::<X86_64, _>::new(&memory, 1)?;
    let attrs = Attrs::READ | Attrs::WRITE | Attrs::USER | Attrs::ACCESSED | Attrs::DIRTY;
    for i in 0..PAGES as u64 {
        let phys = memory.alloc_page(Kind::Anon)?;
        let page = Source::Owned(phys);
        parent.map(START + i * 4096, PageSize::Small, page, attrs, &())?;
    }

    for share in [false, true] {
        let child = PageTables::<X86_64, _>::new(&memory, 2)?;
        let start = Instant::now();
        let range = START..START + LEN;
        if share {
            parent.share_range(&child, range, &())?;
        } else {
            parent.copy_range(&child, range, Mapping::Private, ForkFilter::All, &())?;
        }
        println!(
            "{} {PAGES} pages: {:?}, {} tables, {} of them shared",
            if share { "sharing" } else { "copying" },
            start.elapsed(),
            memory.table_frames(),
            memory.shared_tables()
        );

        // The child writes to one page, as its fault handler would.
        let Entry::Page {
            phys, attrs: now, ..
        } = child.entry(START)
        else {
            return Err("nothing was copied".into());
        };
        assert!(!now.contains(Attrs::WRITE));
        if !child.pte(START, &()).reuse_exclusive(phys)? {
            let copy = memory.alloc_page(Kind::Anon)?;
            // SAFETY: two frames of 4 KiB. Nothing else uses the second one.
            unsafe {
                let (from, to) = (memory.to_virt(phys), memory.to_virt(copy));
                from.copy_to_nonoverlapping(to, 4096);
            }
            child
                .pte(START, &())
                .replace(phys, Source::Owned(copy), attrs)?;
        }
        assert_ne!(child.translate(START), parent.translate(START));
    }
    Ok(())
}
