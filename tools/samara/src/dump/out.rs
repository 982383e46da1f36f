//! The file that is written.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::Path;

use samara_mm::observe::core_file::Sink;

pub(super) fn cannot_write(path: &Path, error: &io::Error) -> String {
    if path == Path::new("-") {
        return format!("standard output cannot be written: {error}; give --output a file");
    }
    format!(
        "`{}` cannot be written: {error}; give --output another file",
        path.display()
    )
}

/// The file, with holes where it can have some.
#[derive(Debug)]
pub(super) struct Out {
    to: BufWriter<File>,
    sparse: bool,
    length: u64,
}

impl Out {
    /// Opens the file.
    ///
    /// # Errors
    /// What to complain of.
    pub(super) fn create(path: &Path) -> Result<Self, String> {
        Self::open(path).map_err(|error| cannot_write(path, &error))
    }

    fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            let out = io::stdout();
            if out.is_terminal() {
                return Err(io::Error::other("a terminal cannot show a core file"));
            }
            return Ok(Self::over(
                File::from(out.as_fd().try_clone_to_owned()?),
                false,
            ));
        }
        // A core has whatever secrets the process had.
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        let sparse = file.metadata()?.is_file();
        Ok(Self::over(file, sparse))
    }

    fn over(file: File, sparse: bool) -> Self {
        Self {
            to: BufWriter::with_capacity(1 << 18, file),
            sparse,
            length: 0,
        }
    }

    /// Returns `true` if each byte must be written, zeroes included.
    pub(super) fn is_stream(&self) -> bool {
        !self.sparse
    }

    /// Returns `true` if the file can have this many bytes and their description. Terabytes of
    /// zeroes through a pipe would take too long.
    pub(super) fn holds(&self, bytes: u64) -> bool {
        const DESCRIPTION: u64 = 256 << 20;
        const STREAM: u64 = 64 << 30;
        let file = self.to.get_ref();
        if self.is_stream() {
            return bytes <= STREAM;
        }
        file.set_len(bytes.saturating_add(DESCRIPTION)).is_ok() && file.set_len(0).is_ok()
    }

    /// Ends the file: everything has been written.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.to.flush()?;
        if self.sparse {
            self.to.get_ref().set_len(self.length)?;
        }
        Ok(())
    }
}

impl Sink for Out {
    type Error = io::Error;

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.length += bytes.len() as u64;
        self.to.write_all(bytes)
    }

    fn skip(&mut self, zeroes: u64) -> io::Result<()> {
        const FEW: u64 = 4096;
        if self.sparse && zeroes >= FEW {
            self.length += zeroes;
            return self.to.seek(SeekFrom::Start(self.length)).map(|_| ());
        }
        let mut left = zeroes;
        while left > 0 {
            let piece = left.min(FEW);
            self.write(&[0; FEW as usize][..piece as usize])?;
            left -= piece;
        }
        Ok(())
    }
}
