//! Live processes: the figures are the kernel's.

use super::*;

#[test]
fn sums_are_the_kernels() {
    let cat = cat();
    let shown = json(&[&cat.pid()]);
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", cat.pid())).unwrap();
    let kernel = |label: &str| -> u64 {
        let line = rollup.lines().find(|line| line.starts_with(label)).unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            << 10
    };
    let memory = &shown["all"]["memory"];
    for (label, name) in [
        ("Rss:", "resident"),
        ("Private_Dirty:", "private_dirty"),
        ("Anonymous:", "anonymous"),
        ("Swap:", "swapped"),
    ] {
        assert_eq!(memory[name].as_u64().unwrap(), kernel(label), "{name}");
    }
    // Which of the clean pages are shared changes as other programs come and go.
    let clean = ["shared_clean", "private_clean"].map(|name| memory[name].as_u64().unwrap());
    let theirs = kernel("Shared_Clean:") + kernel("Private_Clean:");
    assert_eq!(clean[0] + clean[1], theirs, "clean");
    let maps = fs::read_to_string(format!("/proc/{}/maps", cat.pid())).unwrap();
    let lines = maps.lines().filter(|line| !line.contains("[vsyscall]"));
    assert_eq!(shown["areas"].as_array().unwrap().len(), lines.count());
    let kinds = shown["kinds"].as_object().unwrap();
    for kind in ["program", "libraries", "heap", "stacks", "special"] {
        assert!(kinds.contains_key(kind), "no {kind}");
    }
    let parts: u64 = kinds
        .values()
        .map(|kind| kind["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(parts, shown["all"]["bytes"].as_u64().unwrap());
    assert!(shown["fork_estimate"]["now_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn areas_are_told_for_what_they_are() {
    let Some((program, addresses)) = areas_program(0) else {
        return;
    };
    let [room, jit, shared, row, heap] = addresses[..] else {
        panic!("five addresses");
    };
    let shown = json(&[&program.pid()]);
    for (address, kind) in [
        (room, "reserved"),
        (jit, "jit"),
        (shared, "shared"),
        (row, "anonymous"),
        (heap, "heap"),
    ] {
        assert_eq!(area_at(&shown, address)["kind"], kind, "{address:x}");
    }
    assert_eq!(
        area_at(&shown, row + 3 * 4096)["apart"],
        "other permissions"
    );
    assert_eq!(
        area_at(&shown, row + 6 * 4096)["apart"],
        "other permissions"
    );
    assert_eq!(shown["threads"], 2);
    // The main one, and the thread's with its guard.
    let stacks = shown["kinds"]["stacks"]["areas"].as_u64().unwrap();
    assert!((2..=3).contains(&stacks), "{stacks}");
    let jit_memory = &area_at(&shown, jit)["memory"];
    assert_eq!(jit_memory["private_dirty"], 2 * 4096);
}

#[test]
fn every_section_is_printed() {
    let cat = cat();
    let pid = cat.pid();
    let summary = text(&show(&[&pid]));
    for part in [
        "── samara ── cat (",
        "libraries",
        "limit ",
        "gaps ",
        "borders ",
        "fork ",
    ] {
        assert!(summary.contains(part), "{summary}");
    }
    assert!(!summary.contains('\u{1b}'), "no colours in a pipe");
    let areas = json(&[&pid])["areas"].as_array().unwrap().len();
    // The title, the heading and a line for each area; smaps has a sum, too.
    assert_eq!(text(&show(&[&pid, "--maps"])).lines().count(), areas + 2);
    assert_eq!(text(&show(&[&pid, "--smaps"])).lines().count(), areas + 3);
    let gaps = text(&show(&[&pid, "--gaps"]));
    assert!(
        gaps.contains("[stack]") && gaps.contains("[heap]"),
        "{gaps}"
    );
    let tree = text(&show(&[&pid, "--tree"]));
    assert!(tree.contains(" leaf, ") && tree.contains("libc"), "{tree}");
    assert!(tree.contains("[heap]") && tree.contains("hole"), "{tree}");
    let fork = text(&show(&[&pid, "--fork"]));
    assert!(fork.contains("Estimates"), "{fork}");
    let both = text(&show(&[&pid, "--gaps", "--fork"]));
    assert!(
        both.contains("free") && both.contains("Estimates"),
        "{both}"
    );
}

#[test]
fn two_processes_differ_by_what_they_have() {
    let (one, two) = (cat(), cat());
    let same = text(&show(&[&one.pid(), &two.pid()]));
    assert!(same.contains(" → cat ("), "{same}");
    let itself = text(&show(&[&one.pid(), &one.pid()]));
    assert!(itself.contains("no area differs"), "{itself}");
    let itself = json(&[&one.pid(), &one.pid()]);
    assert_eq!(itself["differences"].as_array().unwrap().len(), 0);
    assert_eq!(itself["related"], true);
    let Some((program, _)) = areas_program(0) else {
        return;
    };
    let other = text(&show(&[&one.pid(), &program.pid()]));
    assert!(other.contains("areas") && other.contains("+"), "{other}");
}

#[test]
fn thousands_of_areas() {
    let Some((program, _)) = areas_program(20_000) else {
        return;
    };
    let shown = json(&[&program.pid()]);
    assert!(shown["areas"].as_array().unwrap().len() > 20_000);
    assert!(shown["borders"]["other permissions"].as_u64().unwrap() > 19_000);
    assert!(shown["tree"]["levels"].as_u64().unwrap() >= 3);
    let summary = text(&show(&[&program.pid()]));
    assert!(
        summary.lines().all(|line| line.chars().count() < 400),
        "{summary}"
    );
}

/// A process's name is any bytes, and it is in several files of `/proc`.
#[test]
fn a_process_whose_name_is_no_text_is_shown() {
    let path = scratch().join(OsStr::from_bytes(b"\xff\x1b[2J\xfe"));
    copy_program("/bin/cat", &path);
    let program = Waiting::start(&mut Command::new(&path));
    settle(program.0.id());
    for option in ["--maps", "--smaps", "--fork"] {
        let told = text(&show(&[&program.pid(), option]));
        assert!(
            told.contains('\u{fffd}') && !told.contains('\u{1b}'),
            "{told}"
        );
    }
    assert_eq!(json(&[&program.pid()])["threads"], 1);
    let core = fresh("core");
    let dumped = samara()
        .args(["core", &program.pid(), "-o"])
        .arg(&core)
        .output()
        .unwrap();
    assert_eq!(dumped.status.code(), Some(0), "{dumped:?}");
    agrees(&[path.as_path(), "/dev/null".as_ref()]);
}

#[test]
fn nobody_sees_its_own_processes() {
    // SAFETY: asks only.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can become nobody");
        return;
    }
    let program = public_samara();
    let as_nobody = |pid: &str| {
        Command::new(&program)
            .args(["show", pid])
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/")
            .output()
            .unwrap()
    };
    let roots = cat();
    refused(&as_nobody(&roots.pid()), "may not be looked at");
    let own = Waiting::start(Command::new("cat").uid(NOBODY).gid(NOBODY).current_dir("/"));
    settle(own.0.id());
    let shown = text(&as_nobody(&own.pid()));
    assert!(
        shown.contains("libraries") && shown.contains("stacks"),
        "{shown}"
    );
}
