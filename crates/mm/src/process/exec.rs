//! New programs with their pages: the layout of exec, and the bytes that it writes.

use alloc::boxed::Box;

use crate::errno::Errno;
use crate::exec::{Auxiliary, Exec, ExecError, Files, Random, Started};
use crate::process::handle::Process;
use crate::process::machine::Machine;
use crate::process::platform::Platform;
use crate::process::signal::{Access, Fault};
use crate::space::AddressSpace;

impl<P: Platform> Process<P> {
    /// Creates a process that has just executed a program, with the map of [`AddressSpace::exec`].
    ///
    /// Strings and vectors are on its stack, and the memory behind the file's part of a page is
    /// zero. Its first instruction is at [`Started::start`], its stack pointer at
    /// [`Started::stack_pointer`]. The pages of programs are read through the
    /// [`object`](crate::File::object) of the files that `files` opens: an [`Inode`](super::Inode).
    ///
    /// # Errors
    /// As [`AddressSpace::exec`]. Also [`Killed`](ExecError::Killed): with `ENOMEM` if the machine
    /// has no memory for the first pages, and with `EFAULT` if a page of the program cannot be
    /// read. The new process is gone then. The old one is not involved.
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
        // Each step is out of line, so that its stack frame is gone before the next.
        let started = AddressSpace::exec_on_heap(exec, files, random)?;
        let started = Self::entered(machine, started).map_err(ExecError::Killed)?;
        Self::write_bytes(&started, exec, auxiliary).map_err(ExecError::Killed)?;
        Ok(started)
    }

    /// Creates a process with the map of exec.
    #[inline(never)]
    fn entered(
        machine: &Machine<P>,
        started: Started<Box<AddressSpace>>,
    ) -> Result<Started<Self>, Errno> {
        started.try_map(|space| Process::of_boxed(machine, space))
    }

    /// Writes arguments, environment and auxiliary vector to the stack, and zeroes the memory
    /// behind the segments.
    #[inline(never)]
    fn write_bytes(
        started: &Started<Self>,
        exec: &Exec<'_>,
        auxiliary: &Auxiliary,
    ) -> Result<(), Errno> {
        let process = &started.space;
        started.write(exec, auxiliary, |at, bytes| process.store(at, bytes))
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
