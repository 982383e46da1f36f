//! Files that are written at the end, and opened at the beginning, so that what cannot be written is told before the work.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use samara_tracer::tell::unless_closed;

/// A file, or standard output, that waits for what will be written. If nothing is, it is as it was: what was in it is still there, and a file
/// that was made for it is gone.
#[derive(Debug)]
pub(crate) struct Destination {
    file: File,
    path: PathBuf,
    /// Made for this, and nothing is in it yet.
    fresh: bool,
}

impl Destination {
    /// Opens the file that an option names; `-` is standard output.
    ///
    /// # Errors
    /// What to complain of.
    pub(crate) fn open(option: &str, path: &Path) -> Result<Self, String> {
        let opened = if path == Path::new("-") {
            // The runtime has opened /dev/null in its place.
            let closed = samara_tracer::streams::closed_at_start()[1];
            let out = match closed {
                true => Err(io::Error::from_raw_os_error(libc::EBADF)),
                false => io::stdout().as_fd().try_clone_to_owned(),
            };
            out.map(|out| (File::from(out), false))
        } else {
            match File::options().write(true).create_new(true).open(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // A link to a file that is not there yet is followed, too.
                    let mut options = File::options();
                    let opened = options.write(true).create(true).truncate(false).open(path);
                    opened.map(|file| (file, false))
                }
                made => made.map(|file| (file, true)),
            }
        };
        let (file, fresh) = opened.map_err(|error| {
            format!(
                "`{}` cannot be written: {error}; give {option} another file",
                path.display()
            )
        })?;
        Ok(Self {
            file,
            path: path.to_owned(),
            fresh,
        })
    }

    /// Writes the whole contents.
    ///
    /// # Errors
    /// What to complain of.
    pub(crate) fn write(mut self, text: &[u8]) -> Result<(), String> {
        unless_closed(self.put(text))
            .map_err(|error| format!("`{}` cannot be written: {error}", self.path.display()))
    }

    fn put(&mut self, text: &[u8]) -> io::Result<()> {
        self.fresh = false;
        if self.path != Path::new("-") && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(text)
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if self.fresh {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::write(&old, "a long text").unwrap();
        for path in [&new, &old] {
            drop(Destination::open("--html", path).unwrap());
        }
        assert!(!new.exists());
        assert_eq!(fs::read(&old).unwrap(), b"a long text");
        for path in [&new, &old] {
            let destination = Destination::open("--html", path).unwrap();
            destination.write(b"short").unwrap();
            assert_eq!(fs::read(path).unwrap(), b"short");
        }
        Destination::open("--html", Path::new("/dev/null"))
            .unwrap()
            .write(b"nothing")
            .unwrap();
        let nowhere = folder.path().join("no/folder");
        let told = Destination::open("--svg", &nowhere).unwrap_err();
        assert!(told.ends_with("; give --svg another file"), "{told}");
    }
}
