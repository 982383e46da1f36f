//! Lines that fit a terminal, and names that are no words.

use super::*;

/// Opens the master and the slave of a terminal with this many columns.
fn terminal(columns: u16) -> (OwnedFd, OwnedFd) {
    let (mut master, mut slave) = (0, 0);
    let size = libc::winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: places for two descriptors, which are new, and a size.
    unsafe {
        let null = std::ptr::null_mut();
        let done = libc::openpty(
            &raw mut master,
            &raw mut slave,
            null,
            null.cast(),
            (&raw const size).cast_mut(),
        );
        assert_eq!(done, 0);
        (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}

/// Returns the output on a terminal of this many columns, line by line, without colours, and
/// whether it had any.
fn on_terminal(words: &[&str], columns: u16, colours: bool) -> (Vec<String>, bool) {
    let (master, slave) = terminal(columns);
    let mut command = samara();
    command.arg("show").args(words).env("TERM", "xterm");
    if colours {
        command.env_remove("NO_COLOR");
    } else {
        command.env("NO_COLOR", "1");
    }
    let mut child = command.stdout(Stdio::from(slave)).spawn().unwrap();
    // Our own copy of the slave's end is in the command.
    drop(command);
    let mut bytes = Vec::new();
    let mut master = fs::File::from(master);
    // Reading fails when the last one who may write has gone.
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = master.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..read]);
    }
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8(bytes).unwrap();
    let mut plain = String::new();
    let mut skip = false;
    for c in text.chars() {
        match c {
            '\u{1b}' => skip = true,
            'm' if skip => skip = false,
            _ if !skip => plain.push(c),
            _ => {}
        }
    }
    let lines = plain
        .lines()
        .map(|line| line.trim_end_matches('\r').to_owned());
    (lines.collect(), text.contains('\u{1b}'))
}

fn without_digits(text: &str) -> String {
    text.replace(|c: char| c.is_ascii_digit() || matches!(c, '.' | ','), "")
}

fn all_fit(lines: &[String], columns: u16) {
    for line in lines {
        let width = line.chars().count();
        assert!(width <= usize::from(columns), "{columns}: {line}");
    }
}

#[test]
fn a_narrow_terminal_gets_narrow_tables() {
    let cat = cat();
    for (columns, colours) in [(40, false), (60, true), (200, true)] {
        let (lines, coloured) = on_terminal(&[&cat.pid(), "--maps"], columns, colours);
        assert_eq!(coloured, colours, "{lines:#?}");
        assert!(
            lines.iter().any(|line| line.contains("[heap]")),
            "{lines:#?}"
        );
        all_fit(&lines, columns);
    }
}

/// The lines about the whole are folded to the width, and nothing of them is cut off.
#[test]
fn lines_below_the_table_fit_the_terminal() {
    let cat = cat();
    let words = |lines: &[String]| -> Vec<String> {
        let lines = lines.iter().skip_while(|line| !line.starts_with("limit "));
        let words = lines.flat_map(|line| line.split_whitespace());
        // Pages may come and go between two looks.
        words.map(without_digits).collect()
    };
    let (whole, _) = on_terminal(&[&cat.pid()], 400, false);
    let forks = on_terminal(&[&cat.pid(), "--fork"], 400, false).0;
    for columns in [99, 80, 60, 40] {
        let (lines, _) = on_terminal(&[&cat.pid()], columns, false);
        all_fit(&lines[lines.len() - 8..], columns);
        let labels = ["limit ", "gaps ", "borders ", "fork "];
        for label in labels {
            assert!(
                lines.iter().any(|line| line.starts_with(label)),
                "{lines:#?}"
            );
        }
        if columns >= 60 {
            all_fit(&lines, columns);
        }
        assert_eq!(words(&lines), words(&whole), "{columns}");
        let (lines, _) = on_terminal(&[&cat.pid(), "--fork"], columns, false);
        all_fit(&lines, columns);
        let [lines, forks] = [&lines, &forks].map(|lines| without_digits(&lines.concat()));
        assert_eq!(lines.replace(' ', ""), forks.replace(' ', ""));
    }
}

