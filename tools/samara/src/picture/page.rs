//! The page: HTML, style and scripts of their own files, and the data, in one file that needs no other.

use super::encode::encode;
use super::film::Film;
use super::inline::{self, base64};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPTS: [&str; 6] = [
    include_str!("page/data.js"),
    include_str!("page/axis.js"),
    include_str!("page/canvas.js"),
    include_str!("page/list.js"),
    include_str!("page/export.js"),
    include_str!("page/page.js"),
];

/// Returns the whole page. Nothing that a program chose is in it as text: see
/// [`encode`](super::encode).
pub(super) fn page(film: &Film) -> String {
    fill(&base64(&encode(film)))
}

fn fill(data: &str) -> String {
    inline::fill(
        PAGE,
        &[
            ("/* STYLE */", &[STYLE]),
            ("DATA", &[data]),
            ("/* SCRIPT */", &SCRIPTS),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_filled_and_refers_to_nothing_outside() {
        let page = fill("QUJD");
        for mark in ["/* STYLE */", "DATA", "/* SCRIPT */"] {
            assert_eq!(PAGE.matches(mark).count(), 1, "{mark}");
            assert!(!page.contains(mark), "{mark}");
        }
        assert!(page.contains(">QUJD</script>"));
        for outside in [
            "src=",
            "href=\"http",
            "url(",
            "@import",
            "fetch(",
            "XMLHttp",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
        // The scripts themselves must not end their element.
        for script in SCRIPTS {
            assert!(!script.contains("</script") && !script.contains("<!--"));
        }
    }

    #[test]
    fn nothing_that_a_program_chose_is_text_of_the_page() {
        let hostile = "</script><script>alert(1)</script>".to_owned();
        let film = Film::new(&[hostile], "<img onerror=x>");
        let page = page(&film);
        assert!(!page.contains("alert(1)") && !page.contains("onerror"));
    }
}
