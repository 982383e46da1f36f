/// Returns the engine's result in the kernel's form: a value, or minus the error number.
fn answer(space: &mut AddressSpace, call: Call) -> i64 {
    match space.perform(&call) {
        Ok(value) => value as i64,
        Err(errno) => -i64::from(errno.0),
    }
}

/// Takes the highest addresses down to one at which everything is aligned, so that what follows lies equally far from there in each process.
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

