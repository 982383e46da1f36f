//! Long random histories against the model, allocations included.

use proptest::prelude::*;

use super::arena::{Arena, check, snapshot, squeeze, storage};
use super::exhaustive::perform;
use super::model::{Call, Model, What};
use crate::{Error, Filter, Flags, Kind, Memblock, NodeId, PhysMap};

const UNITS: usize = 48;
const UNIT: u64 = 0x400;
/// The most calls of a history.
const STEPS: usize = if cfg!(miri) { 12 } else { 120 };
/// The address of the first unit: 0, so that the first page is tested.
const BASE: u64 = 0;
const LAST: u64 = BASE + UNITS as u64 * UNIT;

#[derive(Clone, Copy, Debug)]
struct Request {
    size: u64,
    align: u64,
    start: u64,
    end: u64,
    nid: NodeId,
    exact: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Call(Call),
    Alloc(Request),
    Direction(bool),
    Movable(bool),
    ScratchOnly(bool),
    Trim(u32),
    Cap(u64, u64),
    Limit(u64),
    LimitMap(u64),
}

fn node() -> impl Strategy<Value = NodeId> {
    prop_oneof![Just(NodeId::NONE), Just(NodeId(0)), Just(NodeId(1))]
}

fn call() -> impl Strategy<Value = Step> {
    let memory_flags = prop_oneof![4 => Just(Flags::NONE), 1 => Just(Flags::HOTPLUG), 1 => Just(Flags::DRIVER_MANAGED)];
    let what = prop_oneof![
        6 => (memory_flags, node()).prop_map(|(f, n)| What::Add(Kind::Memory, f, n)),
        4 => node().prop_map(|n| What::Add(Kind::Reserved, Flags::NONE, n)),
        2 => Just(What::Remove(Kind::Memory)),
        4 => Just(What::Remove(Kind::Reserved)),
        2 => (prop_oneof![Just(Kind::Memory), Just(Kind::Reserved)], node()).prop_map(|(k, n)| What::SetNode(k, n)),
        1 => any::<bool>().prop_map(|on| What::Mark(Kind::Memory, Flags::HOTPLUG, on)),
        1 => any::<bool>().prop_map(|on| What::Mark(Kind::Memory, Flags::NOMAP, on)),
        1 => Just(What::Mark(Kind::Memory, Flags::MIRROR, true)),
        2 => any::<bool>().prop_map(|on| What::Mark(Kind::Memory, Flags::KHO_SCRATCH, on)),
        1 => Just(What::Mark(Kind::Reserved, Flags::RSRV_NOINIT, true)),
    ];
    (what, 0..UNITS, 1..16usize).prop_map(|(what, from, len)| {
        Step::Call(Call {
            what,
            from,
            to: (from + len).min(UNITS),
        })
    })
}

fn step() -> impl Strategy<Value = Step> {
    let request = (
        1u64..0x2000,
        0u32..14,
        0u64..LAST,
        0u64..LAST + 0x1000,
        node(),
        any::<bool>(),
    )
        .prop_map(|(size, align, start, end, nid, exact)| {
            // Whole units, since the model has nothing smaller.
            let size = size.next_multiple_of(UNIT);
            Request {
                size,
                align: 1 << align.max(10),
                start: start & !(UNIT - 1),
                end: end & !(UNIT - 1),
                nid,
                exact,
            }
        });
    prop_oneof![
        12 => call(),
        8 => request.prop_map(Step::Alloc),
        1 => any::<bool>().prop_map(Step::Direction),
        1 => any::<bool>().prop_map(Step::Movable),
        1 => any::<bool>().prop_map(Step::ScratchOnly),
        1 => (10u32..14).prop_map(Step::Trim),
        1 => (0..LAST, 0..LAST).prop_map(|(b, s)| Step::Cap(b & !(UNIT - 1), s & !(UNIT - 1))),
        1 => (0..LAST).prop_map(|l| Step::Limit(l & !(UNIT - 1))),
        1 => (0..LAST).prop_map(|l| Step::LimitMap(l & !(UNIT - 1))),
    ]
}

