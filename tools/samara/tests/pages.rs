//! The page of a recording, in a browser: what is drawn is what the kernel showed.
//!
//! What needs the browser is run by `cargo xtask test --tier pages`, which installs Chromium.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "pages/browser.rs"]
mod browser;
mod common;
#[path = "pages/files.rs"]
mod files;
#[path = "pages/hands.rs"]
mod hands;

use std::fs;

use browser::ask;
use common::{compiled, fresh, samara, scratch, trace_with};
use serde_json::{Value, json};

const WINDOW: (u32, u32) = (1280, 800);

/// A program's page, and what the program printed.
fn page_of(program: &[&str]) -> (String, String) {
    let file = fresh("page.html");
    let options = ["--verify", "each", "--html", file.to_str().unwrap()];
    let traced = trace_with(&options, program, scratch());
    traced.assert_agrees();
    (fs::read_to_string(file).unwrap(), traced.stdout())
}

/// The program that changes its map and prints it, with its arguments.
fn marks(arguments: &[&str]) -> (String, String) {
    let program = compiled("marks").expect("a C compiler");
    let mut words = vec![program.to_str().unwrap()];
    words.extend(arguments);
    page_of(&words)
}

/// The maps that it printed, by their marks: start, end, access and name of each area.
fn printed(output: &str) -> Vec<Value> {
    let mut maps: Vec<Vec<Value>> = Vec::new();
    for line in output.lines() {
        if line.starts_with("mark ") {
            maps.push(Vec::new());
            continue;
        }
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next().unwrap().split_once('-').unwrap();
        let number = |digits| u64::from_str_radix(digits, 16).unwrap();
        // The page of old system calls is the same in every process.
        if number(start) >= 1 << 63 {
            continue;
        }
        let perms = words.next().unwrap();
        let name = words.nth(3).unwrap_or("").trim_start();
        maps.last_mut()
            .unwrap()
            .push(json!([number(start), number(end), perms, name]));
    }
    maps.into_iter().map(Value::from).collect()
}

/// A process that waits, as a picture of one moment.
fn moment(option: &str) -> (String, Value) {
    let mut cat = std::process::Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    common::settle(cat.id());
    let pid = cat.id().to_string();
    let file = fresh("moment");
    let output = samara()
        .args(["show", &pid, option])
        .arg(&file)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}");
    assert!(output.stdout.is_empty());
    let output = samara().args(["show", &pid, "--json"]).output().unwrap();
    cat.kill().unwrap();
    cat.wait().unwrap();
    let json = serde_json::from_slice(&output.stdout).unwrap();
    (fs::read_to_string(file).unwrap(), json)
}

