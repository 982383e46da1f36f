//! Compiles C programs against the headers, links them with the libraries as users do, and runs them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo puts the libraries: beside the test's own executable.
fn library(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let dir = exe.parent().unwrap();
    let stem = name.split_once('.').unwrap();
    let newest = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let file = path.file_name().unwrap().to_str().unwrap_or_default();
            file == name
                || (file.starts_with(&format!("{}-", stem.0))
                    && file.ends_with(&format!(".{}", stem.1)))
        })
        .max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    newest.unwrap_or_else(|| panic!("{name} is not in {}", dir.display()))
}

fn compiler() -> Option<&'static str> {
    let found = ["cc", "gcc", "clang"]
        .into_iter()
        .find(|cc| Command::new(cc).arg("--version").output().is_ok());
    if found.is_none() {
        eprintln!("skipped: no C compiler (install gcc)");
    }
    found
}

fn run(cc: &str, language: &str, source: &str, link: &Path, name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let built = Command::new(cc)
        .args([
            "-x",
            language,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-write-strings",
            // The library's own width: these tests also run for 32-bit targets.
            if cfg!(target_pointer_width = "32") {
                "-m32"
            } else {
                "-m64"
            },
            "-g",
            "-O1",
            "-I",
        ])
        .arg(root.join("include"))
        .arg(root.join("tests/c").join(source))
        .args(["-x", "none"])
        .arg(link)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let ran = Command::new(&program)
        .env("LD_LIBRARY_PATH", link.parent().unwrap())
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(
        ran.status.success() && out == "ok\n",
        "{}\n{out}{err}",
        ran.status
    );
}

#[test]
fn boot_with_the_static_library() {
    if let Some(cc) = compiler() {
        run(cc, "c", "boot.c", &library("libsamara.a"), "boot-static");
    }
}

#[test]
fn boot_with_the_shared_library() {
    if let Some(cc) = compiler() {
        run(cc, "c", "boot.c", &library("libsamara.so"), "boot-shared");
    }
}
