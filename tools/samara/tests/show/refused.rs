//! Subjects that cannot be shown, and output that cannot be printed.

use super::*;

#[test]
fn what_cannot_be_shown_is_told() {
    refused(&show(&["999999999"]), "there is no process 999999999");
    refused(&show(&["0"]), "no number of a process");
    refused(&show(&["nonsense"]), "give PID, FILE or FILE@CALL");
    refused(&show(&["/nowhere@1"]), "cannot be read");
    // Other tests' processes are no kernel threads, wherever this runs.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        refused(&show(&["2"]), "thread of the kernel");
    }
    let mut zombie = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    let mut nothing = String::new();
    zombie
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut nothing)
        .unwrap();
    let pid = zombie.id().to_string();
    while !fs::read_to_string(format!("/proc/{pid}/stat"))
        .unwrap()
        .contains(") Z ")
    {
        std::thread::yield_now();
    }
    refused(&show(&[&pid]), "has ended");
    zombie.wait().unwrap();
}

#[test]
fn a_reader_may_have_seen_enough() {
    if !has("sh") {
        return;
    }
    let cat = cat();
    let line = format!(
        "{} show --maps {} | true",
        env!("CARGO_BIN_EXE_samara"),
        cat.pid()
    );
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn what_cannot_be_printed_is_told() {
    let cat = cat();
    let pid = cat.pid();
    for words in [
        &["show", &pid][..],
        &["show", &pid, "--json"],
        &["top", "--once"],
        &["show", "--help"],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = samara().args(words).stdout(full).output().unwrap();
        refused(&output, "standard output cannot be written: No space left");
    }
}

#[test]
fn a_picture_or_a_list_but_not_both() {
    let cat = cat();
    let picture = fresh("picture").display().to_string();
    for list in ["--maps", "--smaps", "--gaps", "--tree", "--fork", "--json"] {
        let output = show(&[&cat.pid(), "--html", &picture, list]);
        refused(&output, "a picture is drawn, and nothing printed");
    }
    assert!(!fs::exists(&picture).unwrap());
}
