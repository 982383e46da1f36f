//! Reading ahead: where the kernel takes long to make a text, another thread waits for it while what is there is taken in.

use std::io::{self, BufRead, ErrorKind, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Bytes that are handed over at once.
const CHUNK: usize = 128 << 10;
/// The most chunks that wait.
const WAITING: usize = 8;

/// A chunk that was read.
type Filled = io::Result<Vec<u8>>;

/// A reader that is ahead of who reads from it. What is read in one chunk needs no thread.
#[derive(Debug)]
pub(crate) struct Ahead {
    chunk: Vec<u8>,
    at: usize,
    /// The source of full chunks, and the destination of empty ones.
    rest: Option<(Receiver<Filled>, Sender<Vec<u8>>)>,
}

/// Fills a chunk, or as much of it as there is: fewer than that at the end only.
fn fill(from: &mut impl Read, chunk: &mut Vec<u8>) -> io::Result<()> {
    chunk.resize(CHUNK, 0);
    let mut filled = 0;
    while filled < CHUNK {
        match from.read(&mut chunk[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    chunk.truncate(filled);
    Ok(())
}

impl Ahead {
    /// Begins to read.
    ///
    /// # Errors
    /// Those of the first chunk.
    pub(crate) fn of(mut from: impl Read + Send + 'static) -> io::Result<Self> {
        let mut chunk = Vec::new();
        fill(&mut from, &mut chunk)?;
        let rest = (chunk.len() == CHUNK).then(|| {
            let (full, fulls) = sync_channel(WAITING);
            let (empty, empties) = channel();
            std::thread::spawn(move || fetch(&mut from, &full, &empties));
            (fulls, empty)
        });
        Ok(Self { chunk, at: 0, rest })
    }
}

/// Reads until the end, an error, or until the receiver is gone.
fn fetch(from: &mut impl Read, full: &SyncSender<Filled>, empties: &Receiver<Vec<u8>>) {
    loop {
        let mut chunk = empties.try_recv().unwrap_or_default();
        let filled = fill(from, &mut chunk).map(|()| chunk);
        let last = !matches!(&filled, Ok(chunk) if chunk.len() == CHUNK);
        if full.send(filled).is_err() || last {
            return;
        }
    }
}

impl Read for Ahead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let there = self.fill_buf()?;
        let count = into.len().min(there.len());
        into[..count].copy_from_slice(&there[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Ahead {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.chunk.len()
            && let Some((fulls, empty)) = &self.rest
            // The thread has ended behind the last chunk.
            && let Ok(next) = fulls.recv()
        {
            // A receiver that is gone does not matter.
            let _ = empty.send(std::mem::replace(&mut self.chunk, next?));
            self.at = 0;
        }
        Ok(&self.chunk[self.at..])
    }

    fn consume(&mut self, count: usize) {
        self.at = self.chunk.len().min(self.at + count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives this many bytes, a few at a time, and then an error or none.
    struct Drops {
        left: usize,
        fails: bool,
    }

    impl Read for Drops {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.left == 0 && self.fails {
                return Err(ErrorKind::NotFound.into());
            }
            let count = into.len().min(self.left).min(4096);
            for (i, byte) in into[..count].iter_mut().enumerate() {
                *byte = ((self.left - i) % 251) as u8;
            }
            self.left -= count;
            Ok(count)
        }
    }

    #[test]
    fn nothing_is_lost() {
        let lengths = [0, 1, 5000, CHUNK - 1, CHUNK, CHUNK + 1, 20 * CHUNK + 77];
        for length in lengths {
            let drops = |fails| Drops {
                left: length,
                fails,
            };
            let (mut expected, mut found) = (Vec::new(), Vec::new());
            drops(false).read_to_end(&mut expected).unwrap();
            let ahead = Ahead::of(drops(false));
            ahead.unwrap().read_to_end(&mut found).unwrap();
            assert!(expected == found && found.len() == length);
            let failing = Ahead::of(drops(true));
            let error = failing.and_then(|mut ahead| ahead.read_to_end(&mut Vec::new()));
            assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
            // It may be left at any time.
            let mut few = [0; 10];
            let _ = Ahead::of(drops(false)).unwrap().read(&mut few);
        }
    }
}
