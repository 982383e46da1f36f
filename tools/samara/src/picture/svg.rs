//! The drawing for papers: the busiest address space of a recording, addresses upwards, its steps across.

use std::fmt::Write as _;

use samara_conformance::names::printable;

use super::bands::{Band, bands};
use super::encode::{Lives, OneLife};
use super::film::{Film, Look};
use crate::kind::Kind;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 620.0;
/// The left edge of the picture itself: names are at the left, and the title is above.
const LEFT: f64 = 170.0;
const TOP: f64 = 46.0;
const RIGHT: f64 = 12.0;
/// The most characters of the name of a band.
const LABEL: usize = 24;
/// For numbers of steps.
const BELOW: f64 = 26.0;

/// Colours that people with any colour vision tell apart (Okabe and Ito, and three more), by the numbers of kinds; the page has the same.
const COLOURS: [(u8, u8, u8); Kind::ALL.len()] = [
    (0x00, 0x72, 0xb2),
    (0x56, 0xb4, 0xe9),
    (0xe6, 0x9f, 0x00),
    (0xd5, 0x5e, 0x00),
    (0x7b, 0x3f, 0xa0),
    (0xe8, 0xd8, 0x3a),
    (0xcc, 0x79, 0xa7),
    (0x8b, 0x5a, 0x2b),
    (0x00, 0x9e, 0x73),
    (0xb4, 0xbb, 0xc4),
    (0x8a, 0x8f, 0x98),
];

/// Returns the drawing; of a recording without any address space, an empty one.
pub(super) fn draw(film: &Film) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(&mut out, film);
    out
}

fn write_all(out: &mut String, film: &Film) -> std::fmt::Result {
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">"#
    )?;
    writeln!(
        out,
        r##"<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>"##
    )?;
    let lives = Lives::of(film);
    if let Some(own) = lives.0.iter().max_by_key(|own| own.steps.len()) {
        title(out, film, own)?;
        life(out, film, own)?;
    }
    writeln!(out, "</svg>")
}

fn title(out: &mut String, film: &Film, own: &OneLife) -> std::fmt::Result {
    let words = shortened(&printable(&film.title), 95);
    writeln!(
        out,
        r##"<text x="{LEFT}" y="16" font-size="13" font-weight="bold">{}</text>"##,
        Escaped(&words)
    )?;
    let mut x = LEFT;
    let used = |kind: Kind| {
        own.stays
            .iter()
            .any(|&stay| film.looks[film.stays[stay as usize].look as usize].kind == kind)
    };
    for look in Kind::ALL {
        if !used(look) {
            continue;
        }
        let name = look.name();
        let colour = fill(look, *b"rw-p");
        writeln!(
            out,
            r##"<rect x="{x}" y="26" width="10" height="10" fill="{colour}"/><text x="{}" y="35">{name}</text>"##,
            x + 14.0
        )?;
        x += 26.0 + 6.2 * name.len() as f64;
    }
    Ok(())
}

/// Height of an address on the paper.
struct Scale {
    bands: Vec<Band>,
    /// Height at the start of each band, from below, and the whole.
    sums: Vec<f64>,
}

impl Scale {
    fn new(bands: Vec<Band>) -> Self {
        let mut sums = vec![0.0];
        let mut sum = 0.0;
        for band in &bands {
            sum += f64::from(band.height);
            sums.push(sum);
        }
        Self { bands, sums }
    }

    fn y(&self, address: u64) -> f64 {
        let index = self.bands.partition_point(|band| band.end <= address);
        let whole = self.sums.last().copied().unwrap_or(1.0).max(1.0);
        let at = match self.bands.get(index) {
            None => whole,
            Some(band) => {
                let part =
                    address.saturating_sub(band.start) as f64 / (band.end - band.start) as f64;
                self.sums[index] + part * f64::from(band.height)
            }
        };
        TOP + (1.0 - at / whole) * (HEIGHT - TOP - BELOW)
    }
}

