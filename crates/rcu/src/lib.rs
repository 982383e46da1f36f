#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]

extern crate alloc;
#[cfg(feature = "user")]
extern crate std;

/// Declares constructors that are `const`. The model checker's atomics have no `const`
/// constructors, so that these are plain functions under the checker.
///
/// For the packages of this workspace.
#[doc(hidden)]
#[macro_export]
macro_rules! const_unless_loom {
    ($($(#[$meta:meta])* $vis:vis const fn $name:ident($($given:tt)*) -> $made:ty $body:block)*) => {$(
        #[cfg(not(samara_loom))]
        $(#[$meta])* $vis const fn $name($($given)*) -> $made $body
        #[cfg(samara_loom)]
        $(#[$meta])* $vis fn $name($($given)*) -> $made $body
    )*};
}

mod atomic;
mod callback;
#[cfg(feature = "epoch")]
mod epoch;
mod reclaim;
mod try_box;
#[cfg(all(feature = "user", target_has_atomic = "64"))]
mod user;
mod waiting;

#[cfg(feature = "epoch")]
pub use epoch::Epoch;
pub use reclaim::Reclaim;
#[doc(hidden)]
pub use try_box::try_box_uninit;
#[cfg(all(feature = "user", target_has_atomic = "64"))]
pub use user::{RcuGuard, UserRcu};
pub use waiting::{Waiting, WaitingGuard};
