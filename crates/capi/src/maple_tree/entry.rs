//! Reserved entries: words below 4096 with the low bits `10`.

use core::ptr;

/// The words below this one with the low bits `10` are reserved.
const RESERVED_BELOW: usize = 4096;
const INTERNAL_MASK: usize = 0b11;
const INTERNAL: usize = 0b10;

/// `XA_ZERO_ENTRY`: occupies its range, but reads as NULL through the normal functions.
pub(crate) const ZERO: *mut () = ptr::without_provenance_mut(0x406);

/// Returns `true` if the entry reads as NULL through the normal functions.
pub(crate) fn is_zero(entry: *mut ()) -> bool {
    ptr::addr_eq(entry, ZERO)
}

/// Returns `true` if the entry is reserved, so that an allocation never stores it.
pub(crate) fn is_reserved(entry: *mut ()) -> bool {
    entry.addr() < RESERVED_BELOW && entry.addr() & INTERNAL_MASK == INTERNAL
}

/// Returns `true` if only the advanced functions may store the entry. The zero entry is not among
/// these: the normal functions reserve a range with it.
pub(crate) fn is_advanced(entry: *mut ()) -> bool {
    is_reserved(entry) && !is_zero(entry)
}

/// Returns the value that the normal functions read for an entry.
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
