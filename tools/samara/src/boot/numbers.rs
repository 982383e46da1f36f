//! Numbers on the command line.

/// `base .. base + size`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) base: u64,
    pub(super) size: u64,
}

/// An allocation to try.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) size: u64,
    pub(super) align: u64,
}

fn hex(text: &str) -> Result<u64, String> {
    let digits = text.trim().trim_start_matches("0x");
    u64::from_str_radix(digits, 16).map_err(|_| format!("`{text}` is no hexadecimal address"))
}

/// Parses an address: hexadecimal, with or without `0x`.
pub(super) fn address(text: &str) -> Result<u64, String> {
    hex(text)
}

/// Parses a size: decimal or `0x…`, with K, M, G or T for powers of 1024.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, shift) = match text.char_indices().last() {
        Some((i, 'k' | 'K')) => (&text[..i], 10),
        Some((i, 'm' | 'M')) => (&text[..i], 20),
        Some((i, 'g' | 'G')) => (&text[..i], 30),
        Some((i, 't' | 'T')) => (&text[..i], 40),
        _ => (text, 0),
    };
    let number = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    let number = number.map_err(|_| {
        format!("`{text}` is no size: give a number, with K, M, G or T if you like")
    })?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("`{text}` is too large"))
}

/// `A-B` with B the last address, or `A+SIZE`.
pub(super) fn range(text: &str) -> Result<Range, String> {
    if let Some((base, length)) = text.split_once('+') {
        return Ok(Range {
            base: hex(base)?,
            size: size(length)?,
        });
    }
    let (first, last) = text
        .split_once('-')
        .ok_or("give the first and the last address as A-B, or A+SIZE")?;
    let (base, last) = (hex(first)?, hex(last)?);
    let distance = last
        .checked_sub(base)
        .ok_or_else(|| format!("{last:#x} lies before {base:#x}"))?;
    Ok(Range {
        base,
        size: distance.saturating_add(1),
    })
}

/// `SIZE,ALIGN`.
pub(super) fn request(text: &str) -> Result<Request, String> {
    let (length, align) = text
        .split_once(',')
        .ok_or("give size and alignment as SIZE,ALIGN")?;
    let (size, align) = (size(length)?, size(align)?);
    if size == 0 {
        return Err("the size is 0".to_owned());
    }
    if !align.is_power_of_two() {
        return Err(format!("the alignment {align} is not a power of two"));
    }
    Ok(Request { size, align })
}

/// Returns a size for people: in the largest unit that leaves at most two decimals.
pub(super) fn human(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = if bytes == 0 {
        0
    } else {
        (bytes.ilog2() / 10) as usize
    };
    let value = bytes as f64 / (1u64 << (10 * unit)) as f64;
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let pair = |text| range(text).map(|r| (r.base, r.size)).ok();
        assert_eq!(pair("1000-1fff"), Some((0x1000, 0x1000)));
        assert_eq!(pair("0x1000+4K"), Some((0x1000, 0x1000)));
        assert_eq!(pair("0-ffffffffffffffff"), Some((0, u64::MAX)));
        for bad in ["", "-", "1000", "2000-1000", "x-y", "10+", "10+1Q"] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn requests() {
        let pair = |text| request(text).map(|r| (r.size, r.align)).ok();
        assert_eq!(pair("2M,4096"), Some((2 << 20, 4096)));
        assert_eq!(pair("0x10,1"), Some((16, 1)));
        for bad in [
            "1",
            "0,1",
            "1,0",
            "1,3",
            "99999999999T,1",
            "é,1",
            ",",
            "1,é",
        ] {
            assert!(request(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_for_people() {
        let all = [0, 1, 1536, 1 << 20, u64::MAX].map(human);
        assert_eq!(all, ["0 B", "1 B", "1.5 KiB", "1 MiB", "16 EiB"]);
    }
}
