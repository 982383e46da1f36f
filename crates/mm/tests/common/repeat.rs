//! The command that repeats a failing random test.

#![allow(dead_code, reason = "not every test uses all of it")]

/// Prints a command when the test panics while this value lives.
pub(crate) struct Repeat(pub(crate) String);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            print(&self.0);
        }
    }
}

/// Prints a command on a line that continuous integration collects.
pub(crate) fn print(command: &str) {
    eprintln!("repeat: {command}");
}
