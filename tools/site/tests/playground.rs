//! The playground in a browser: what is drawn is what the tree's own iterator and check say.
//!
//! Run by `cargo xtask test --tier pages`, which installs Chromium and makes the site (its folder is in `SAMARA_SITE`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "../../samara/tests/pages/browser.rs"]
mod browser;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use browser::ask;
use serde_json::json;

/// A path that no other test uses.
fn fresh(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = FOLDER.get_or_init(|| {
        // What the run before left is gone; what this run leaves can be looked at.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("playground");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    });
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("{number}-{name}"))
}

fn page() -> String {
    let site = std::env::var_os("SAMARA_SITE").expect("SAMARA_SITE: the folder of the site");
    std::fs::read_to_string(Path::new(&site).join("playground.html")).unwrap()
}

/// A function that gives what is wrong with what is drawn of a step.
const RULES: &str = r##"
    const { playground } = window;
    function wrongWith(step, drawn) {
        const wrong = [], tell = (...what) => wrong.push(what.join(" "));
        if (step.check !== "passed") tell("check", step.check);
        if (drawn.length !== step.figures.nodes) tell("nodes", drawn.length, step.figures.nodes);
        const groups = document.querySelectorAll("#stage g.node"), cells = document.querySelectorAll("#stage g.slot");
        if (groups.length !== drawn.length) tell("groups", groups.length);
        if (cells.length !== drawn.reduce((sum, node) => sum + node.slots.length, 0)) tell("cells", cells.length);
        // Compares the tree's own iterator with the slots of the leaves.
        const entries = step.entries.map(entry => [entry.first, entry.last, entry.value].join()).join(" ");
        const leaves = drawn.filter(node => node.kind === "leaf").sort((a, b) => BigInt(a.slots[0].first) < BigInt(b.slots[0].first) ? -1 : 1);
        const slots = leaves.flatMap(node => node.slots);
        const shown = slots.filter(slot => slot.value !== null).map(slot => [slot.first, slot.last, slot.value].join()).join(" ");
        if (step.root && shown !== entries) tell("entries", entries, "drawn", shown);
        // Slots follow one another over all indices.
        let next = 0n;
        for (const slot of slots) {
            if (BigInt(slot.first) !== next) tell("hole between slots at", next);
            next = BigInt(slot.last) + 1n;
        }
        if (slots.length && next !== 1n << 64n) tell("the last slot ends at", next);
        // What an inner node says of a hole is the largest one below it.
        const largest = node => node.slots.reduce((most, slot) => {
            const here = slot.child ? largest(slot.child) : slot.value === null ? slot.last - slot.first + 1n : 0n;
            if (slot.hole !== null && slot.hole !== undefined && slot.hole !== here) tell("hole", slot.hole, "is", here);
            return here > most ? here : most;
        }, 0n);
        if (step.root) largest(step.root);
        // What is shown in a cell is what is in the slot.
        const texts = new Set([...cells].map(cell => cell.querySelector("title").textContent.replace(/^slot \d+: /, "")));
        for (const slot of slots) {
            const text = `${slot.first} to ${slot.last} (pivot ${slot.last})${slot.value === null ? ": hole" : `: value ${slot.value}`}`;
            if (!texts.has(text)) tell("no cell", text);
        }
        return wrong;
    }
"##;

fn with_rules(script: &str) -> String {
    format!("{RULES}\n{script}")
}

#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn every_step_of_the_examples_is_drawn_as_it_is() {
    let seen = ask(
        &page(),
        (1280, 800),
        &with_rules(
            r##"
            const wrong = [], words = new Set();
            let steps = 0;
            for (const slots of ["4", "8", "16"]) for (const gaps of [true, false]) {
                document.getElementById("slots").value = slots;
                document.getElementById("gaps").checked = gaps;
                for (const { name, acts } of playground.EXAMPLES) {
                    playground.run(acts());
                    for (let at = 0; at < playground.steps.length; at++) {
                        playground.go(at);
                        steps++;
                        for (const what of wrongWith(playground.step, playground.drawn)) wrong.push(`${slots} ${name} ${at}: ${what}`);
                        for (const word of ["split:", "join:", "span:", "in place:", "height 1 → 2"])
                            if (document.getElementById("said").textContent.includes(word)) words.add(word);
                    }
                }
            }
            return { wrong: wrong.slice(0, 5), steps, words: [...words].sort() };
            "##,
        ),
    );
    assert_eq!(seen["wrong"], json!([]));
    assert!(seen["steps"].as_u64().unwrap() > 400, "{seen}");
    assert_eq!(
        seen["words"],
        json!(["height 1 → 2", "in place:", "join:", "span:", "split:"])
    );
}

