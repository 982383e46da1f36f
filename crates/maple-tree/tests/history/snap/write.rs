//! Writes of one of the maps, some of which meet what is refused.

use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};

use maple_tree::{EraseError, InsertError, Shape, StoreError};

use super::super::index::Index;
use super::value::{End, Frail};
use super::{Family, Member};
use crate::history::{Bytes, small};

/// The result of a call that may fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Yes,
    Refused,
}

impl<K: Index, S: Shape> Family<K, S> {
    /// One write. Some meet nodes, or duplicates of values, that are refused after 0, 1, 2 … until the write succeeds: each failure
    /// changes nothing anywhere.
    pub(super) fn write(&mut self, which: usize, code: u8, bytes: &mut Bytes<'_>) {
        let (range, split) = (bytes.range(self.middle), bytes.byte());
        let number = self.mint.number();
        for granted in 0.. {
            let (live, tokens) = (self.nodes.live(), self.mint.live());
            match code >> 5 {
                1 if self.alone => self.nodes.allow(granted),
                2 if self.alone => self.fuel.allow(granted, End::Refused),
                3 if self.alone => self.fuel.allow(granted, End::Panics),
                _ => {}
            }
            let call = AssertUnwindSafe(|| self.perform(which, code, range, split, number));
            let done = catch_unwind(call).unwrap_or(Done::Refused);
            if self.alone {
                self.nodes.allow(usize::MAX);
                self.fuel.allow(usize::MAX, End::Refused);
            }
            if done == Done::Yes {
                return;
            }
            assert!(matches!(code >> 5, 1..=3) && self.alone);
            assert_eq!((self.nodes.live(), self.mint.live()), (live, tokens));
            self.compare();
        }
    }