/// Tries the documented order of attempts, each at all addresses.
fn expected(
    model: &Model,
    r: Request,
    bottom_up: bool,
    movable_node: bool,
    mirror: bool,
    scratch_only: bool,
) -> Option<u64> {
    // An upper limit of 0 stands for the current limit, which is not set here.
    let end = if r.end == 0 {
        u64::MAX - 0x10_0000
    } else {
        r.end
    };
    let attempts: &[Flags] = match (scratch_only, mirror) {
        (true, _) => &[Flags::KHO_SCRATCH],
        (false, true) => &[Flags::MIRROR, Flags::NONE],
        (false, false) => &[Flags::NONE],
    };
    for &flags in attempts {
        let any = (r.nid.is_valid() && !r.exact).then_some(NodeId::NONE);
        for nid in [Some(r.nid), any].into_iter().flatten() {
            let filter = Filter {
                nid,
                flags,
                movable_node,
            };
            if let Some(at) = model.find(r.size, r.align, r.start, end, !bottom_up, &filter) {
                return Some(at);
            }
        }
    }
    None
}

struct World<'s, M: PhysMap> {
    m: Memblock<'s, M>,
    model: Model,
    mirror: bool,
    scratch_only: bool,
    /// `true` if the arrays look full at every call.
    squeezed: bool,
    /// The first address of memory that is not in the model.
    beyond: u64,
}

