//! Operations of a fault handler, a page cache and a fork on one page or a few, in every format.
#![allow(clippy::unwrap_used, clippy::panic)]

mod filling;
mod shared;
mod single;
mod taking;

use std::sync::Arc;

use samara_paging::format::{Aarch64, Sv39, Sv48, X86_64, X86_64La57};
use samara_paging::{
    Arena, Attrs, Change, Entry, Error, ForkFilter, Format, Grace, HeapBytes, Kind, Mapping,
    PAGE_SIZE, PageFilter, PageSize, PageTables, Physical, Source, UnmapFilter, WritePolicy, check,
};

type Memory = Arc<Physical<Arena<HeapBytes>, Grace>>;
type Space<F> = PageTables<F, Memory>;

const RW: Attrs = Attrs::READ
    .union(Attrs::WRITE)
    .union(Attrs::USER)
    .union(Attrs::ACCESSED)
    .union(Attrs::DIRTY);
const CLEAN: Attrs = Attrs::READ.union(Attrs::USER).union(Attrs::ACCESSED);
/// The second page of a 2 MiB region.
const AT: u64 = 0x4000_1000;
const STRETCH: std::ops::Range<u64> = 0x4000_0000..0x4020_0000;

fn memory() -> Memory {
    let frames = 2048;
    let arena = Arena::on_heap(frames).unwrap();
    Arc::new(Physical::new(arena, Grace::new(), 1 << 30, frames as u64).unwrap())
}

fn space<F: Format>(memory: &Memory, asid: u32) -> Space<F> {
    PageTables::new(memory.clone(), asid).unwrap()
}

fn map_anon<F: Format>(space: &Space<F>, memory: &Memory, addr: u64) -> u64 {
    let phys = memory.alloc_page(Kind::Anon).unwrap();
    let source = Source::Owned(phys);
    space.map(addr, PageSize::Small, source, RW, &()).unwrap();
    phys
}

/// Maps a page of a page cache, which keeps its reference.
fn map_file<F: Format>(space: &Space<F>, memory: &Memory, addr: u64, attrs: Attrs) -> u64 {
    let phys = memory.alloc_page(Kind::File).unwrap();
    let source = Source::Counted(phys);
    space
        .map(addr, PageSize::Small, source, attrs, &())
        .unwrap();
    phys
}

fn told<F: Format>(space: &Space<F>, take: UnmapFilter) -> Vec<(u64, Entry)> {
    let mut told = Vec::new();
    let seen = |addr, entry| told.push((addr, entry));
    space.unmap_with(STRETCH, take, &(), seen).unwrap();
    told
}

/// Runs each test of each module in every format.
macro_rules! every_format {
    ($($room:ident { $($name:ident)* })*) => {
        $($(
            #[test]
            fn $name() {
                $room::$name::<X86_64>();
                if !cfg!(miri) {
                    $room::$name::<Sv39>();
                    $room::$name::<X86_64La57>();
                    $room::$name::<Aarch64>();
                    $room::$name::<Sv48>();
                }
            }
        )*)*
    };
}

every_format! {
    shared {
        each_user_of_a_shared_table_reports_its_pages
        nothing_is_stored_through_a_shared_table
        pages_leave_shared_tables_without_memory
    }
    taking {
        a_hole_leaves_private_copies_and_markers
        markers_survive_a_discard
        pageout_drops_only_reclaimable_pages
        cold_advice_skips_pages_mapped_elsewhere
        cleaning_reports_dirty_pages
        frames_come_back_in_any_order
    }
    filling {
        filling_passes_over_what_is_there
        filling_stops_at_an_error
        new_frames_fill_what_is_empty
    }
    single {
        a_page_is_allowed_only_where_it_still_is
        a_referenced_page_is_not_exclusive
        a_copy_may_come_too_late
        an_access_sets_the_bits_that_a_processor_sets
        an_exclusive_huge_page_is_reused
        a_fork_skips_restorable_pages
        a_view_sees_what_has_changed
        a_move_needs_no_more_than_was_preallocated
        a_move_makes_no_table_where_nothing_comes
    }
}
