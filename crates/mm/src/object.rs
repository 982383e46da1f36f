//! Data that the owner of the pages keeps with a file or a shared object.

use core::any::Any;
use core::fmt;
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering;
#[cfg(not(target_has_atomic = "64"))]
use portable_atomic::AtomicU64;

use crate::errno::Errno;
use crate::heap::counted::Counted;

/// A value of the owner's that lives as long as an object is open or mapped: its cached pages, for
/// example.
///
/// A [`File`](crate::File) carries one, and so does every shared anonymous object. It is
/// reference-counted: clones are handles to the same value, and the last one drops it. It does not
/// identify the object: all are equal.
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
    /// Returns no value.
    pub const fn none() -> Self {
        Object(None)
    }

    /// Stores `value`.
    ///
    /// # Errors
    /// `ENOMEM`; the value is dropped.
    pub fn try_new<T: Any + Send + Sync>(value: T) -> Result<Self, Errno> {
        Counted::try_new_any(value).map(|counted| Object(Some(counted)))
    }

    /// Returns another handle to the same value, which keeps `more` as well: what belongs to one of
    /// several opens of a file, for example. When the last clone of this handle is dropped, it
    /// releases the value, and then `more` is dropped.
    ///
    /// ```
    /// use samara_mm::Object;
    ///
    /// let pages = Object::try_new(vec![1u8, 2, 3])?;
    /// let open = pages.with("opened twice")?;
    /// assert_eq!(open.get::<Vec<u8>>(), Some(&vec![1, 2, 3]));
    /// assert_eq!(open.get::<&str>(), Some(&"opened twice"));
    /// assert_eq!(pages.get::<&str>(), None);
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    ///
    /// # Errors
    /// `ENOMEM`; `more` is dropped.
    pub fn with<T: Any + Send + Sync>(&self, more: T) -> Result<Self, Errno> {
        let thing = self.clone();
        let more = Object::try_new(more)?;
        Object::try_new(With { thing, more })
    }

    /// Returns the value, if it is a `T`.
    pub fn get<T: Any>(&self) -> Option<&T> {
        let kept = self.0.as_ref()?;
        kept.downcast_ref().or_else(|| {
            let with: &With = kept.downcast_ref()?;
            with.thing.get().or_else(|| with.more.get())
        })
    }

    /// Returns a handle to the value of type `T`, without what this handle keeps in addition.
    #[cfg(feature = "paging")]
    pub(crate) fn handle<T: Any>(&self) -> Option<Object> {
        let kept = self.0.as_ref()?;
        if kept.is::<T>() {
            return Some(self.clone());
        }
        let with: &With = kept.downcast_ref()?;
        with.thing.handle::<T>().or_else(|| with.more.handle::<T>())
    }

    /// Returns `true` if both are handles of the same thing.
    #[cfg(feature = "paging")]
    pub(crate) fn is_same(&self, other: &Object) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Counted::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Drops the handle. If it is the last one of a `T`, `last` is called before the value is
    /// dropped.
    #[cfg(feature = "paging")]
    pub(crate) fn let_go<T: Any, R>(self, last: impl FnOnce(&mut T) -> R) -> Option<R> {
        let last = |kept: &mut (dyn Any + Send + Sync)| kept.downcast_mut().map(last);
        self.0?.let_go(last).flatten()
    }

    /// Returns `true` if there is no value.
    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

/// A value and what one of its handles keeps in addition, in the order in which they are dropped.
struct With {
    thing: Object,
    more: Object,
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

/// Returns a number for a new shared anonymous object, unique in this program. Children inherit
/// objects, so a counter in each address space would not be enough.
pub(crate) fn new_object() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only uniqueness matters.
    NEXT.fetch_add(1, Ordering::Relaxed)
}
