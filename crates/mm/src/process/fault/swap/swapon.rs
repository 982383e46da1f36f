//! `swapon(2)`, `swapoff(2)`, and the number of used slots.

use core::sync::atomic::Ordering;

use super::area::{SwapArea, SwapDevice};
use crate::errno::Errno;
use crate::heap::boxed::try_box;
use crate::heap::counted::Counted;
use crate::process::machine::Machine;
use crate::process::platform::Platform;

impl<P: Platform> Machine<P> {
    /// Lets private pages go to this device (`swapon(2)`), as many as it has slots.
    ///
    /// # Errors
    /// `EBUSY`: there is a device already; `EINVAL`: more than 2^30 slots; `ENOMEM`.
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

    /// Swaps all pages in and removes the device (`swapoff(2)`).
    ///
    /// It works process by process, concurrently with their faults and calls. Linear in the pages
    /// of processes that ever had a page in swap.
    ///
    /// # Errors
    /// `EINVAL` if there is no device. `ENOMEM`, `EIO`: some pages are still in swap, and the
    /// device stays.
    pub fn swap_off(&self) -> Result<(), Errno> {
        let swap = self.swap().ok_or(Errno::EINVAL)?;
        swap.off.store(true, Ordering::Relaxed);
        let mut result = Ok(());
        self.each_process(|mm| {
            if mm.swapped() {
                result = result.and(mm.swap_in_all());
            }
        });
        // A thread that found the device before it was off may have put one more page there.
        if result.is_ok() && swap.used() > 0 {
            result = Err(Errno::EBUSY);
        }
        match result {
            Ok(()) => *self.swap_slot().lock() = None,
            Err(_) => swap.off.store(false, Ordering::Relaxed),
        }
        result
    }

    /// Returns the number of used slots. O(slots).
    pub fn swapped(&self) -> u64 {
        self.swap().map_or(0, |swap| swap.used())
    }

    /// Returns the swap area, if there is one.
    pub(crate) fn swap(&self) -> Option<Counted<SwapArea>> {
        self.swap_slot().lock().clone()
    }
}
