//! Files that a process serves (FUSE), which is told of areas, and may stand still.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{agrees, compiled, copy_program, fresh};

/// Says that a test is skipped, if its program says so.
fn may_not(told: &str) -> bool {
    let skipped = told == "may not\n";
    if skipped {
        eprintln!("skipped: no file system of FUSE can be mounted here");
    }
    skipped
}

/// The driver of FUSE is told of each area that ends.
#[test]
fn areas_of_files_of_fuse_grow_but_do_not_vanish_in_others() {
    let Some(program) = compiled("told_of_ends") else {
        return;
    };
    let file = fresh("told_of_ends_file");
    fs::write(&file, "").unwrap();
    let told = agrees(&[program, file]).stdout();
    if !may_not(&told) {
        assert_eq!(told, "2 2 2 3 3 3 2 2 \n2 2 2 3 3 3 2 2 \n");
    }
}

/// A file system whose server is about to stand still, and who maps a file of it, in a place that all users reach.
struct Still {
    folder: tempfile::TempDir,
}

impl Still {
    fn prepare() -> Option<Self> {
        // SAFETY: asks for a number.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("skipped: only root can mount a file system for others");
            return None;
        }
        let program = compiled("still_server")?;
        let all = || fs::Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new()
            .permissions(all())
            .tempdir_in("/tmp")
            .unwrap();
        let still = Self { folder };
        for (from, name) in [
            (program.as_path(), "still_server"),
            (Path::new(env!("CARGO_BIN_EXE_samara")), "samara"),
        ] {
            copy_program(from, &still.at(name));
            fs::set_permissions(still.at(name), all()).unwrap();
        }
        fs::create_dir(still.at("mounted")).unwrap();
        Some(still)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Has a user trace who maps the file; agrees with what is told without a tracer.
    fn is_followed(&self, words: &[&str]) {
        for user in ["0", "65534"] {
            let run = |words: &[&str]| {
                let mut command = Command::new(self.at("still_server"));
                command.arg("serve").arg(self.at("mounted")).arg(user);
                let places = ["samara", "still_server", "mounted/file"];
                for word in words {
                    match places.contains(word) {
                        true => command.arg(self.at(word)),
                        false => command.arg(word),
                    };
                }
                let output = command.current_dir("/").output().unwrap();
                let told = String::from_utf8(output.stdout).unwrap();
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                (told, output.status.code(), errors)
            };
            let (untraced, code, _) = run(&["still_server", "map", "mounted/file"]);
            if may_not(&untraced) {
                return;
            }
            assert_eq!(code, Some(0), "{untraced}");
            let (told, code, errors) = run(words);
            assert_eq!(told, untraced, "as user {user}: {errors}");
            assert_eq!(code, Some(0), "as user {user}: {errors}");
        }
    }
}

#[test]
fn a_program_is_followed_whose_files_nobody_serves_any_more() {
    if let Some(still) = Still::prepare() {
        still.is_followed(&[
            "samara",
            "trace",
            "--verify",
            "each",
            "--",
            "still_server",
            "map",
            "mounted/file",
        ]);
    }
}

#[test]
fn a_process_is_attached_to_whose_files_nobody_serves_any_more() {
    if let Some(still) = Still::prepare() {
        still.is_followed(&[
            "still_server",
            "attached",
            "mounted/file",
            "samara",
            "trace",
            "--verify",
            "each",
            "-p",
        ]);
    }
}
