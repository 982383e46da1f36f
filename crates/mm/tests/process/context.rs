//! A platform that runs processes on processors of its own: it is handed whom to interrupt, and told of each end.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use samara_mm::abi::{PROT_READ, PROT_WRITE};
use samara_mm::process::{ForkMode, HostLock, Machine, Platform, Process};
use samara_mm::{Call, Config, Layout, Limits};
use samara_paging::{
    Arena, Changed, Context, Format, Grace, HeapBytes, Invalidate, Physical,
    format::{Aarch64, Sv39, X86_64},
};

use crate::countdown::{LEFT, spared};
use crate::world::{BASE, PAGE, anonymous};

struct Numbered<F>(PhantomData<F>);

impl<F: Format> Platform for Numbered<F> {
    type Format = F;
    type Backing = Arena<HeapBytes>;
    type Reclaim = Grace;
    type Tlb = Processors;
    type Mutex = HostLock;
    type RwLock = HostLock;
}

/// By number: which processors were told to forget, and how often the end was told.
#[derive(Default)]
struct Processors {
    forget: Mutex<Vec<(u32, u64)>>,
    ended: Mutex<BTreeMap<u32, u32>>,
    /// Numbers and ranges of what has become valid.
    entered: Mutex<Vec<(u32, Range<u64>)>>,
}

impl Invalidate for Processors {
    fn invalidate(&self, context: &Context, _: &[Range<u64>], _: Changed) {
        let told = (context.asid(), context.cpus().load(Relaxed));
        spared(|| self.forget.lock().unwrap().push(told));
    }

    fn notify_mapped(&self, context: &Context, range: Range<u64>, _executable: bool) {
        spared(|| self.entered.lock().unwrap().push((context.asid(), range)));
    }

    fn ended(&self, context: &Context) {
        spared(|| {
            *self
                .ended
                .lock()
                .unwrap()
                .entry(context.asid())
                .or_default() += 1
        });
    }
}

impl Processors {
    fn ends(&self) -> Vec<(u32, u32)> {
        let ended = self.ended.lock().unwrap();
        ended.iter().map(|(&asid, &count)| (asid, count)).collect()
    }
}

fn machine<F: Format>() -> Machine<Numbered<F>> {
    let arena = Arena::on_heap(512).unwrap();
    let base = Arena::<HeapBytes>::BASE;
    let physical = Physical::new(arena, Grace::new(), base, 512).unwrap();
    let start = F::kernel_start();
    let ranges = [start..start + PAGE, u64::MAX - 1..u64::MAX];
    Machine::with_kernel(physical, Processors::default(), &ranges).unwrap()
}

fn process<F: Format>(machine: &Machine<Numbered<F>>) -> Process<Numbered<F>> {
    let (config, limits, layout) = (Config::default(), Limits::default(), Layout::default());
    let process = Process::new(machine, config, limits, layout).unwrap();
    process
        .perform(&anonymous(BASE, 4, PROT_READ | PROT_WRITE))
        .unwrap();
    assert_eq!(process.copy_in(BASE, b"bytes"), 5);
    process
}

#[test]
fn processors_that_run_a_process_are_told_to_forget() {
    let machine = machine::<X86_64>();
    let (first, second) = (process(&machine), process(&machine));
    first.context().cpus().store(0b1, Relaxed);
    second.context().cpus().store(0b110, Relaxed);
    let forgotten = || std::mem::take(&mut *machine.tlb().forget.lock().unwrap());
    assert_eq!(forgotten(), []);
    let (addr, len) = (BASE, PAGE);
    second.perform(&Call::Munmap { addr, len }).unwrap();
    assert_eq!(forgotten(), [(second.asid(), 0b110)]);
    for mode in [ForkMode::Copy, ForkMode::Share] {
        let child = first.fork(mode).unwrap();
        assert_eq!(forgotten(), [(first.asid(), 0b1)]);
        assert_eq!(child.context().cpus().load(Relaxed), 0);
        // Both come to have their own.
        assert_eq!(first.copy_in(BASE, b"new"), 3);
        assert!(forgotten().iter().all(|&told| told == (first.asid(), 0b1)));
        drop(child);
        assert_eq!(first.copy_in(BASE, b"own"), 3);
        forgotten();
    }
}

#[test]
fn each_end_is_told_once_whatever_fails() {
    let machine = machine::<X86_64>();
    let parent = process(&machine);
    let mut expected = Vec::new();
    for mode in [ForkMode::Copy, ForkMode::Share] {
        for frames in [true, false] {
            let mut left = 0;
            let child = loop {
                let arena = machine.physical().backing();
                match frames {
                    true => arena.refuse_after(Some(left)),
                    false => LEFT.set(Some(left as u32)),
                }
                let child = parent.fork(mode);
                arena.refuse_after(None);
                LEFT.set(None);
                if let Ok(child) = child {
                    break child;
                }
                // There was a root, which has ended, or there was none yet.
                let ends = machine.tlb().ends();
                if ends.len() > expected.len() {
                    let &(asid, _) = ends.last().unwrap();
                    assert!(expected.iter().all(|&(other, _)| other < asid));
                    expected.push((asid, 1));
                }
                assert_eq!(ends, expected);
                left += 1;
                assert!(left < 100);
            };
            assert_eq!(machine.tlb().ends(), expected);
            expected.push((child.asid(), 1));
            drop(child);
            assert_eq!(machine.tlb().ends(), expected);
        }
    }
    assert!(expected.len() > 8, "{expected:?}");
    let asid = parent.asid();
    parent.exit().unwrap();
    expected.insert(0, (asid, 1));
    assert_eq!(machine.tlb().ends(), expected);
}

/// Each page that a fault or a fork makes accessible, before it returns.
fn faults_and_forks<F: Format>() {
    let machine = machine::<F>();
    let parent = process(&machine);
    let tlb = machine.tlb();
    let entered = |asid: u32, addr: u64| {
        let told = std::mem::take(&mut *tlb.entered.lock().unwrap());
        assert_eq!(told.is_empty(), !F::NOTIFIES_MAPPED);
        let is_told =
            |(number, range): &(u32, Range<u64>)| *number == asid && range.contains(&addr);
        assert_eq!(told.iter().any(is_told), F::NOTIFIES_MAPPED, "{told:x?}");
    };
    entered(parent.asid(), BASE);
    for mode in [ForkMode::Copy, ForkMode::Share] {
        let child = parent.fork(mode).unwrap();
        entered(child.asid(), BASE);
        assert_eq!(child.copy_in(BASE, b"own"), 3);
        entered(child.asid(), BASE);
        // A read of a page that was never written: the page of zeroes.
        let mut byte = [1];
        assert_eq!(child.copy_out(BASE + PAGE, &mut byte), 1);
        entered(child.asid(), BASE + PAGE);
    }
}

#[test]
fn faults_and_forks_tell_of_what_has_become_valid() {
    faults_and_forks::<Aarch64>();
    faults_and_forks::<Sv39>();
    faults_and_forks::<X86_64>();
}