fn life(out: &mut String, film: &Film, own: &OneLife) -> std::fmt::Result {
    let mut by_birth = own.stays.clone();
    by_birth.sort_unstable();
    let stays = by_birth.iter().map(|&stay| &film.stays[stay as usize]);
    let scale = Scale::new(bands(film, stays));
    empty_bands(out, &scale)?;
    for &number in &own.stays {
        stay(out, film, own, &scale, number)?;
    }
    names(out, film, &scale)?;
    steps(out, own)
}

/// Returns the place of a step from left to right.
fn x(own: &OneLife, step: u32) -> f64 {
    let steps = own.steps.len().max(1) as f64;
    LEFT + f64::from(step) / steps * (WIDTH - LEFT - RIGHT)
}

/// Draws the bands in which nothing ever was.
fn empty_bands(out: &mut String, scale: &Scale) -> std::fmt::Result {
    for band in scale.bands.iter().filter(|band| band.looks.is_empty()) {
        let (top, bottom) = (scale.y(band.end), scale.y(band.start));
        writeln!(
            out,
            r##"<rect x="{LEFT}" y="{top:.2}" width="{:.2}" height="{:.2}" fill="#eceef1"/>"##,
            WIDTH - LEFT - RIGHT,
            bottom - top
        )?;
    }
    Ok(())
}

/// Draws an area from its beginning to its end.
fn stay(
    out: &mut String,
    film: &Film,
    own: &OneLife,
    scale: &Scale,
    number: u32,
) -> std::fmt::Result {
    let stay = &film.stays[number as usize];
    let look = &film.looks[stay.look as usize];
    let end = own.steps.len() as u32;
    let (left, right) = (
        x(own, own.own(stay.born)),
        x(own, stay.gone.map_or(end, |gone| own.own(gone))),
    );
    let (top, bottom) = (scale.y(stay.end), scale.y(stay.start));
    // Of the resident memory, the part at the left is as strong as elsewhere.
    let held = film.held.get(number as usize);
    if let Some(held) = held {
        let share = held.resident as f64 / (stay.end - stay.start) as f64;
        writeln!(
            out,
            r#"<rect x="{left:.2}" y="{top:.2}" width="{:.2}" height="{:.2}" fill="{}"/>"#,
            (right - left) * share.min(1.0),
            (bottom - top - 0.4).max(0.6),
            fill(look.kind, look.perms),
        )?;
    }
    writeln!(
        out,
        r#"<rect x="{left:.2}" y="{top:.2}" width="{:.2}" height="{:.2}" fill="{}"{}><title>{:x}-{:x} {} {}</title></rect>"#,
        (right - left).max(0.4),
        (bottom - top - 0.4).max(0.6),
        fill(look.kind, look.perms),
        if held.is_some() {
            r#" fill-opacity="0.4""#
        } else {
            ""
        },
        stay.start,
        stay.end,
        String::from_utf8_lossy(&look.perms),
        Escaped(&printable(&look.name))
    )
}

/// Draws the axis of steps, if there are several.
fn steps(out: &mut String, own: &OneLife) -> std::fmt::Result {
    let end = own.steps.len() as u32;
    if end < 2 {
        return Ok(());
    }
    let line = HEIGHT - BELOW + 0.5;
    writeln!(
        out,
        r##"<path d="M{LEFT} {line}H{}" stroke="#9aa1ab"/>"##,
        WIDTH - RIGHT
    )?;
    let apart = tick(f64::from(end));
    let mut at = 0;
    while at < end {
        writeln!(
            out,
            r##"<text x="{:.2}" y="{}" fill="#5b636e">{at}</text>"##,
            x(own, at),
            HEIGHT - 10.0
        )?;
        at += apart;
    }
    writeln!(
        out,
        r##"<text x="{}" y="{}" fill="#5b636e" text-anchor="end">step</text>"##,
        LEFT - 6.0,
        HEIGHT - 10.0
    )
}

