//! Performs a recorded trace on the engine, without the program.

mod ended;
mod player;
mod unknown;

use samara_mm::AddressSpace;

use crate::record::{Reader, Record};

pub use ended::Ended;
pub use ended::spaces;
pub use player::{Player, Watcher};

/// Returns the address space that performed call number `call`, counted over all of them, in its
/// state before the next call. Call 0 stands for the start of the program.
///
/// # Errors
/// The number of calls, if there are fewer.
pub fn after(reader: &Reader, call: u64) -> Result<AddressSpace, u64> {
    let mut player = Player::new(true, false);
    let mut of = 0;
    let mut found = false;
    for record in &reader.records {
        match record {
            Record::Call { .. } | Record::Unmodelled { .. } | Record::Gone { .. } if found => break,
            Record::Fork { .. } | Record::Seed { .. } if found && call > 0 => break,
            _ => {}
        }
        let before = player.calls;
        player.play(record);
        if let Record::Call { space, .. } = record
            && player.calls > before
        {
            of = *space;
        }
        found = player.calls == call && (call > 0 || !player.spaces.is_empty());
    }
    let replayed = player.spaces.get_mut(of as usize).and_then(Option::take);
    match replayed.filter(|_| found) {
        Some(replayed) => Ok(replayed.checker.into_engine()),
        None => Err(player.calls),
    }
}

/// Returns the number of a call, the last one if none is given, and the address space that
/// performed it, in its state afterwards.
///
/// # Errors
/// The number of calls, if there are fewer or there is no address space after that one.
pub fn at(reader: &Reader, call: Option<u64>) -> Result<(u64, AddressSpace), u64> {
    let call = match call {
        Some(call) => call,
        None => match after(reader, u64::MAX) {
            Err(last) => last,
            Ok(_) => u64::MAX,
        },
    };
    after(reader, call).map(|space| (call, space))
}

/// Returns the program that was traced, and its arguments.
pub fn words(reader: &Reader) -> Vec<String> {
    let words = reader.description["program"].as_array();
    words
        .into_iter()
        .flatten()
        .map(|word| word.as_str().unwrap_or_default().to_owned())
        .collect()
}
