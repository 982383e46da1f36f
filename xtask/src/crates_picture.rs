//! The picture of the crates in ARCHITECTURE.md, drawn from `cargo metadata`.
//!
//! A crate stands above the crates that it depends on, and an arrow leads to each of them. The manifest
//! of the upper crate names what flows along the arrow, above its dependencies:
//!
//! ```toml
//! [package.metadata.uses]
//! maple-tree = "VMAs by address"
//! ```
//!
//! A dependency without such a line is drawn only if no other path of arrows leads to it.
//!
//! Tier `lint` refuses a picture that differs from what the manifests say.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xshell::{Shell, cmd};

const PICTURE: &str = "docs/figures/crates.svg";
/// Packages for development only, which the picture leaves out.
const LEFT_OUT: [&str; 2] = ["samara-docs", "xtask"];

const WIDTH: usize = 1000;
const BOX_WIDTH: usize = 178;
const BOX_HEIGHT: usize = 62;
/// The vertical distance of two layers, from top to top.
const LAYER: usize = 136;
const MARGIN: usize = 16;
/// Characters in a line of a description.
const LINE: usize = 30;

/// Draws the picture if `renew`; otherwise checks that it is the one that the manifests describe.
///
/// # Errors
///
/// Fails if cargo cannot describe the packages, or if the picture is stale.
pub(crate) fn run(shell: &Shell, renew: bool) -> Result<()> {
    let mut crates = described(shell, "Cargo.toml")?;
    crates.extend(described(shell, "kernel/Cargo.toml")?);
    let drawn = draw(&crates);
    if shell.read_file(PICTURE).is_ok_and(|before| before == drawn) {
        return Ok(());
    }
    if !renew {
        bail!("{PICTURE} differs from the manifests: run `cargo xtask excerpts`");
    }
    shell.write_file(PICTURE, drawn)?;
    println!("{PICTURE} is renewed");
    Ok(())
}

/// A crate and the crates of this project that it depends on, with what flows to each.
struct Crate {
    name: String,
    description: String,
    needs: BTreeMap<String, String>,
}

/// Returns the crates of a workspace, in the order of their names.
fn described(shell: &Shell, manifest: &str) -> Result<Vec<Crate>> {
    let metadata = cmd!(
        shell,
        "cargo metadata --format-version 1 --no-deps --locked --manifest-path {manifest}"
    )
    .read()?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo lists no packages")?;
    let mut crates: Vec<Crate> = packages.iter().map(of_package).collect();
    crates.retain(|it| !LEFT_OUT.contains(&it.name.as_str()));
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(crates)
}

fn of_package(package: &Value) -> Crate {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let needs = dependencies
        // Dependencies of this project have a path; those of tests have a kind.
        .filter(|it| it["path"].is_string() && it["kind"].is_null())
        .map(|it| {
            let name = text(&it["name"]);
            let flows = text(&package["metadata"]["uses"][&name]);
            (name, flows)
        })
        .collect();
    Crate {
        name: text(&package["name"]),
        description: text(&package["description"]),
        needs,
    }
}

/// Returns each crate's layer: directly below the lowest crate that depends on it, so that arrows are
/// short. Crates at the top stand one layer above the highest crate that they depend on.
fn layers(crates: &[Crate]) -> BTreeMap<&str, usize> {
    let mut layers: BTreeMap<&str, usize> = crates.iter().map(|it| (it.name.as_str(), 0)).collect();
    // Cargo allows no circles, so the layers settle after as many rounds as there are crates.
    for _ in crates {
        for it in crates {
            let below = it.needs.keys().filter_map(|need| layers.get(need.as_str()));
            let layer = below.max().map_or(0, |below| below + 1);
            layers.insert(&it.name, layer);
        }
    }
    for _ in crates {
        for it in crates {
            let users = crates
                .iter()
                .filter(|user| user.needs.contains_key(&it.name));
            if let Some(lowest) = users.map(|user| layers[user.name.as_str()]).min() {
                layers.insert(&it.name, lowest - 1);
            }
        }
    }
    layers
}