/// All that `/proc/PID/maps` and `smaps` say of an area is there, and one long path makes no other
/// line long.
#[test]
fn lists_of_areas_are_whole_and_short() {
    // Ten folders of 250 letters: no path of one call is so long, so each is entered.
    let name = "d".repeat(250);
    let folder = fresh("deep");
    fs::create_dir(&folder).unwrap();
    let script = format!(
        "import os, mmap, sys\n\
         for _ in range(10):\n os.mkdir('{name}'); os.chdir('{name}')\n\
         f = os.open('file', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 8192)\n\
         m = mmap.mmap(f, 4096, offset=4096)\n\
         m[0] = 1\n\
         print(flush=True); sys.stdin.read()"
    );
    if !has("python3") {
        return;
    }
    let mut program = Waiting::start(
        Command::new("python3")
            .args(["-c", &script])
            .current_dir(&folder),
    );
    program.line();
    let pid = program.pid();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let maps: Vec<&str> = maps.lines().filter(|l| !l.contains("[vsyscall]")).collect();
    let longest = maps.iter().map(|line| line.len()).max().unwrap();
    assert!(longest > 2500);
    for option in ["--maps", "--smaps", "--gaps"] {
        let shown = text(&show(&[&pid, option]));
        let long = shown.lines().filter(|line| line.len() > 250);
        // A gap may lie at each of its ends.
        assert!(
            long.count() <= if option == "--gaps" { 2 } else { 1 },
            "{option}"
        );
    }
    let shown = text(&show(&[&pid, "--maps"]));
    let mut lines = shown.lines().skip(1);
    let heading = lines.next().unwrap();
    for name in [
        "from",
        "to (not in it)",
        "offset",
        "device",
        "inode",
        "resident",
        "PSS",
        "name",
    ] {
        assert!(heading.contains(name), "{name}: {heading}");
    }
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let mut shares = smaps.lines().filter_map(|l| l.strip_prefix("Pss:"));
    let at = |name: &str| heading.find(name).unwrap() + name.len();
    let cell = |line: &str, name: &str| {
        // Columns of numbers end where their headings end. Characters, not bytes: nothing may be a
        // dot.
        let upto: String = line.chars().take(at(name)).collect();
        let (_, cell) = upto.rsplit_once("  ").unwrap();
        cell.trim().to_owned()
    };
    for (line, kernel) in lines.by_ref().zip(&maps) {
        let words: Vec<&str> = kernel.split_whitespace().collect();
        let (from, to) = words[0].split_once('-').unwrap();
        assert!(
            line.trim_start().starts_with(&format!("{from:0>12}")),
            "{line}"
        );
        assert_eq!(cell(line, "to (not in it)"), format!("{to:0>12}"));
        assert_eq!(
            u64::from_str_radix(&cell(line, "offset"), 16),
            u64::from_str_radix(words[2], 16)
        );
        let object = if words[3] == "00:00" {
            ["·", "·"]
        } else {
            [words[3], words[4]]
        };
        assert_eq!([cell(line, "device"), cell(line, "inode")], object);
        let share = shares.next().unwrap().trim().trim_end_matches(" kB");
        let share: f64 = share.parse().unwrap();
        let shown = match cell(line, "PSS") {
            nothing if nothing == "·" => 0.0,
            some => {
                let (number, unit) = some.split_once(' ').unwrap();
                let unit = if unit == "MiB" { 1024.0 } else { 1.0 };
                number.parse::<f64>().unwrap() * unit
            }
        };
        // The number of other processes that map a file changes at any time. Shown values are
        // rounded to a tenth of their unit.
        let same = shown == 0.0 && share == 0.0 || (shown / share - 1.0).abs() < 0.1;
        assert!(same || line.contains('/'), "{line}");
    }
    assert_eq!(lines.next(), None);
}

/// Of a recording nothing is known of pages.
#[test]
fn what_is_not_known_is_a_dot() {
    let file = fresh("trace");
    trace_with(&["--record", file.to_str().unwrap()], &["true"], scratch()).assert_agrees();
    let shown = text(&show(&[&format!("{}@0", file.display()), "--maps"]));
    let heading = shown.lines().nth(1).unwrap();
    let end = heading.find("PSS").unwrap() + 3;
    for line in shown.lines().skip(2) {
        assert_eq!(line.chars().nth(end - 1), Some('·'), "{shown}");
    }
}

/// Neither what turns a line round, nor what is not seen, nor a line feed reaches a terminal from a
/// name: each is escaped, in the same way everywhere.
#[test]
fn names_show_all_of_their_characters() {
    let path = scratch().join("a\u{202e}b\nc\u{200b}");
    copy_program("/bin/cat", &path);
    let program = Waiting::start(&mut Command::new(&path));
    settle(program.0.id());
    let pid = program.pid();
    let escaped = r"a\u{202e}b\nc\u{200b}";
    let says = |told: &str| {
        assert!(told.contains(escaped), "{told}");
        assert!(!told.contains(['\u{202e}', '\u{200b}']), "{told}");
    };
    says(&text(&show(&[&pid])));
    // In maps, the kernel has escaped the line feed already.
    let maps = text(&show(&[&pid, "--maps"]));
    assert!(maps.contains(r"a\u{202e}b\012c\u{200b}"), "{maps}");
    says(&maps);
    let listed = text(&samara().args(["top", "--once"]).output().unwrap());
    let line = listed
        .lines()
        .find(|line| line.split_whitespace().next() == Some(&pid));
    says(line.unwrap());
    let list = samara().args(["top", "--json"]).output().unwrap();
    let list: Value = serde_json::from_str(&text(&list)).unwrap();
    let mut processes = list["processes"].as_array().unwrap().iter();
    let found = processes.find(|it| it["pid"] == program.0.id()).unwrap();
    assert_eq!(found["name"], "a\u{202e}b\nc\u{200b}");
    // What it is refused with, and what a trace and a replay tell of.
    let record = fresh("record");
    let options = ["--calls", "--record", record.to_str().unwrap()];
    let traced = trace_with(&options, &[path.as_path(), "/dev/null".as_ref()], scratch());
    traced.assert_agrees();
    says(&traced.stderr());
    let replayed = samara().arg("replay").arg(&record).output().unwrap();
    says(&String::from_utf8(replayed.stderr).unwrap());
    let mut ended = program;
    ended.0.kill().unwrap();
    while !fs::read_to_string(format!("/proc/{pid}/stat"))
        .unwrap()
        .contains(") Z ")
    {
        std::thread::yield_now();
    }
    for command in ["show", "core"] {
        let output = samara()
            .args([command, &pid])
            .args(["-o", "/dev/null"][..2 * usize::from(command == "core")].iter())
            .output()
            .unwrap();
        says(&String::from_utf8(output.stderr).unwrap());
    }
}
