//! A software TLB for emulators: the guest's loads, stores and fetches without a lock and without a walk.
//!
//! [`Vcpus`] is the machine's [`Invalidate`](samara_paging::Invalidate), with a place for each virtual processor. A [`SoftTlb`] is one virtual processor's
//! cache of translations; it belongs to one process and is used by one thread at a time.
//!
//! # Invariants
//!
//! - An entry of a `SoftTlb` is used only within a *section*, [`SoftTlb::run`], and only if no invalidation that concerns it had been asked for when the
//!   section last looked.
//! - An entry that allows stores was made when the page-table entry was marked dirty, and an entry at all when that was marked accessed.
//! - [`Vcpus::invalidate`](samara_paging::Invalidate::invalidate) returns when each virtual processor that runs the address space has answered, or is outside of
//!   its section. Only then are frames given to others.
//!
//! # Protocol
//!
//! ```text
//! a virtual processor, V                        who invalidates, I
//! 1  running = 1; fence                         A  the tables have changed; fence
//! 2  asked != answered: forget, then answered   B  note the ranges in V's place; asked += 1
//! 3  use entries                                C  fence; wait until running == 0
//! 4  again from 2, or 5                            or answered has come to B's number
//! 5  running = 0
//! ```
//!
//! - The fence of 1 before that of C: C finds `running`, and waits until V has answered at 2, or is through 5.
//! - The fence of C before that of 1: 2 finds what B has asked, and V forgets before it uses an entry.
//!
//! A miss is handled outside of the section: a fault may wait for a lock whose holder invalidates. So it is 5, fault and look-up, 1 and 2. The look-up holds the
//! table's lock, and puts the entry down before 1. If the table changed before the look-up, the entry is new. If it changed after, B comes after the look-up. It
//! is either found at 2, which forgets the new entry, too, or C finds `running` and waits for the next 2.
//!
//! `handshake.rs` is the part with the memory ordering; `loom/mm/soft.rs` tries its interleavings.
//!
//! | file | concept |
//! |---|---|
//! | `handshake` | who waits for whom |
//! | `vcpus` | the places of virtual processors, and invalidation |
//! | `entries` | what is remembered of pages, and how it is forgotten |
//! | `tlb` | a virtual processor's, and its misses |
//! | `running` | accesses within a section |
//! | `word` | integers in guest memory |

mod entries;
mod handshake;
mod running;
mod tlb;
mod vcpus;
mod word;

pub use running::Running;
pub use tlb::{SoftTlb, Stop};
pub use vcpus::{TellsVcpus, Vcpus};
pub use word::Word;
