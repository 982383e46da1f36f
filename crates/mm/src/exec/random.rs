//! The random choices of exec: one number for each base, and nothing else.

/// A place that exec draws by lot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Base {
    /// The end of the stack (exclusive).
    Stack,
    /// The start of the vectors in the stack, which is the end of the part below the strings of
    /// arguments and environment.
    Vectors,
    /// The base of placement: `mmap_base`, or `legacy_base` in the legacy layout.
    Mmap,
    /// The start of a position-independent program that has an interpreter.
    Program,
    /// Start of the heap.
    Heap,
    /// The vdso, with what belongs to it; on kernels that do not place it as any mapping.
    Vdso,
}

/// The places that one base may have: `lowest`, and further ones at a distance of `step` bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The base that is chosen.
    pub base: Base,
    /// The lowest place.
    pub lowest: u64,
    /// Bytes from one place to the next. Not 0.
    pub step: u64,
    /// The number of possible values. Not 0.
    pub count: u64,
}

impl Choice {
    /// Returns the number of the place at `address`, or of the last one below. `None` if it is out
    /// of bounds.
    ///
    /// Returns the number that leads to this address. For callers that know the choice of another
    /// kernel, and want the same:
    ///
    /// ```
    /// use samara_mm::exec::{Base, Choice};
    ///
    /// let choice = Choice { base: Base::Heap, lowest: 0x50_0000, step: 0x1000, count: 0x2000 };
    /// assert_eq!(choice.number(0x51_2000), Some(0x12));
    /// assert_eq!(choice.number(0x4f_f000), None);
    /// ```
    pub fn number(&self, address: u64) -> Option<u64> {
        let number = address.checked_sub(self.lowest)? / self.step.max(1);
        (number < self.count).then_some(number)
    }
}

/// A source of randomness.
pub trait Random {
    /// Draws one of the places: its number, from 0 to `choice.count - 1`; what is beyond is taken modulo the count.
    fn draw(&mut self, choice: &Choice) -> u64;
}

impl<F: FnMut(&Choice) -> u64> Random for F {
    fn draw(&mut self, choice: &Choice) -> u64 {
        self(choice)
    }
}

/// Returns the place that `random` draws.
pub(super) fn place<R: Random + ?Sized>(random: &mut R, choice: &Choice) -> u64 {
    let number = random.draw(choice) % choice.count.max(1);
    choice
        .lowest
        .saturating_add(number.saturating_mul(choice.step))
}
