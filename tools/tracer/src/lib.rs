#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

pub mod kernel;
pub mod minimise;
pub mod quantity;
pub mod record;
pub mod replay;
mod shortest;
pub mod streams;
pub mod tell;
pub mod trace;
pub mod vm_flags;
