//! Texts of steps in little room: most differ from another in their numbers only.

use std::collections::HashMap;

/// Stands for a number that is printed in decimal digits.
pub(super) const DECIMAL: char = '\u{1}';
/// Stands for one that is printed in hexadecimal digits behind `0x`.
pub(super) const HEXADECIMAL: char = '\u{2}';
/// Larger numbers stay text: a browser's are exact up to here.
const LARGEST: u64 = 1 << 53;

/// A text: its form, and where its numbers are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text {
    pub(super) form: u32,
    from: usize,
    until: usize,
}

/// All texts.
#[derive(Debug, Default)]
pub(super) struct Texts {
    by_form: HashMap<String, u32>,
    forms: Vec<String>,
    numbers: Vec<u64>,
}

impl Texts {
    pub(super) fn add(&mut self, text: &str) -> Text {
        let from = self.numbers.len();
        let form = self.split(text);
        let number = match self.by_form.get(&form) {
            Some(&number) => number,
            None => {
                let number = self.forms.len() as u32;
                self.forms.push(form.clone());
                self.by_form.insert(form, number);
                number
            }
        };
        Text {
            form: number,
            from,
            until: self.numbers.len(),
        }
    }

    /// Returns the form of a text, whose numbers are kept.
    fn split(&mut self, text: &str) -> String {
        let mut form = String::with_capacity(text.len());
        let mut rest = text;
        let mut within_word = false;
        while let Some(first) = rest.chars().next() {
            if !within_word && let Some((number, mark, length)) = number(rest) {
                self.numbers.push(number);
                form.push(mark);
                rest = &rest[length..];
                within_word = true;
                continue;
            }
            within_word = first.is_alphanumeric() || first == '_';
            // The marks themselves are no part of what programs write into names that anybody reads.
            form.push(match first {
                DECIMAL | HEXADECIMAL => char::REPLACEMENT_CHARACTER,
                first => first,
            });
            rest = &rest[first.len_utf8()..];
        }
        form
    }

    pub(super) fn forms(&self) -> &[String] {
        &self.forms
    }

    pub(super) fn numbers(&self, text: Text) -> &[u64] {
        self.numbers.get(text.from..text.until).unwrap_or_default()
    }

    /// Returns the text again, as the page makes it.
    #[cfg(test)]
    pub(super) fn show(&self, text: Text) -> String {
        let mut numbers = self.numbers(text).iter();
        let mut out = String::new();
        for c in self.forms[text.form as usize].chars() {
            match (c, numbers.as_slice().first()) {
                (DECIMAL, Some(number)) => out += &number.to_string(),
                (HEXADECIMAL, Some(number)) => out += &format!("{number:#x}"),
                _ => {
                    out.push(c);
                    continue;
                }
            }
            numbers.next();
        }
        out
    }
}

/// Returns the number at the start of a text, if it would be printed the same way again: its value,
/// its mark, its length in bytes.
fn number(text: &str) -> Option<(u64, char, usize)> {
    let (digits, radix, mark, prefix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16, HEXADECIMAL, 2),
        None => (text, 10, DECIMAL, 0),
    };
    let length = digits
        .bytes()
        .take_while(|b| (*b as char).is_digit(radix) && !b.is_ascii_uppercase())
        .count();
    let shown = &digits[..length];
    if shown.len() > 1 && shown.starts_with('0') {
        return None;
    }
    let value = u64::from_str_radix(shown, radix).ok()?;
    (value < LARGEST).then_some((value, mark, prefix + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_out_as_they_went_in() {
        let mut texts = Texts::default();
        let all = [
            "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, </lib/libc.so.6>, 0x1000) = 0x7f0000001000",
            "mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, </lib/libc.so.6>, 0x0) = 0x7f0000003000",
            "munmap(0xffffffffffffffff, 18446744073709551615) = -1 EINVAL (Invalid argument)",
            "x86 a0x10 007 0x007 0X10 0xAB 0x 9007199254740991 9007199254740992 é1",
            "",
        ];
        let kept: Vec<Text> = all.iter().map(|text| texts.add(text)).collect();
        for (text, kept) in all.iter().zip(&kept) {
            assert_eq!(texts.show(*kept), *text);
        }
        assert_eq!(kept[0].form, kept[1].form);
        assert_eq!(texts.forms().len(), 4);
    }

    #[test]
    fn marks_in_names_are_no_marks() {
        let mut texts = Texts::default();
        let kept = texts.add("a\u{1}b\u{2} 5");
        assert_eq!(texts.show(kept), "a\u{fffd}b\u{fffd} 5");
    }
}
