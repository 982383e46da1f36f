//! Names and paths that others chose, as they are printed.
//!
//! A name may have any characters: some command a terminal, others turn the order of what follows
//! round, or are not seen at all, so that one name looks like another. All of these are printed as
//! Rust escapes them, `\n` and `\u{202e}` for example; letters and signs of all scripts stay. JSON
//! has names as they are.

use std::borrow::Cow;

/// Returns a text as one line that shows all of its characters and commands nothing.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '\'' | '"' => out.push(c),
            c if is_invisible(c) => out.extend(c.escape_unicode()),
            // Escapes what no text shows: controls, formats, separators, spaces but the usual one,
            // characters that are none. What combines with a letter before it is shown there, and
            // is escaped only where a text begins with it.
            c => {
                let mut pair = [b'x'; 8];
                let length = c.encode_utf8(&mut pair[1..]).len();
                let pair = std::str::from_utf8(&pair[..=length]).unwrap_or_default();
                out.extend(pair.escape_debug().skip(1));
            }
        }
    }
    Cow::Owned(out)
}

/// Returns `true` for characters that are letters, marks or signs to Unicode, and of which nothing
/// is seen.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_stays() {
        for text in [
            "",
            "/usr/lib/a b-c_1.so (deleted)",
            "Ärger, \u{65}\u{301}té, 日本語, עברית, हिन्दी, emoji 🙂",
            r#"a "quoted" \ path's \x2d"#,
        ] {
            assert_eq!(printable(text), text);
        }
    }

    #[test]
    fn what_commands_or_hides_is_escaped() {
        for (text, printed) in [
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\nb\tc\0", "a\\nb\\tc\\0"),
            ("a\u{202e}txt.exe", "a\\u{202e}txt.exe"),
            ("a\u{9b}b\u{7f}", "a\\u{9b}b\\u{7f}"),
        ] {
            assert_eq!(printable(text), printed);
        }
        let hidden = "\u{ad}\u{61c}\u{115f}\u{1160}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\
            \u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2060}\u{2061}\u{2066}\u{2067}\u{2068}\u{2069}\u{206a}\u{2800}\
            \u{3164}\u{a0}\u{2003}\u{fe0f}\u{feff}\u{ffa0}\u{fff9}\u{1d173}\u{e0001}\u{e0041}\u{e0100}\u{e000}\u{ffff}";
        for c in hidden.chars() {
            let text = format!("a{c}b");
            let printed = format!("a\\u{{{:x}}}b", c as u32);
            assert_eq!(printable(&text), printed);
        }
    }
}
