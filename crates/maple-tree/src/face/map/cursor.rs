//! The cursor that changes the map.

use crate::face::cursor::Writing;
use crate::face::map::MapleTree;

/// A position in a [`MapleTree`] that changes it, and nodes set aside for that.
///
/// What a [`store`](CursorMut::store) covers is dropped. After a failed allocation the cursor keeps the nodes that it could get, so
/// that trying again needs fewer.
///
/// ```
/// use maple_tree::MapleTree;
///
/// let mut ids: MapleTree<u32, u32> = MapleTree::with_gaps();
/// let mut cursor = ids.cursor_mut(..);
/// cursor.empty_area(100..200, 4)?; // the lowest four free ids
/// assert_eq!(cursor.range(), 100..=103);
/// cursor.preallocate()?;
/// cursor.store(7)?; // takes no memory
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type CursorMut<'h, K, V, A, S> = Writing<'h, K, V, S, A, MapleTree<K, V, A, S>>;