impl<M: PhysMap> World<'_, M> {
    fn keep_memory(&mut self, keep: impl Fn(u64) -> bool, nomap_too: bool) {
        for i in 0..UNITS {
            let at = BASE + i as u64 * UNIT;
            if !keep(at) {
                let nomap = self.model.memory[i].is_some_and(|(f, _)| f.contains(Flags::NOMAP));
                if !(nomap && nomap_too) {
                    self.model.memory[i] = None;
                }
                self.model.reserved[i] = None;
            }
        }
    }

    fn max_addr(&self, limit: u64) -> Option<u64> {
        let mut left = limit;
        for r in self.model.runs(Kind::Memory) {
            if left <= r.size {
                return Some(r.base + left);
            }
            left -= r.size;
        }
        None
    }

    fn step(&mut self, step: Step) {
        if self.squeezed {
            squeeze(&mut self.m);
        }
        let before = snapshot(&self.m);
        match step {
            // Arrays prefer mirrored memory too, and the model's memory is not accessible.
            Step::Call(Call {
                what: What::Mark(_, Flags::MIRROR, true),
                ..
            }) if self.beyond < u64::MAX => {}
            Step::Call(call) => match perform(&mut self.m, call, BASE, UNIT) {
                Ok(()) => {
                    self.model.apply(call);
                    self.mirror |= matches!(call.what, What::Mark(_, Flags::MIRROR, true));
                }
                Err(error) => {
                    assert_eq!(error, Error::ArrayFull);
                    assert!(self.squeezed);
                    assert_eq!(snapshot(&self.m), before);
                }
            },
            Step::Alloc(r) => {
                // Memory outside of the model must not be found.
                let end = if r.end == 0 && self.beyond < u64::MAX {
                    self.beyond.min(LAST + 0x1000)
                } else {
                    r.end
                };
                let r = Request { end, ..r };
                let expected = expected(
                    &self.model,
                    r,
                    self.m.bottom_up(),
                    self.m.movable_node(),
                    self.mirror,
                    self.scratch_only,
                );
                match self
                    .m
                    .alloc_range_nid(r.size, r.align, r.start, r.end, r.nid, r.exact)
                {
                    Ok(at) => {
                        assert_eq!(
                            Some(at),
                            expected,
                            "{r:?}\n{:?}\n{:?}",
                            self.m.memory(),
                            self.m.reserved()
                        );
                        let from = ((at - BASE) / UNIT) as usize;
                        let what = What::Add(Kind::Reserved, Flags::NONE, NodeId::NONE);
                        self.model.apply(Call {
                            what,
                            from,
                            to: from + (r.size / UNIT) as usize,
                        });
                    }
                    Err(Error::ArrayFull) => {
                        assert!(self.squeezed && expected.is_some());
                        assert_eq!(snapshot(&self.m), before);
                    }
                    Err(error) => {
                        assert_eq!((error, expected), (Error::NoMemory, None));
                        assert_eq!(snapshot(&self.m), before);
                    }
                }
            }
            // Upwards, arrays would move into the model's memory, which is not accessible.
            Step::Direction(up) => self.m.set_bottom_up(up && self.beyond == u64::MAX),
            Step::Movable(on) => self.m.set_movable_node(on),
            // The next calls would remove the memory that arrays grow into.
            _ if self.beyond < u64::MAX => {}
            Step::ScratchOnly(on) => {
                self.m.set_kho_scratch_only(on);
                self.scratch_only = on;
            }
            Step::Trim(order) => {
                for r in self.model.runs(Kind::Memory) {
                    let align = 1u64 << order;
                    let whole = r.base.next_multiple_of(align)..r.end() & !(align - 1);
                    for at in (r.base..r.end())
                        .step_by(UNIT as usize)
                        .filter(|at| !whole.contains(at))
                    {
                        self.model.memory[((at - BASE) / UNIT) as usize] = None;
                    }
                }
                self.m.trim_memory(1 << order);
            }
            Step::Cap(base, size) => {
                if size > 0 && self.m.phys_mem_size() > 0 {
                    self.keep_memory(|at| base <= at && at < base + size, true);
                }
                self.m.cap_memory_range(base, size);
            }
            Step::Limit(limit) => {
                if limit > 0
                    && let Some(end) = self.max_addr(limit)
                {
                    self.keep_memory(|at| at < end, false);
                }
                self.m.enforce_memory_limit(limit);
            }
            Step::LimitMap(limit) => {
                // A limit that ends at address 0 caps to an empty range, which changes nothing.
                if let Some(end) = self.max_addr(limit)
                    && end > 0
                {
                    self.keep_memory(|at| at < end, true);
                }
                self.m.mem_limit_remove_map(limit);
            }
        }
        self.compare(step);
    }

    fn compare(&self, step: Step) {
        check(&self.m);
        for kind in [Kind::Memory, Kind::Reserved] {
            let low: Vec<_> = self
                .m
                .regions(kind)
                .iter()
                .copied()
                .filter(|r| r.base < self.beyond)
                .collect();
            assert_eq!(low, self.model.runs(kind), "{kind} after {step:?}");
        }
        // Free and reserved memory together are all memory.
        let everything = Filter::ALL.flags;
        let free = || self.m.free_ranges(NodeId::NONE, everything);
        let taken: u64 = self
            .m
            .memory()
            .iter()
            .flat_map(|a| {
                self.m
                    .reserved()
                    .iter()
                    .map(|b| a.end().min(b.end()).saturating_sub(a.base.max(b.base)))
            })
            .sum();
        assert_eq!(
            free().map(|s| s.end - s.start).sum::<u64>() + taken,
            self.m.phys_mem_size()
        );
        let mut back: Vec<_> = free().rev().collect();
        back.reverse();
        assert!(free().eq(back), "directions differ");
        for (i, unit) in self.model.memory.iter().enumerate() {
            for at in [0, UNIT - 1].map(|o| BASE + i as u64 * UNIT + o) {
                assert_eq!(self.m.is_memory(at), unit.is_some());
                assert_eq!(
                    self.m.is_map_memory(at),
                    unit.is_some_and(|(f, _)| !f.contains(Flags::NOMAP))
                );
                assert_eq!(self.m.is_reserved(at), self.model.reserved[i].is_some());
            }
        }
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 300 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn model() -> Model {
    Model::new(BASE, UNIT, UNITS)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn with_capacity(steps in prop::collection::vec(step(), 1..STEPS)) {
        let mut s = storage::<128>();
        let m = Memblock::new(&mut s);
        let mut world = World { m, model: model(), mirror: false, scratch_only: false, squeezed: false, beyond: u64::MAX };
        steps.into_iter().for_each(|s| world.step(s));
    }

    #[test]
    fn without_growing(steps in prop::collection::vec(step(), 1..STEPS)) {
        let mut s = storage::<128>();
        let m = Memblock::new(&mut s);
        let mut world = World { m, model: model(), mirror: false, scratch_only: false, squeezed: true, beyond: u64::MAX };
        steps.into_iter().for_each(|s| world.step(s));
    }

    #[test]
    fn growing_at_every_call(steps in prop::collection::vec(step(), 1..STEPS)) {
        let arena = Arena::new(0x10_0000, 0x40_000);
        let mut s = storage::<1>();
        let mut m = Memblock::with_map(&mut s, arena.clone());
        m.allow_resize();
        m.add_node(arena.base, arena.size, NodeId(7), Flags::NONE).unwrap();
        let mut world = World { m, model: model(), mirror: false, scratch_only: false, squeezed: true, beyond: arena.base };
        for step in steps {
            world.step(step);
        }
    }
}