    fn perform(
        &mut self,
        which: usize,
        code: u8,
        (first, last): (K, K),
        split: u8,
        number: u32,
    ) -> Done {
        let value = self.value(number);
        let Member { map, model } = &mut self.members[which];
        let range = first..=last;
        let there = model.at(first);
        let whole = there.first..=there.last;
        let splits = model.splits(first, last);
        let above = last.wrapping_add(K::ONE)..=model.at(last).last;
        let may_split = split & 3 != 0;
        let twin = |part: RangeInclusive<K>, frail: &Frail| {
            assert!(splits);
            assert_eq!(part, above);
            may_split.then(|| frail.twin())
        };
        let (done, put) = match code % 32 {
            11..14 => match map.insert_range(range, value) {
                Ok(()) => {
                    assert!(model.is_free(first, last));
                    (Done::Yes, Some((first, last, Some(number))))
                }
                Err(InsertError::Occupied(back)) => {
                    assert_eq!(back.0.token.number, number);
                    assert!(!model.is_free(first, last));
                    (Done::Yes, None)
                }
                Err(InsertError::Alloc(back)) => {
                    assert_eq!(back.0.token.number, number);
                    (Done::Refused, None)
                }
                Err(InsertError::EmptyRange(_)) => panic!("it is not empty"),
            },
            14..18 => match map.store_range(range, value) {
                Ok(()) => (Done::Yes, Some((first, last, Some(number)))),
                Err(StoreError::Alloc(back)) => {
                    assert_eq!(back.0.token.number, number);
                    (Done::Refused, None)
                }
                Err(_) => panic!("it splits by itself"),
            },
            18..20 => match map.store_range_splitting(range, value, twin) {
                Ok(()) => {
                    assert!(may_split || !splits);
                    (Done::Yes, Some((first, last, Some(number))))
                }
                Err(StoreError::Splits(back)) => {
                    assert_eq!(back.0.token.number, number);
                    assert!(splits && !may_split);
                    (Done::Yes, None)
                }
                Err(StoreError::Alloc(back)) => {
                    assert_eq!(back.0.token.number, number);
                    (Done::Refused, None)
                }
                Err(StoreError::EmptyRange(_)) => panic!("it is not empty"),
            },
            20..23 => match map.erase_range(range) {
                Ok(()) => (Done::Yes, Some((first, last, None))),
                Err(EraseError::Alloc) => (Done::Refused, None),
                Err(_) => panic!("it splits by itself"),
            },
            23 => match map.erase_range_splitting(range, twin) {
                Ok(()) => {
                    assert!(may_split || !splits);
                    (Done::Yes, Some((first, last, None)))
                }
                Err(EraseError::Splits) => {
                    assert!(splits && !may_split);
                    (Done::Yes, None)
                }
                Err(EraseError::Alloc) => (Done::Refused, None),
                Err(EraseError::EmptyRange) => panic!("it is not empty"),
            },
            24..27 => match map.remove(first) {
                Ok(Some((range, back))) => {
                    assert_eq!(
                        (range, Some(back.0.token.number)),
                        (whole.clone(), there.number)
                    );
                    (Done::Yes, Some((there.first, there.last, None)))
                }
                Ok(None) => {
                    assert_eq!(there.number, None);
                    (Done::Yes, None)
                }
                Err(_) => (Done::Refused, None),
            },
            27..29 => match map.replace(first, value) {
                Ok(old) => {
                    assert_eq!(Some(old.0.token.number), there.number);
                    (Done::Yes, Some((there.first, there.last, Some(number))))
                }
                Err(back) => {
                    assert_eq!(back.0.token.number, number);
                    // A hole is not told apart from a refusal.
                    let done = if there.number.is_none() {
                        Done::Yes
                    } else {
                        Done::Refused
                    };
                    (done, None)
                }
            },
            29..31 => match map.get_mut(first) {
                Ok(Some(frail)) => {
                    assert_eq!(Some(frail.token.number), there.number);
                    frail.token.number = number;
                    (Done::Yes, Some((there.first, there.last, Some(number))))
                }
                Ok(None) => {
                    assert_eq!(there.number, None);
                    (Done::Yes, None)
                }
                Err(_) => (Done::Refused, None),
            },
            _ => match map.insert(first, value) {
                Ok(()) => {
                    assert_eq!(there.number, None);
                    (Done::Yes, Some((first, first, Some(number))))
                }
                Err(InsertError::Occupied(_)) => {
                    assert!(there.number.is_some());
                    (Done::Yes, None)
                }
                Err(_) => (Done::Refused, None),
            },
        };
        if let Some((first, last, number)) = put {
            model.store(first, last, number);
        }
        done
    }

    /// Some entries in a row, until there is no more memory.
    pub(super) fn extend(&mut self, which: usize, bytes: &mut Bytes<'_>) {
        let (mut at, step, granted) = (bytes.key(self.middle), bytes.byte(), bytes.byte());
        let (size, room) = (small(step & 7), small(step >> 3 & 7));
        let mut planned = Vec::new();
        for _ in 0..bytes.byte() % 40 {
            let Some(last) = at.checked_add(size) else {
                break;
            };
            planned.push((at, last, self.mint.number()));
            let Some(next) = last.checked_add(room).and_then(K::successor) else {
                break;
            };
            at = next;
        }
        let entries: Vec<_> = planned
            .iter()
            .map(|&(first, last, number)| (first..=last, self.value(number)))
            .collect();
        if granted < 16 && self.alone {
            self.nodes.allow(usize::from(granted));
        }
        let Member { map, model } = &mut self.members[which];
        if let Err(error) = map.try_extend(entries) {
            let dry = matches!(error, InsertError::Alloc(_));
            let number = error.into_value().0.token.number;
            let at = planned.iter().position(|p| p.2 == number).unwrap();
            assert!(if dry {
                self.nodes.is_dry()
            } else {
                !model.is_free(planned[at].0, planned[at].1)
            });
            planned.truncate(at);
        }
        for (first, last, number) in planned {
            assert!(model.is_free(first, last));
            model.store(first, last, Some(number));
        }
        if self.alone {
            self.nodes.allow(usize::MAX);
        }
    }
}
