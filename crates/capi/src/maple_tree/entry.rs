//! Entries that are set apart by their low bits: `…10`, below 4096.

use core::ptr;

/// The words below this one with the low bits `10` are reserved.
const RESERVED_BELOW: usize = 4096;
const INTERNAL_MASK: usize = 0b11;
const INTERNAL: usize = 0b10;

/// `XA_ZERO_ENTRY`: holds its place, but reads as NULL through the normal functions.
pub(crate) const ZERO: *mut () = ptr::without_provenance_mut(0x406);

/// Whether the entry reads as NULL through the normal functions.
pub(crate) fn is_zero(entry: *mut ()) -> bool {
    ptr::addr_eq(entry, ZERO)
}

/// Whether the entry is one of the reserved ones, which an allocation never stores.
pub(crate) fn is_reserved(entry: *mut ()) -> bool {
    entry.addr() < RESERVED_BELOW && entry.addr() & INTERNAL_MASK == INTERNAL
}

/// Whether the entry is for the advanced functions only. The zero entry is not: it is how a place is reserved by the normal
/// ones.
pub(crate) fn is_advanced(entry: *mut ()) -> bool {
    is_reserved(entry) && !is_zero(entry)
}

/// What the normal functions show of an entry.
pub(crate) fn shown(entry: *mut ()) -> *mut () {
    if is_zero(entry) {
        ptr::null_mut()
    } else {
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(addr: usize) -> *mut () {
        ptr::without_provenance_mut(addr)
    }

    #[test]
    fn reserved_words_have_low_bits_10_below_4096() {
        assert!(is_reserved(at(2)) && is_reserved(at(4094)) && is_reserved(ZERO));
        for addr in [0, 1, 3, 4, 4096, 4098, usize::MAX - 1] {
            assert!(!is_reserved(at(addr)), "{addr}");
        }
        assert!(is_advanced(at(0x402)) && !is_advanced(ZERO));
    }
}
