//! The modules of the library that need nothing else, with their own tests. Compiling the whole
//! library a second time for its tests would take half a minute.

#![allow(dead_code, unreachable_pub, reason = "the rest of the library uses it")]

#[path = "../src/mm/activity.rs"]
mod activity;
#[path = "../src/maple_tree/entry.rs"]
mod entry;
#[path = "../src/maple_tree/lock.rs"]
mod lock;
