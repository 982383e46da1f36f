//! The files of pictures.

use super::*;

#[test]
fn pictures_are_files_of_their_own() {
    let (html, svg) = (fresh("a.html"), fresh("a.svg"));
    let hostile = "</script><script>owned</script>";
    let options = [
        "--html",
        html.to_str().unwrap(),
        "--svg",
        svg.to_str().unwrap(),
    ];
    let traced = trace_with(&options, &["sh", "-c", "exit 3", hostile], scratch());
    traced.assert_agrees();
    assert_eq!(traced.output.status.code(), Some(3));
    assert_eq!(traced.summary["record_bytes"], Value::Null);
    let html = fs::read_to_string(html).unwrap();
    assert!(html.starts_with("<!doctype html>") && !html.contains("owned"));
    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert!(!svg.contains(hostile) && svg.contains("&lt;script&gt;owned"));
    assert!(svg.contains("[stack]</title>") && svg.contains(">gap of "));
}

/// Two files are mapped at one place, one after the other: the label counts both, and who points at
/// it is told their names.
#[test]
fn a_band_with_several_tenants_names_them_all() {
    let Some(([first, second], svg)) = tenants("--svg") else {
        return;
    };
    let mut labels = svg
        .split("<text ")
        .filter_map(|text| text.split_once("</text>"));
    let both = labels.find(|(label, _)| label.contains(&first) && label.contains(&second));
    let (label, _) = both.expect("one label tells of both");
    assert!(label.contains(" more<title>"), "{label}");
}

/// The names of two files that are mapped at one place, and the picture of that.
pub(super) fn tenants(option: &str) -> Option<([String; 2], String)> {
    if !common::has("python3") {
        return None;
    }
    let files = [fresh("one"), fresh("other")];
    for file in &files {
        fs::write(file, [0; 1 << 20]).unwrap();
    }
    let picture = fresh("picture");
    let script = "import mmap, os, sys\n\
        def maps(name, size):\n f = os.open(name, os.O_RDONLY); m = mmap.mmap(f, size, prot=mmap.PROT_READ); m.close(); os.close(f)\n\
        maps(sys.argv[1], 1 << 20)\n\
        for _ in range(3): maps(sys.argv[2], 1 << 19)";
    let names = files.map(|file| file.to_str().unwrap().to_owned());
    let words = ["python3", "-c", script, &names[0], &names[1]];
    let options = ["--verify", "each", option, picture.to_str().unwrap()];
    trace_with(&options, &words, scratch()).assert_agrees();
    Some((names, fs::read_to_string(picture).unwrap()))
}

#[test]
fn a_dash_is_standard_output() {
    let output = samara()
        .args(["trace", "-q", "--svg", "-", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.starts_with(b"<svg") && output.stdout.ends_with(b"</svg>\n"));
}

#[test]
fn files_that_cannot_be_written_are_told_before_the_work() {
    let nowhere = scratch().join("missing/a.html");
    let there = fresh("there");
    let ran = fresh("ran");
    let program = ["touch", ran.to_str().unwrap()];
    for (options, complaint) in [
        (
            [
                "--html",
                nowhere.to_str().unwrap(),
                "--svg",
                there.to_str().unwrap(),
            ],
            "cannot be written",
        ),
        (
            [
                "--html",
                there.to_str().unwrap(),
                "--svg",
                there.to_str().unwrap(),
            ],
            "--html and --svg name one file: give each its own",
        ),
    ] {
        let output = samara()
            .arg("trace")
            .args(options)
            .arg("--")
            .args(program)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            text.lines().count() == 1 && text.contains(complaint),
            "{text}"
        );
        assert!(!ran.exists());
    }
}

#[test]
fn what_cannot_start_leaves_no_files_and_takes_none() {
    use std::os::unix::fs::PermissionsExt;
    let script = fresh("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let (html, svg) = (fresh("a.html"), fresh("a.svg"));
    let (json, record) = (fresh("a.json"), fresh("a.trace"));
    fs::write(&svg, "an older drawing").unwrap();
    let output = samara()
        .arg("trace")
        .args(["--html".as_ref(), html.as_os_str()])
        .args(["--svg".as_ref(), svg.as_os_str()])
        .args(["--json".as_ref(), json.as_os_str()])
        .args(["--record".as_ref(), record.as_os_str()])
        .arg("--")
        .arg(script)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(!html.exists() && !json.exists() && !record.exists());
    assert_eq!(fs::read_to_string(svg).unwrap(), "an older drawing");
}