/// Returns `true` if `from` depends on `to` through another crate.
fn depends_through_others(crates: &[Crate], from: &Crate, to: &str) -> bool {
    let others = crates
        .iter()
        .filter(|it| from.needs.contains_key(&it.name) && it.name != to);
    others
        .into_iter()
        .any(|it| it.needs.contains_key(to) || depends_through_others(crates, it, to))
}

/// Returns the centre of each crate's box.
fn places(crates: &[Crate]) -> BTreeMap<&str, (usize, usize)> {
    let layers = layers(crates);
    let top = layers.values().max().copied().unwrap_or(0);
    let mut places = BTreeMap::new();
    for layer in 0..=top {
        let mut row: Vec<&Crate> = crates
            .iter()
            .filter(|it| layers[it.name.as_str()] == layer)
            .collect();
        // A crate stands near the middle of what it depends on, so that few arrows cross.
        row.sort_by_key(|it| {
            let below: Vec<usize> = it
                .needs
                .keys()
                .filter_map(|need| places.get(need.as_str()))
                .map(|&(x, _): &(usize, usize)| x)
                .collect();
            below.iter().sum::<usize>() / below.len().max(1)
        });
        let step = (WIDTH - 2 * MARGIN) / row.len().max(1);
        for (index, it) in row.into_iter().enumerate() {
            let x = MARGIN + step * index + step / 2;
            let y = MARGIN + LAYER * (top - layer) + BOX_HEIGHT / 2;
            places.insert(it.name.as_str(), (x, y));
        }
    }
    places
}

fn draw(crates: &[Crate]) -> String {
    let places = places(crates);
    let bottom = places.values().map(|&(_, y)| y).max().unwrap_or(0);
    let height = bottom + BOX_HEIGHT / 2 + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#777\"/></marker></defs>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let mut labels = String::new();
    for it in crates {
        let (x, y) = places[it.name.as_str()];
        for (need, flows) in &it.needs {
            if flows.is_empty() && depends_through_others(crates, it, need) {
                continue;
            }
            let Some(&(to_x, to_y)) = places.get(need.as_str()) else {
                continue;
            };
            let (from_y, to_y) = (y + BOX_HEIGHT / 2, to_y - BOX_HEIGHT / 2);
            let _ = writeln!(
                svg,
                "<line x1=\"{x}\" y1=\"{from_y}\" x2=\"{to_x}\" y2=\"{to_y}\" stroke=\"#999\" marker-end=\"url(#head)\"/>"
            );
            // Near its start, where arrows to one crate are still apart.
            let (label_x, label_y) = ((3 * x + 2 * to_x) / 5, (3 * from_y + 2 * to_y) / 5);
            let _ = writeln!(
                labels,
                "<text x=\"{label_x}\" y=\"{label_y}\" text-anchor=\"middle\" font-size=\"9.5\" fill=\"#335\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
                escaped(flows)
            );
        }
    }
    svg += &labels;
    for it in crates {
        let (x, y) = places[it.name.as_str()];
        let (left, upper) = (x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2);
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{upper}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"5\" fill=\"#eef3fb\" stroke=\"#456\"/>\n\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" font-weight=\"bold\" font-size=\"13\">{}</text>",
            upper + 18,
            escaped(&it.name)
        );
        for (index, line) in lines(&it.description).iter().take(3).enumerate() {
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" font-size=\"9.5\">{}</text>",
                upper + 32 + 11 * index,
                escaped(line)
            );
        }
    }
    svg + "</svg>\n"
}

/// Breaks a description into lines.
fn lines(description: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in description.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < LINE => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_stands_above_what_it_depends_on() {
        let make = |name: &str, needs: &[&str]| Crate {
            name: name.to_owned(),
            description: String::new(),
            needs: needs
                .iter()
                .map(|need| (need.to_string(), String::new()))
                .collect(),
        };
        let crates = [
            make("mm", &["tree", "slab"]),
            make("slab", &[]),
            make("tree", &["slab"]),
        ];
        let layers = layers(&crates);
        assert_eq!((layers["slab"], layers["tree"], layers["mm"]), (0, 1, 2));
    }

    #[test]
    fn descriptions_are_broken_between_words() {
        let text = "page tables in the hardware's format, frames counted in one array";
        let lines = lines(text);
        assert!(lines.iter().all(|line| line.len() <= LINE));
        assert_eq!(lines.join(" "), text);
    }
}
