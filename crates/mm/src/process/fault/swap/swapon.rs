//! `swapon(2)`, `swapoff(2)`, and how many places are taken.

use core::sync::atomic::Ordering;

use super::area::{SwapArea, SwapDevice};
use crate::errno::Errno;
use crate::heap::boxed::try_box;
use crate::heap::counted::Counted;
use crate::process::machine::Machine;
use crate::process::platform::Platform;

impl<P: Platform> Machine<P> {
    /// `swapon(2)`: private pages may go to this device from now on, as many as it has places.
    ///
    /// # Errors
    /// `EBUSY`: there is one already; `EINVAL`: more than 2^30 places; `ENOMEM`.
    ///
    /// ```
    /// # use std::sync::Mutex;
    /// # use samara_mm::process::{Machine, PAGE_BYTES, Platform, Process, SwapDevice};
    /// # use samara_mm::{Config, Errno, Layout, Limits, MmapOptions, Prot};
    /// struct Memory(Mutex<Vec<[u8; PAGE_BYTES]>>);
    ///
    /// impl SwapDevice for Memory {
    ///     fn read(&self, place: u32, into: &mut [u8; PAGE_BYTES]) -> Result<(), Errno> {
    ///         *into = self.0.lock().unwrap()[place as usize];
    ///         Ok(())
    ///     }
    ///     fn write(&self, place: u32, from: &[u8; PAGE_BYTES]) -> Result<(), Errno> {
    ///         self.0.lock().unwrap()[place as usize] = *from;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # fn out<P: Platform>(machine: &Machine<P>) -> Result<(), Errno> {
    /// machine.swap_on(Memory(Mutex::new(vec![[0; PAGE_BYTES]; 8])), 8)?;
    /// let process = Process::new(machine, Config::default(), Limits::default(), Layout::default())?;
    /// let start = process.mmap(&MmapOptions::anonymous(0x1000).prot(Prot::READ | Prot::WRITE))?;
    /// process.copy_in(start, b"bytes");
    /// assert_eq!(process.swap_out(start, start + 0x1000), 1);
    /// assert_eq!((machine.stats().anon, machine.swapped()), (0, 1));
    ///
    /// let mut bytes = [0; 5];
    /// process.copy_out(start, &mut bytes);
    /// assert_eq!(&bytes, b"bytes");
    /// machine.swap_off()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn swap_on(&self, device: impl SwapDevice + 'static, places: u32) -> Result<(), Errno> {
        let area = Counted::try_new(SwapArea::new(try_box(device)?, places)?)?;
        let mut swap = self.swap_slot().lock();
        if swap.is_some() {
            return Err(Errno::EBUSY);
        }
        *swap = Some(area);
        Ok(())
    }

    /// `swapoff(2)`: brings all pages back, process by process, beside their faults and calls. Linear in the pages of processes that ever had something in swap.
    ///
    /// # Errors
    /// `EINVAL` if there is none; `ENOMEM`, `EIO`: some pages are still in swap, and it stays on.
    pub fn swap_off(&self) -> Result<(), Errno> {
        let swap = self.swap().ok_or(Errno::EINVAL)?;
        swap.off.store(true, Ordering::Relaxed);
        let mut result = Ok(());
        self.each_process(|mm| {
            if mm.swapped() {
                result = result.and(mm.swap_in_all());
            }
        });
        // Who had found the device before it was off may have put one more page there.
        if result.is_ok() && swap.used() > 0 {
            result = Err(Errno::EBUSY);
        }
        match result {
            Ok(()) => *self.swap_slot().lock() = None,
            Err(_) => swap.off.store(false, Ordering::Relaxed),
        }
        result
    }

    /// Places in swap that are taken. O(places).
    pub fn swapped(&self) -> u64 {
        self.swap().map_or(0, |swap| swap.used())
    }

    /// Where pages go, if there is such a place.
    pub(crate) fn swap(&self) -> Option<Counted<SwapArea>> {
        self.swap_slot().lock().clone()
    }
}