#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn what_changed_is_marked() {
    let seen = ask(
        &page(),
        (1280, 800),
        &with_rules(
            r##"
            playground.run([]);
            const wrong = [];
            let state = 5;
            const random = below => (state = (state * 1103515245 + 12345) % 2147483648, Math.floor(state / 65536) % below);
            let marked = 0, made = 0;
            for (let i = 0; i < 150; i++) {
                const first = BigInt(random(120)), last = first + BigInt(random(i % 7 ? 4 : 60));
                const before = playground.step;
                playground.add(random(3) ? { what: "store", first, last, value: 1 + random(999) } : { what: "erase", first, last });
                wrong.push(...wrongWith(playground.step, playground.drawn));
                const old = new Map([...nodes(before.root)].map(node => [node.address, node]));
                for (const node of playground.drawn) {
                    const known = old.get(node.address);
                    if (node.isNew !== !(known && known.kind === node.kind)) wrong.push("new " + node.address);
                    made += node.isNew;
                    node.slots.forEach((slot, n) => {
                        if (!known || node.isNew) return;
                        const was = known.slots[n];
                        const same = was && String(was.first) === slot.first && String(was.last) === slot.last && (was.value ?? null) === slot.value && String(was.hole ?? null) === String(slot.hole);
                        if (!same && !slot.changed) wrong.push("changed " + node.address);
                        marked += slot.changed;
                    });
                }
                if (document.querySelectorAll("#stage g.slot.changed").length !== playground.drawn.flatMap(node => node.slots).filter(slot => slot.changed).length) wrong.push("cells");
            }
            return { wrong: wrong.slice(0, 5), marked, made };
            "##,
        ),
    );
    assert_eq!(seen["wrong"], json!([]));
    assert!(seen["marked"].as_u64().unwrap() > 100 && seen["made"].as_u64().unwrap() > 20);
}

#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn a_visitor_stores_erases_and_searches() {
    let seen = ask(
        &page(),
        (1280, 800),
        &with_rules(
            r##"
            const $ = id => document.getElementById(id);
            const said = () => $("said").textContent, set = (id, text) => { $(id).value = text; };
            const heard = [];
            $("clear").click();
            for (let i = 0; i < 9; i++) {
                set("first", String(i * 0x20)); set("last", "0x" + (i * 0x20 + 0xf).toString(16)); set("value", String(i + 1));
                $("store").click();
            }
            heard.push(said());
            set("key", "0x45"); $("get").click(); heard.push(said());
            const height = playground.step.height, way = document.querySelectorAll("#stage g.node.path").length;
            set("size", "17"); $("lowest").click(); heard.push(said());
            set("size", "16"); $("lowest").click(); heard.push(said());
            $("highest").click(); heard.push(said());
            set("first", "0"); set("last", "max"); $("erase").click(); heard.push(said());
            const steps = playground.steps.length;
            set("first", "seven"); $("erase").click();
            const error = $("error").textContent;
            set("first", "9"); set("last", "8"); $("erase").click(); heard.push(said());
            set("last", "18446744073709551616"); $("erase").click();
            const beyond = $("error").textContent;
            // The same history in nodes of another size.
            $("slots").value = "8";
            $("slots").dispatchEvent(new Event("change"));
            const again = playground.steps.length;
            document.activeElement.blur();
            press("Home"); const home = playground.at;
            press("ArrowRight"); press("ArrowRight"); const second = playground.at;
            set("maps", "00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/<b>x\n7ffc0000-7ffd0000 rw-p 0 00:00 0 [stack]\n");
            $("load").click();
            const entries = playground.step.entries.map(entry => [String(entry.first), String(entry.last)]);
            return { heard, height, way, steps, error, beyond, again, home, second, entries, bold: document.querySelectorAll("b").length, nameless: nameless(), wrong: wrongWith(playground.step, playground.drawn) };
            "##,
        ),
    );
    let heard: Vec<&str> = seen["heard"]
        .as_array()
        .unwrap()
        .iter()
        .map(|said| said.as_str().unwrap().split(" · ").next().unwrap())
        .collect();
    assert_eq!(
        heard,
        [
            "stored 9 at 256-271",
            "found 3 at 64-79",
            "room for 17 at 272",
            "room for 16 at 16",
            "room for 16 at 18446744073709551599",
            "erased 0-18446744073709551615",
            "the range is empty: its first index is above its last",
        ]
    );
    assert_eq!(seen["height"], seen["way"]);
    assert!(
        seen["error"]
            .as_str()
            .unwrap()
            .starts_with("from: a number")
    );
    assert!(seen["beyond"].as_str().unwrap().starts_with("to: a number"));
    assert_eq!(
        seen["again"].as_u64().unwrap(),
        seen["steps"].as_u64().unwrap() + 1
    );
    assert_eq!((&seen["home"], &seen["second"]), (&json!(0), &json!(2)));
    assert_eq!(
        seen["entries"],
        json!([["1024", "1105"], ["524224", "524239"]])
    );
    assert_eq!(seen["bold"], 0);
    assert_eq!(
        (&seen["nameless"], &seen["wrong"]),
        (&json!([]), &json!([]))
    );
}

#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn a_telephone_is_wide_enough() {
    let seen = ask(
        &page(),
        (500, 900),
        &with_rules(
            "return [document.documentElement.scrollWidth <= innerWidth, playground.drawn.length > 3];",
        ),
    );
    assert_eq!(seen, json!([true, true]));
}
