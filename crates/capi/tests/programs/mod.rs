//! Programs in C and C++, compiled and linked with the libraries as users do.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler flags of C programs.
pub(crate) const C: [&str; 4] = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"];

/// Returns the path of a library that cargo built next to this test's own executable.
pub(crate) fn library(prefix: &str, extension: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    std::fs::read_dir(exe.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("");
            path.extension().is_some_and(|e| e == extension)
                && (stem == prefix || stem.starts_with(&format!("{prefix}-")))
        })
        .max_by_key(|path| path.metadata().unwrap().modified().unwrap())
        .unwrap_or_else(|| panic!("{prefix}.{extension} is not beside {}", exe.display()))
}

/// Returns the crate's directory.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Builds a program from a source below the crate's root.
pub(crate) fn build(
    compiler: &str,
    flags: &[&str],
    source: &str,
    link: &Path,
    name: &str,
) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // The library's own width, since these tests also run for 32-bit targets.
    let width = if cfg!(target_pointer_width = "32") {
        "-m32"
    } else {
        "-m64"
    };
    let built = Command::new(compiler)
        .args(flags)
        .args([width, "-O1", "-g", "-pthread", "-I"])
        .arg(root().join("include"))
        .arg(root().join(source))
        // If the source's language was given, it does not apply to the arguments that follow.
        .args(["-x", "none"])
        .arg(link)
        .args(["-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} is needed (Debian's gcc, g++): {error}"));
    assert!(
        built.status.success(),
        "{source}: {}",
        String::from_utf8_lossy(&built.stderr)
    );
    program
}

/// Runs a program and returns its output.
pub(crate) fn run(program: &Path, link: &Path) -> String {
    let ran = Command::new(program)
        .env("LD_LIBRARY_PATH", link.parent().unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(
        ran.status.success(),
        "{}: {}\n{text}{}",
        program.display(),
        ran.status,
        String::from_utf8_lossy(&ran.stderr)
    );
    text
}

/// Builds and runs a C test against the static library. Its output must end with `ok`.
pub(crate) fn passes(source: &str) {
    let link = library("libsamara", "a");
    let program = build("cc", &C, &format!("tests/c/{source}.c"), &link, source);
    let text = run(&program, &link);
    assert!(text.ends_with("ok\n"), "{source}: {text}");
}

/// Builds an example and compares its output with the `.out` file.
pub(crate) fn example(name: &str) {
    let link = library("libsamara", "a");
    let source = format!("examples/c/{name}.c");
    let program = build("cc", &C, &source, &link, &format!("example_{name}"));
    let expected = root().join("examples/c").join(name).with_extension("out");
    assert_eq!(
        run(&program, &link),
        std::fs::read_to_string(expected).unwrap(),
        "{name}"
    );
}
