//! The playground in one file: HTML, style, scripts and the tree's WebAssembly.

use crate::inline::{base64, fill};

const PAGE: &str = include_str!("../playground/page/playground.html");
const STYLE: &str = include_str!("../playground/page/playground.css");
const SCRIPTS: [&str; 4] = [
    include_str!("../playground/page/tree.js"),
    include_str!("../playground/page/draw.js"),
    include_str!("../playground/page/examples.js"),
    include_str!("../playground/page/playground.js"),
];

/// Returns the page.
pub(crate) fn page(wasm: &[u8]) -> Vec<u8> {
    fill(
        PAGE,
        &[
            ("/* STYLE */", &[STYLE]),
            ("WASM", &[&base64(wasm)]),
            ("/* SCRIPT */", &SCRIPTS),
        ],
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_once_and_filled() {
        for mark in ["/* STYLE */", "WASM", "/* SCRIPT */"] {
            assert_eq!(PAGE.matches(mark).count(), 1, "{mark}");
        }
        let page = String::from_utf8(page(b"\0asm")).unwrap_or_default();
        assert!(page.contains(">AGFzbQ==</script>"));
        for outside in ["src=", "href=", "url(", "@import", "fetch("] {
            assert!(!page.contains(outside), "{outside}");
        }
        for script in SCRIPTS {
            assert!(!script.contains("</script") && !script.contains("<!--"));
        }
    }
}
