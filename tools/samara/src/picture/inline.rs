//! One file out of several: HTML with marks, what takes their places, and bytes as base64.
//!
//! The generator of the project's site has this file as a module, too.

/// Puts texts in the places of marks. Each mark is looked for behind the one before, so that nothing that is filled in is taken for a mark.
pub(crate) fn fill(page: &str, marks: &[(&str, &[&str])]) -> String {
    let mut out = String::new();
    let mut rest = page;
    for (mark, texts) in marks {
        let (before, behind) = rest.split_once(mark).unwrap_or((rest, ""));
        out.push_str(before);
        out.extend(texts.iter().copied());
        rest = behind;
    }
    out + rest
}

/// Base64 with padding, as `atob` reads it.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            if digit <= three.len() {
                out.push(char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_is_no_mark() {
        assert_eq!(
            fill("<A B>", &[("A", &["B", "A"]), ("B", &["c"])]),
            "<BA c>"
        );
        assert_eq!(fill("<B A>", &[("A", &["a"]), ("B", &["b"])]), "<B a>b");
    }

    #[test]
    fn base64_is_that_of_its_rfc() {
        let known = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in known {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
