//! A software TLB for emulators: the guest's loads, stores and fetches, without a lock and without
//! a walk.
//!
//! [`Vcpus`] is the machine's [`Invalidate`](samara_paging::Invalidate), with a slot for each
//! virtual processor. A [`SoftTlb`] is the translation cache of one virtual processor. It belongs
//! to one process, and one thread uses it at a time.
//!
//! # Invariants
//!
//! - An entry of a `SoftTlb` is used only within a *section*, [`SoftTlb::run`], and only if no
//!   invalidation of it was requested before the last check in the section.
//! - An entry is made only after the page-table entry was marked accessed. An entry that allows
//!   stores is made only after that was marked dirty.
//! - [`Vcpus::invalidate`](samara_paging::Invalidate::invalidate) returns when each virtual
//!   processor that runs the address space has answered, or is outside of its section. Only then
//!   are frames reused.
//!
//! # Protocol
//!
//! ```text
//! a virtual processor, V                        an invalidating thread, I
//! 1  running = 1; fence                         A  the tables have changed; fence
//! 2  asked != answered: forget, then answered   B  add the ranges to V's slot; asked += 1
//! 3  use entries                                C  fence; wait until running == 0
//! 4  again from 2, or 5                            or answered has come to B's number
//! 5  running = 0
//! ```
//!
//! - The fence of 1 before that of C: C finds `running`, and waits until V has answered at 2, or
//!   has passed 5.
//! - The fence of C before that of 1: 2 finds B's request, and V forgets before it uses an entry.
//!
//! A miss is handled outside of the section, because a fault may wait for a lock whose holder
//! invalidates. So a miss is 5, fault and look-up, 1 and 2. The look-up holds the table's lock, and
//! the entry is written before 1. If the table changed before the look-up, the entry is new. If it
//! changed after, B comes after the look-up. Then 2 finds the request and forgets the new entry,
//! too, or C finds `running` and waits for the next 2.
//!
//! `handshake.rs` is the part with the memory ordering. `loom/mm/soft.rs` tries its interleavings.
//!
//! | file | concept |
//! |---|---|
//! | `handshake` | the words of the protocol |
//! | `vcpus` | the slots of virtual processors, and invalidation |
//! | `entries` | the cached translations |
//! | `tlb` | a virtual processor's TLB, and its misses |
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
