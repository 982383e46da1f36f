//! New programs with their pages: what exec lays out, with the bytes that it writes.

use crate::errno::Errno;
use crate::exec::{Auxiliary, Exec, ExecError, Files, Random, Started};
use crate::process::machine::Machine;
use crate::process::mm::Process;
use crate::process::platform::Platform;
use crate::process::signal::{Access, Fault};
use crate::space::AddressSpace;

impl<P: Platform> Process<P> {
    /// A process that has just executed a program, as [`AddressSpace::exec`] makes its map: strings and vectors are on its stack, and the memory behind the
    /// file's part of a page is zero. Its first instruction is at [`Started::start`], its stack pointer at [`Started::stack_pointer`].
    ///
    /// The pages of programs are read through the [`object`](crate::File::object) of the files that `files` opens: an [`Inode`](super::Inode).
    ///
    /// # Errors
    /// As [`AddressSpace::exec`]; moreover [`Killed`](ExecError::Killed) with `ENOMEM` when the machine has no memory for the first pages, and with `EFAULT` if a
    /// page of the program cannot be read. Nothing is left of the new process; the old one, of which this knows nothing, is as it was.
    pub fn exec<F, R>(
        machine: &Machine<P>,
        exec: &Exec<'_>,
        auxiliary: &Auxiliary,
        files: &mut F,
        random: &mut R,
    ) -> Result<Started<Self>, ExecError>
    where
        F: Files + ?Sized,
        R: Random + ?Sized,
    {
        let started = AddressSpace::exec_on_heap(exec, files, random)?;
        let started = started
            .try_map(|space| Process::of_heap(machine, space))
            .map_err(ExecError::Killed)?;
        let process = &started.space;
        started
            .write(exec, auxiliary, |at, bytes| process.store(at, bytes))
            .map_err(ExecError::Killed)?;
        Ok(started)
    }

    /// Writes all of the bytes.
    fn store(&self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        let done = self.copy_in(addr, bytes);
        if done == bytes.len() {
            return Ok(());
        }
        match self.fault(addr + done as u64, Access::WRITE) {
            Err(Fault::NoMemory) => Err(Errno::ENOMEM),
            _ => Err(Errno::EFAULT),
        }
    }
}
