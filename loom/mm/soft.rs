//! Virtual processors with a soft TLB, and a call that takes their page away and reuses its frame.
//!
//! A virtual processor's TLB is a number here, since its real entries are private to it. The table
//! is a word under a lock. A frame is a plain cell: an access concurrent with the next use of the
//! frame is a race, which the checker finds.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::handshake::Handshake;
use crate::model;

/// The first frame of the page, and the frame to which it moves.
const FIRST: usize = 1;
const SECOND: usize = 2;

struct World {
    /// One handshake for each virtual processor.
    handshakes: [Handshake; 2],
    /// The current frame of the page.
    table: Mutex<usize>,
    frames: [UnsafeCell<usize>; 3],
}

// SAFETY: the checker finds invalid accesses to the frames.
unsafe impl Sync for World {}

/// A virtual processor: its cached translation, and the number of its last answer.
struct Vcpu {
    world: Arc<World>,
    number: usize,
    remembered: Option<usize>,
    answered: u32,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            handshakes: [Handshake::new(), Handshake::new()],
            table: Mutex::new(FIRST),
            frames: [0, 10, 20].map(UnsafeCell::new),
        })
    }

    /// Moves the page to the second frame, and then uses the first.
    fn move_page(&self, vcpus: usize) {
        *self.table.lock().unwrap() = SECOND;
        let asked = &self.handshakes[..vcpus];
        asked.iter().for_each(Handshake::ask);
        asked.iter().for_each(Handshake::wait);
        // SAFETY: no thread reads it any more. Otherwise the checker reports it.
        self.frames[FIRST].with_mut(|frame| unsafe { *frame = 99 });
    }
}

impl Vcpu {
    fn new(world: &Arc<World>, number: usize) -> Self {
        Vcpu {
            world: world.clone(),
            number,
            remembered: None,
            answered: 0,
        }
    }

    fn handshake(&self) -> &Handshake {
        &self.world.handshakes[self.number]
    }

    fn poll(&mut self) {
        let asked = self.handshake().asked();
        if asked != self.answered {
            self.remembered = None;
            self.handshake().answer(asked);
            self.answered = asked;
        }
    }

    /// Performs an access, inside the section.
    fn load(&mut self) -> usize {
        self.poll();
        loop {
            if let Some(frame) = self.remembered {
                // SAFETY: no thread writes to it. Otherwise the checker reports it.
                return self.world.frames[frame].with(|frame| unsafe { *frame });
            }
            self.handshake().leave();
            self.remembered = Some(*self.world.table.lock().unwrap());
            self.handshake().enter();
            self.poll();
        }
    }

    fn run(&mut self, loads: usize) {
        self.handshake().enter();
        self.answered = self.handshake().answered();
        for _ in 0..loads {
            let value = self.load();
            assert!(value == 10 || value == 20, "a stale byte: {value}");
        }
        self.handshake().leave();
    }
}

/// The processor has cached the page before, so that the two sides share nothing but the handshake.
#[test]
fn a_hit_during_a_call() {
    model(|| {
        let world = World::new();
        let mut vcpu = Vcpu::new(&world, 0);
        vcpu.run(1);
        let thread = thread::spawn(move || vcpu.run(2));
        world.move_page(1);
        thread.join().unwrap();
    });
}

#[test]
fn a_miss_during_a_call() {
    model(|| {
        let world = World::new();
        let mut vcpu = Vcpu::new(&world, 0);
        let thread = thread::spawn(move || vcpu.run(2));
        world.move_page(1);
        thread.join().unwrap();
    });
}

#[test]
fn two_sections_during_a_call() {
    model(|| {
        let world = World::new();
        let mut vcpu = Vcpu::new(&world, 0);
        vcpu.run(1);
        let thread = thread::spawn(move || {
            vcpu.run(1);
            vcpu.run(1);
        });
        world.move_page(1);
        thread.join().unwrap();
    });
}

#[test]
fn two_virtual_processors_during_a_call() {
    model(|| {
        let world = World::new();
        let threads = [0, 1].map(|number| {
            let mut vcpu = Vcpu::new(&world, number);
            vcpu.run(1);
            thread::spawn(move || vcpu.run(1))
        });
        world.move_page(2);
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
}

/// Another call invalidates another page, and is answered together with this one.
#[test]
fn a_hit_during_two_calls() {
    model(|| {
        let world = World::new();
        let mut vcpu = Vcpu::new(&world, 0);
        vcpu.run(1);
        let other = world.clone();
        let asking = thread::spawn(move || other.handshakes[0].ask());
        let running = thread::spawn(move || vcpu.run(1));
        world.move_page(1);
        asking.join().unwrap();
        running.join().unwrap();
    });
}
