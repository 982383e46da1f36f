//! What the owner of the pages keeps with a file or a shared object.

use core::any::Any;
use core::fmt;

use crate::errno::Errno;
use crate::heap::counted::Counted;

/// Something of the owner's that lives as long as anybody opens or maps an object: its cached pages, say.
///
/// A [`File`](crate::File) carries one, and so does every shared anonymous object. Counted: clones are handles to the same thing, and the last one
/// drops it. It says nothing about which object it is: all are equal.
///
/// ```
/// use samara_mm::Object;
///
/// let cache = Object::try_new(vec![1u8, 2, 3])?;
/// let mapped = cache.clone();
/// drop(cache);
/// assert_eq!(mapped.get::<Vec<u8>>(), Some(&vec![1, 2, 3]));
/// assert_eq!(mapped.get::<u32>(), None);
/// # Ok::<(), samara_mm::Errno>(())
/// ```
#[derive(Clone, Default)]
pub struct Object(Option<Counted<dyn Any + Send + Sync>>);

impl Object {
    /// Nothing.
    pub const fn none() -> Self {
        Object(None)
    }

    /// Keeps `value`.
    ///
    /// # Errors
    /// `ENOMEM`; the value is dropped.
    pub fn try_new<T: Any + Send + Sync>(value: T) -> Result<Self, Errno> {
        Counted::try_new_any(value).map(|counted| Object(Some(counted)))
    }

    /// What is kept, if it is a `T`.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.as_ref()?.downcast_ref()
    }

    /// Whether nothing is kept.
    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

impl PartialEq for Object {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Object {}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() { "none" } else { "kept" })
    }
}