#[test]
fn one_moment_is_drawn() {
    let (page, _) = moment("--html");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    let (svg, _) = moment("--svg");
    assert!(svg.starts_with("<svg") && svg.contains("[stack]</title>"));
    assert!(svg.contains("fill-opacity") && !svg.contains(">step<"));
    let output = samara()
        .args(["show", "1", "2", "--html", "-"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// The areas of the page are those of the process, with what of each is in memory.
#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn one_moment_shows_what_is_in_memory() {
    let (page, shown) = moment("--html");
    let seen = ask(
        &page,
        WINDOW,
        r##"
        samara.draw();
        const { life } = samara;
        return {
            areas: samara.life.at(0).map(stay => [life.start[stay], life.end[stay], life.held[stay].resident, life.held[stay].dirty]),
            drawn: samara.drawn().length,
            hidden: document.getElementById("time").hidden && document.getElementById("tab-calls").hidden,
            rows: document.querySelectorAll("#list .row:not([hidden])").length,
            story: samara.story(0).join(" "),
            nameless: nameless(),
        };"##,
    );
    let address = |text: &Value| {
        u64::from_str_radix(text.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    };
    let areas: Vec<Value> = shown["areas"]
        .as_array()
        .unwrap()
        .iter()
        .map(|area| {
            let memory = &area["memory"];
            let number = |name: &str| memory[name].as_u64().unwrap();
            let dirty = number("shared_dirty") + number("private_dirty");
            json!([
                address(&area["start"]),
                address(&area["end"]),
                number("resident"),
                dirty
            ])
        })
        .collect();
    assert_eq!(seen["areas"], json!(areas));
    assert_eq!(seen["drawn"], areas.len());
    assert_eq!(seen["hidden"], true);
    assert!(seen["rows"].as_u64().unwrap() > 5, "{seen}");
    assert!(
        seen["story"].as_str().unwrap().contains("in memory "),
        "{seen}"
    );
    assert_eq!(seen["nameless"], json!([]));
}

/// Finds the steps of the marks.
const MARKS: &str = r#"
    const { life } = samara, steps = [];
    for (let step = 0; step < life.steps; step++) {
        const found = /^munmap\(0x1, ([1-5])\) = -1 EINVAL/.exec(life.text(step));
        if (found) steps[found[1] - 1] = step;
    }
"#;

#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn what_is_drawn_is_the_kernels_map() {
    let (page, output) = marks(&[]);
    let maps = printed(&output);
    assert_eq!(maps.len(), 5);
    let shown = ask(
        &page,
        WINDOW,
        &format!(
            r#"{MARKS}
            const short = area => [area.start, area.end, area.perms, area.name];
            samara.fit();
            samara.draw();
            return steps.map(step => {{
                samara.go(step);
                samara.draw();
                const there = area => area.from <= step && (area.until === null || step < area.until);
                return {{
                    listed: samara.areas().map(short),
                    drawn: samara.drawn().filter(there).sort((a, b) => a.start - b.start).map(short),
                }};
            }});"#
        ),
    );
    for (number, map) in maps.iter().enumerate() {
        assert_eq!(&shown[number]["listed"], map, "mark {}", number + 1);
        assert_eq!(&shown[number]["drawn"], map, "mark {}", number + 1);
    }
}

/// Rectangles lie where the scales put them, do not cover each other, and have the colours of their kinds on the canvas itself.
#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn rectangles_have_their_places_and_colours() {
    let (page, _) = marks(&[]);
    let wrong = ask(
        &page,
        WINDOW,
        r##"
        const wrong = [], { picture } = samara, canvas = document.getElementById("areas");
        let looked = 0;
        for (const distances of [false, true]) {
            if (distances) samara.toggleScale();
            for (const zoomed of [false, true]) {
                samara.fit();
                if (zoomed) picture.fill(samara.life.at(samara.step)[1]);
                picture.drawAreas();
                const drawn = samara.drawn();
                for (const area of drawn) {
                    const y = picture.y(picture.axis.height(area.end)), below = picture.y(picture.axis.height(area.start));
                    const x = picture.x(area.from);
                    const near = (a, b) => Math.abs(a - b) < 1.01;
                    if (!near(area.x, Math.max(picture.left, x)) || !near(area.y, Math.max(0, y))) wrong.push(["place", area]);
                    if (!near(area.y + area.height, Math.max(Math.min(picture.plotHeight, below), area.y + 1))) wrong.push(["height", area]);
                    if (area.width < 4 || area.height < 6) continue;
                    // Marks of first writes lie over some.
                    if (samara.life.written.some(({ step }) => Math.abs(picture.x(step) - area.x - 2) < 3)) continue;
                    looked++;
                    const look = samara.all.looks.find(look => look.perms === area.perms && look.name === area.name && samara.all.kinds[look.kind] === area.kind);
                    const colour = picture.palette().fills[samara.all.looks.indexOf(look)];
                    const seen = pixel(canvas, area.x + 2, area.y + 2);
                    if (seen !== colour) wrong.push([seen, colour, area]);
                }
            }
        }
        return { wrong: wrong.slice(0, 5), looked };
        "##,
    );
    assert_eq!(wrong["wrong"], json!([]));
    assert!(wrong["looked"].as_u64().unwrap() > 60, "{wrong}");
}

#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn names_that_are_html_do_nothing() {
    let names = [
        "<\u{2f}script><script>window.owned=1<\u{2f}script>".replace('/', "\\"),
        "<img src=x onerror=window.owned=2>".to_owned(),
        "\"'&amp;<!--".to_owned(),
        "</script><script>window.owned=3;".to_owned(),
    ];
    let mut files = Vec::new();
    for name in &names {
        // The last one needs a folder, for its slash.
        let file = scratch().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, [0; 4096]).unwrap();
        files.push(file.to_str().unwrap().to_owned());
    }
    let words: Vec<&str> = files.iter().map(String::as_str).collect();
    let (page, _) = marks(&words);
    assert!(!page.contains("owned"));
    let seen = ask(
        &page,
        WINDOW,
        &format!(
            r##"{MARKS}
            samara.go(steps[3]);
            samara.open("areas");
            const areas = samara.areas();
            for (let i = 0; i < areas.length; i++) document.querySelectorAll("#list .row")[i]?.click();
            samara.draw();
            await frame();
            const svg = new DOMParser().parseFromString(samara.svg(), "image/svg+xml");
            return {{
                owned: window.owned === undefined,
                scripts: document.scripts.length,
                images: document.images.length + svg.querySelectorAll("script, img").length,
                names: areas.map(area => area.name),
                titles: [...svg.querySelectorAll("title")].map(title => title.textContent),
                title: document.getElementById("title").textContent,
            }};"##
        ),
    );
    assert_eq!(seen["owned"], true);
    // The data, the page's own script, and that of the test.
    assert_eq!((&seen["scripts"], &seen["images"]), (&json!(3), &json!(0)));
    for file in &files {
        let listed = seen["names"].as_array().unwrap();
        assert!(listed.contains(&json!(file)), "{file} in {listed:?}");
        let titles = seen["titles"].as_array().unwrap();
        let in_title = |title: &Value| title.as_str().unwrap().ends_with(file);
        assert!(titles.iter().any(in_title), "{file}");
        assert!(seen["title"].as_str().unwrap().contains(file));
    }
}

