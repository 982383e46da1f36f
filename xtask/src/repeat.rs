//! Finds the commands that repeat the failed tests of a tier.
//!
//! cargo says which test program failed, and the program which of its tests. Random tests print a line
//! "repeat: …" with their seed. Continuous integration prints all of these as commands, so that one line
//! leads from a failure to its case.

/// The mark of a line with a command.
const MARK: &str = "repeat: ";

/// Returns the commands that a tier's output leads to, in its order and each once.
pub(crate) fn commands(output: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut failed: Vec<&str> = Vec::new();
    for line in output.lines() {
        let found: Vec<String> = if let Some(command) = line.trim().strip_prefix(MARK) {
            vec![command.to_owned()]
        } else if let Some(test) = failed_test(line) {
            failed.push(test);
            continue;
        } else if let Some(program) = between(line, "to rerun pass `", "`") {
            let command = format!("cargo test --locked --all-features {program}");
            if failed.is_empty() {
                vec![command]
            } else {
                let of = |test: &str| format!("{command} -- {}", filter(test));
                failed.drain(..).map(of).collect()
            }
        } else {
            continue;
        };
        for command in found {
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
    }
    commands
}

/// Returns the name of the test that a line of libtest reports as failed.
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Returns the arguments that make libtest run this test, whose name may be followed by " - should panic".
fn filter(test: &str) -> String {
    // The name of a documentation test contains spaces: "src/lib.rs - module::Item (line 3)".
    match test.split_once(" (line ") {
        Some((item, rest)) => {
            let number = rest.split(')').next().unwrap_or(rest);
            format!("'{item} (line {number})'")
        }
        None => {
            let name = test.split(" - ").next().unwrap_or(test);
            format!("--exact {name}")
        }
    }
}

fn between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    line.split_once(before)?
        .1
        .split_once(after)
        .map(|(found, _)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_become_commands() {
        let output = "\
test random::keys ... FAILED
test random::values ... ok
error: test failed, to rerun pass `-p maple-tree --test maps`
repeat: SAMARA_ORACLE_SEED=7 cargo test -p samara-mm --test oracle -- mixed
error: test failed, to rerun pass `-p samara-mm --test oracle`
test src/pages.rs - pages::Pages (line 69) - compile fail ... FAILED
error: doctest failed, to rerun pass `-p samara-mm --doc`
";
        let expected = [
            "cargo test --locked --all-features -p maple-tree --test maps -- --exact random::keys",
            "SAMARA_ORACLE_SEED=7 cargo test -p samara-mm --test oracle -- mixed",
            "cargo test --locked --all-features -p samara-mm --test oracle",
            "cargo test --locked --all-features -p samara-mm --doc -- 'src/pages.rs - pages::Pages (line 69)'",
        ];
        assert_eq!(commands(output), expected);
        assert!(commands("test random::keys ... ok\n").is_empty());
    }
}
