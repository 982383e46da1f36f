//! Address spaces of a trace, as they were when they ended.

use std::collections::BTreeMap;

use samara_mm::AddressSpace;

use super::player::{Player, Replayed};
use crate::record::{Reader, Reason, Record};

/// An address space when the last of its threads left it.
#[derive(Debug)]
pub struct Ended {
    /// The threads that have made calls there.
    pub threads: Vec<i32>,
    /// The engine.
    pub space: AddressSpace,
    /// The number of times that the engine was started again from the kernel's map, after calls that
    /// it does not model.
    pub anew: u32,
    /// `true` if engine and record have agreed since it was started last.
    pub agreed: bool,
}

/// Performs a whole trace. Returns its address spaces in order of creation.
pub fn spaces(reader: &Reader) -> Vec<Ended> {
    let mut player = Player::new(true, false);
    let mut about: BTreeMap<u32, (Vec<i32>, u32)> = BTreeMap::new();
    let mut ended = BTreeMap::new();
    let end = |about: Option<(Vec<i32>, u32)>, replayed: Replayed| {
        let (threads, anew) = about.unwrap_or_default();
        Ended {
            threads,
            space: replayed.checker.into_engine(),
            anew,
            agreed: !replayed.parted,
        }
    };
    for record in &reader.records {
        match record {
            Record::Call { space, thread, .. } | Record::Unmodelled { space, thread, .. } => {
                let (threads, _) = about.entry(*space).or_default();
                if !threads.contains(thread) {
                    threads.push(*thread);
                }
            }
            Record::Seed {
                space,
                reason: Reason::Resync,
                ..
            } => about.entry(*space).or_default().1 += 1,
            Record::Gone { space, .. } => {
                let gone = player
                    .spaces
                    .get_mut(*space as usize)
                    .and_then(Option::take);
                if let Some(replayed) = gone {
                    ended.insert(*space, end(about.remove(space), replayed));
                }
            }
            _ => {}
        }
        player.play(record);
    }
    // These are the spaces of threads that outlive the trace.
    for (space, replayed) in (0..).zip(std::mem::take(&mut player.spaces)) {
        if let Some(replayed) = replayed {
            ended.insert(space, end(about.remove(&space), replayed));
        }
    }
    ended.into_values().collect()
}
