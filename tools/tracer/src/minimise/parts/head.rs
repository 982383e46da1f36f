/// Returns the engine's answer in the kernel's form: a value, or minus the error number.
fn answer(space: &mut AddressSpace, call: Call) -> i64 {
    match space.perform(&call) {
        Ok(value) => value as i64,
        Err(errno) => -i64::from(errno.0),
    }
}

/// Fills the highest addresses down to a fully aligned one. So each address below has the same
/// distance from it in each process.
fn put_fence(space: &mut AddressSpace) -> i64 {
    const WIDE: u64 = 1 << 30;
    let room = |addr, len, flags| Call::Mmap {
        addr,
        len,
        prot: 0,
        flags,
        file: FileArg::None,
        offset: 0,
    };
    let start = answer(space, room(0, WIDE, 0x4021)) as u64;
    let fence = start & !(WIDE - 1);
    if fence < start {
        answer(space, room(fence, start - fence, 0x4031));
    }
    fence as i64
}

