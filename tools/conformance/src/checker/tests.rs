//! Histories that only alternatives explain.

use super::*;
use samara_linux::maps::{self, Map};
use samara_mm::{FileArg, Layout, SeedVma, VmFlags};
use std::num::NonZeroU32;

mod ends;
mod found;
mod races;
mod unknown;

const FIXED: u64 = 0x32;

fn mmap(addr: u64, len: u64, flags: u64) -> Call {
    Call::Mmap {
        addr,
        len,
        prot: 3,
        flags,
        file: FileArg::None,
        offset: 0,
    }
}

fn protect(addr: u64, len: u64, prot: u64) -> Call {
    Call::Mprotect {
        addr,
        len,
        prot,
        pkey: -1,
    }
}

fn read_only(addr: u64) -> Call {
    protect(addr, 0x1000, 1)
}

fn unmap(addr: u64, len: u64) -> Call {
    Call::Munmap { addr, len }
}

/// A call, what the kernel returned, and what was found written before and while it was under way.
type Step<'a> = (Call, i64, &'a [Range], Option<&'a [Range]>);

fn follow(calls: &[Step<'_>]) -> Checker {
    let engine =
        AddressSpace::new(Config::default(), Limits::default(), Layout::default()).unwrap();
    let mut checker = Checker::new(engine, false);
    for (call, returned, before, after) in calls {
        let evidence = Evidence {
            before,
            after: *after,
        };
        let (verdict, own) =
            checker.perform(call, *returned, evidence, &mut Listed(evidence.before));
        assert_eq!((verdict, own), (Verdict::Agrees, *returned), "{call:?}");
    }
    checker
}

fn kernel(lines: &[&str]) -> Map {
    let mut map = Map::default();
    map.refill::<maps::BadLine>(|text| {
        for line in lines {
            text.extend_from_slice(format!("{line} 00000000 00:00 0\n").as_bytes());
        }
        Ok(())
    })
    .unwrap();
    map
}
