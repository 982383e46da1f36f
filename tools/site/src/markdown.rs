//! Markdown as pages of the site.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::place;

const STYLE: &str = include_str!("../pages/site.css");
/// The address of project files that are not pages of the site.
const REPOSITORY: &str = "https://github.com/samara-mm/samara/blob/main/";

/// A page, ready to be framed.
pub(crate) struct Page {
    pub(crate) title: String,
    body: String,
    /// The number of folders above it.
    depth: usize,
}

impl Page {
    /// Renders the Markdown of `source`. Links to other sources lead to their pages, those to other files of the project to its repository.
    pub(crate) fn render(
        text: &str,
        source: &str,
        root: &Path,
        sources: &BTreeSet<String>,
    ) -> Result<Self, String> {
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        let mut events: Vec<Event<'_>> = Parser::new_ext(text, options).collect();
        let mut title = String::new();
        for at in 0..events.len() {
            let words = match &events[at] {
                Event::Start(Tag::Heading { .. }) => heading(&events[at + 1..]),
                _ => String::new(),
            };
            match &mut events[at] {
                Event::Start(Tag::Heading { id, .. }) => {
                    if title.is_empty() {
                        title.clone_from(&words);
                    }
                    *id = Some(anchor(&words).into());
                }
                Event::Start(Tag::Link { dest_url, .. }) => {
                    *dest_url = link(dest_url, source, root, sources)?.into();
                }
                Event::Start(Tag::Image { dest_url, .. }) => {
                    let target = within(source, dest_url);
                    if !root.join(&target).is_file() {
                        return Err(format!("{source} shows {dest_url}, which is not there"));
                    }
                }
                _ => {}
            }
        }
        let mut body = String::new();
        html::push_html(&mut body, events.into_iter());
        Ok(Self {
            title,
            body,
            depth: source.matches('/').count(),
        })
    }

    pub(crate) fn html(&self, menu: &[(&str, &str)]) -> String {
        frame(&self.title, &self.body, self.depth, menu)
    }
}

/// Returns a page that lists others.
pub(crate) fn contents(pages: &[(String, String)], menu: &[(&str, &str)]) -> String {
    let mut body = "<h1>Guides and notes</h1>\n<ul>\n".to_owned();
    for (place, title) in pages {
        // Writing to a string cannot fail.
        let _ = writeln!(
            body,
            "<li><a href=\"{}\">{}</a></li>",
            escaped(place),
            escaped(title)
        );
    }
    frame("Guides and notes", &(body + "</ul>\n"), 0, menu)
}

fn frame(title: &str, body: &str, depth: usize, menu: &[(&str, &str)]) -> String {
    let up = "../".repeat(depth);
    let mut links = String::new();
    for (name, to) in menu {
        // Writing to a string cannot fail.
        let _ = write!(links, "<a href=\"{up}{to}\">{name}</a>");
    }
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <nav aria-label=\"Site\">{links}</nav>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Returns the words of a heading, of which these are the events behind its start.
fn heading(events: &[Event<'_>]) -> String {
    let mut words = String::new();
    for event in events {
        match event {
            Event::End(TagEnd::Heading(_)) => break,
            Event::Text(text) | Event::Code(text) => words += text,
            _ => {}
        }
    }
    words
}

/// Returns the name by which a heading is linked to, as GitHub makes it.
fn anchor(words: &str) -> String {
    words
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

fn link(
    to: &CowStr<'_>,
    source: &str,
    root: &Path,
    sources: &BTreeSet<String>,
) -> Result<String, String> {
    if to.starts_with('#') || to.contains("://") || to.starts_with("mailto:") {
        return Ok(to.to_string());
    }
    let (path, part) = to
        .split_once('#')
        .map_or((&**to, ""), |(path, part)| (path, part));
    let part = if part.is_empty() {
        String::new()
    } else {
        format!("#{part}")
    };
    let target = within(source, path);
    if sources.contains(&target) {
        let up = "../".repeat(source.matches('/').count());
        return Ok(up + &place(&target) + &part);
    }
    if root.join(&target).exists() {
        return Ok(format!("{REPOSITORY}{target}{part}"));
    }
    Err(format!("{source} links to {to}, which is not there"))
}

/// Returns the place within the project of what a source names by a relative path.
fn within(source: &str, path: &str) -> String {
    let mut parts: Vec<&str> = source.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_or_to_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources: BTreeSet<String> = ["README.md", "docs/guides/from-linux.md"]
            .map(str::to_owned)
            .into();
        let link = |to: &'static str, source| link(&to.into(), source, &root, &sources);
        let here = "docs/guides/from-linux.md";
        assert_eq!(
            link("../../README.md#how", here).unwrap(),
            "../../index.html#how"
        );
        assert_eq!(
            link("docs/guides/from-linux.md", "README.md").unwrap(),
            "docs/guides/from-linux.html"
        );
        assert_eq!(
            link("../../Cargo.toml", here).unwrap(),
            "https://github.com/samara-mm/samara/blob/main/Cargo.toml"
        );
        assert_eq!(link("#part", here).unwrap(), "#part");
        assert_eq!(
            link("https://a.example/", here).unwrap(),
            "https://a.example/"
        );
        assert!(link("missing.md", here).is_err());
    }

    #[test]
    fn headings_can_be_linked_to() {
        assert_eq!(anchor("How fast it is (`a_b`)"), "how-fast-it-is-a_b");
        let page = Page::render("# A `b` & c\n", "x.md", Path::new("."), &BTreeSet::new()).unwrap();
        assert_eq!(page.title, "A b & c");
        assert!(page.html(&[]).contains("<h1 id=\"a-b--c\">"));
    }
}