/// Names of bands, from above, where there is room.
fn names(out: &mut String, film: &Film, scale: &Scale) -> std::fmt::Result {
    let mut free = TOP;
    for band in scale.bands.iter().rev() {
        let (top, bottom) = (scale.y(band.end), scale.y(band.start));
        let middle = (top + bottom) / 2.0;
        if bottom - top < 8.0 || middle - 6.0 < free {
            continue;
        }
        free = middle + 6.0;
        let looks = band.looks.iter().map(|&look| &film.looks[look as usize]);
        let looks: Vec<&Look> = looks.collect();
        let (text, colour) = match &looks[..] {
            [look] => (shortened(&named(look), LABEL), "#16191d"),
            [look, others @ ..] => {
                let more = format!(" and {} more", others.len());
                (
                    shortened(&named(look), LABEL - more.len()) + &more,
                    "#16191d",
                )
            }
            [] => (
                format!(
                    "gap of {}",
                    samara_tracer::quantity::bytes(band.end - band.start)
                ),
                "#5b636e",
            ),
        };
        write!(
            out,
            r#"<text x="{}" y="{:.2}" fill="{colour}" text-anchor="end">{}"#,
            LEFT - 6.0,
            middle + 4.0,
            Escaped(&text)
        )?;
        // All of them, for who points at it.
        for (number, look) in looks.iter().enumerate().filter(|_| looks.len() > 1) {
            let separator = if number == 0 { "<title>" } else { "\n" };
            let whole = if look.name.is_empty() {
                look.kind.name()
            } else {
                &look.name
            };
            write!(out, "{separator}{}", Escaped(&printable(whole)))?;
        }
        let end = if looks.len() > 1 { "</title>" } else { "" };
        writeln!(out, "{end}</text>")?;
    }
    Ok(())
}

fn named(look: &Look) -> String {
    let last = look.name.rsplit('/').next().unwrap_or_default();
    if last.is_empty() {
        look.kind.name().to_owned()
    } else {
        printable(last).into_owned()
    }
}

/// Returns the kind's colour, the fainter the less may be done.
fn fill(kind: Kind, perms: [u8; 4]) -> String {
    let strength = match perms {
        [_, b'w', ..] => 0.92,
        [_, _, b'x', _] => 0.78,
        [b'r', ..] => 0.55,
        _ => 0.25,
    };
    let (r, g, b) = COLOURS[kind as usize];
    let part = |part: u8| (f64::from(part) * strength + 255.0 * (1.0 - strength)).round() as u8;
    format!("#{:02x}{:02x}{:02x}", part(r), part(g), part(b))
}

/// Returns a round number of steps, of which ten or so fit.
fn tick(steps: f64) -> u32 {
    let mut apart = 1;
    for factor in [2_u32, 5, 10].into_iter().cycle() {
        if steps / f64::from(apart) <= 12.0 {
            break;
        }
        // 1, 2, 5, 10, 20 …
        apart = match factor {
            2 => apart * 2,
            5 => apart / 2 * 5,
            _ => apart * 2,
        };
    }
    apart
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Text within XML. What XML has no characters for becomes a replacement character.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\n' | '\t' => f.write_char(' ')?,
                c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                    f.write_char(char::REPLACEMENT_CHARACTER)?;
                }
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for (steps, apart) in [
            (1.0, 1),
            (12.0, 1),
            (13.0, 2),
            (54.0, 5),
            (119.0, 10),
            (20_000.0, 2000),
        ] {
            assert_eq!(tick(steps), apart, "{steps}");
        }
    }

    #[test]
    fn names_are_escaped() {
        let film = Film::new(&["</svg><script>&\u{1}".to_owned()], "");
        assert_eq!(
            Escaped(&film.title).to_string(),
            "&lt;/svg&gt;&lt;script&gt;&amp;\u{fffd}"
        );
        let drawn = draw(&film);
        assert!(drawn.starts_with("<svg") && drawn.ends_with("</svg>\n"));
    }
}