/// The calls that made, split and merged an area are named.
#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn the_calls_that_made_cut_and_joined_are_named() {
    let (page, _) = marks(&[]);
    let seen = ask(
        &page,
        WINDOW,
        &format!(
            r#"{MARKS}
            const largest = step => samara.life.at(step).filter(stay => samara.all.looks[samara.life.look[stay]].name === "")
                .sort((a, b) => samara.life.end[b] - samara.life.start[b] - samara.life.end[a] + samara.life.start[a])[0];
            return [0, 1, 2].map(mark => samara.story(largest(steps[mark])));"#
        ),
    );
    let text = |mark: usize| {
        let lines = seen[mark].as_array().unwrap().iter();
        lines.map(|line| line.as_str().unwrap()).collect::<Vec<_>>()
    };
    let (made, cut, joined) = (text(0), text(1), text(2));
    // It was written to between its first mark and the call that cut it.
    let of = |line: &&&str| line.starts_with("found written before #");
    for story in [&made, &cut] {
        let written = story.iter().find(of).unwrap_or_else(|| panic!("{story:?}"));
        assert!(written.contains("mprotect("), "{written}");
    }
    assert!(
        made.iter()
            .any(|line| line.starts_with("then cut by #") && line.contains("mprotect(")),
        "{made:?}"
    );
    assert!(
        made.iter()
            .any(|line| line.contains("by #") && line.contains("mmap(NULL, 262144")),
        "{made:?}"
    );
    assert!(
        cut.iter()
            .any(|line| line.starts_with("cut by #") && line.contains("munmap(")),
        "{cut:?}"
    );
    assert!(
        joined
            .iter()
            .any(|line| line.starts_with("joined by #") && line.contains("mprotect(")),
        "{joined:?}"
    );
}

/// A call has one number everywhere: what the page shows at it is what `samara show RECORD@NUMBER` does, for every fourth call.
#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn numbers_of_calls_are_those_of_show() {
    let (record, page) = (fresh("record"), fresh("page.html"));
    let files = [record.to_str().unwrap(), page.to_str().unwrap()];
    let options = ["--verify", "each", "--record", files[0], "--html", files[1]];
    let traced = trace_with(&options, &["ls", "-l", "/usr"], scratch());
    traced.assert_agrees();
    let page = fs::read_to_string(page).unwrap();
    let seen = ask(
        &page,
        WINDOW,
        r#"const { life } = samara, shown = {};
        for (let step = 0; step < life.steps; step++) {
            samara.go(step);
            if (life.call[step] % 4 === 1) shown[life.call[step]] = samara.areas().map(({ start, end, perms, name }) => [start, end, perms, name]);
        }
        return shown;"#,
    );
    let calls = seen.as_object().unwrap();
    assert!(calls.len() > 5, "{calls:?}");
    let address = |text: &Value| {
        u64::from_str_radix(text.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    };
    for (call, areas) in calls {
        let output = samara()
            .args(["show", "--json", &format!("{}@{call}", record.display())])
            .output()
            .unwrap();
        let state: Value = serde_json::from_slice(&output.stdout).unwrap();
        let of_show: Vec<Value> = state["areas"]
            .as_array()
            .unwrap()
            .iter()
            .map(|area| {
                let (start, end) = (address(&area["start"]), address(&area["end"]));
                json!([start, end, area["permissions"], area["name"]])
            })
            .collect();
        assert_eq!(*areas, json!(of_show), "call {call}");
    }
}

/// Every address space of a recording has its picture, and each is that of the record.
#[test]
#[ignore = "needs Chromium: cargo xtask test --tier pages"]
fn processes_are_chosen() {
    let record = fresh("record");
    let options = ["--verify", "each", "--record", record.to_str().unwrap()];
    let program = ["sh", "-c", "ls / | sort >/dev/null; exit 6"];
    trace_with(&options, &program, scratch()).assert_agrees();
    let file = fresh("replay.html");
    let output = samara()
        .args(["replay", "-q"])
        .arg(&record)
        .arg("--html")
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let page = fs::read_to_string(file).unwrap();
    let seen = ask(
        &page,
        WINDOW,
        r#"return samara.all.lives.map((life, index) => {
            samara.choose(index);
            samara.fit();
            samara.draw();
            return { program: life.program, parent: life.parent, steps: life.steps, drawn: samara.drawn().length, areas: samara.areas().length };
        });"#,
    );
    let lives = seen.as_array().unwrap();
    // The shell, its children before their exec, and the two programs.
    assert_eq!(lives.len(), 5, "{seen}");
    let programs: Vec<&str> = lives
        .iter()
        .map(|life| life["program"].as_str().unwrap())
        .map(|path| path.rsplit('/').next().unwrap())
        .collect();
    assert!(programs.contains(&"ls") && programs.contains(&"sort"));
    for life in lives {
        assert!(life["areas"].as_u64().unwrap() > 5, "{seen}");
        assert!(
            life["drawn"].as_u64().unwrap() >= life["areas"].as_u64().unwrap(),
            "{seen}"
        );
    }
}
