//! The orders in which pages may have been written, when only the sum is known.
//!
//! The first area that is written lends its owner of private pages to its neighbours. Each order
//! here is a list of areas in the order of their first writes, all before the call that is judged.
//! An area that is not in it was written after the call.

/// A range of addresses, the end exclusive.
pub type Range = (u64, u64);
pub(crate) type Order = Vec<Range>;

/// The most areas of which all orders are tried, and of those written during a call all choices. Of
/// more, the two plain orders are tried.
const ALL_ORDERS: usize = 3;

/// Returns the possible orders, except the one that the engine itself takes for the likeliest.
/// `before` was found written at the entry of a call, `after` (which includes it) at its return,
/// both ascending.
pub(crate) fn orderings(before: &[Range], after: Option<&[Range]>) -> Vec<Order> {
    let mut found = Vec::new();
    if !apart(before) {
        orders(before, &mut found);
    }
    let Some(after) = after else { return found };
    let meanwhile: Order = after
        .iter()
        .filter(|area| !before.contains(area))
        .copied()
        .collect();
    let choices: Vec<Order> = if meanwhile.len() <= ALL_ORDERS {
        (1..1_usize << meanwhile.len())
            .map(|choice| {
                let chosen = meanwhile.iter().enumerate();
                let chosen = chosen.filter(|(index, _)| choice >> index & 1 == 1);
                chosen.map(|(_, area)| *area).collect()
            })
            .collect()
    } else {
        vec![meanwhile]
    };
    for mut written in choices {
        written.extend_from_slice(before);
        written.sort_unstable();
        if apart(&written) {
            found.push(written);
        } else {
            orders(&written, &mut found);
        }
    }
    found
}

/// Returns the areas of which not every order was tried, because there are too many.
pub(crate) fn untried<'a>(before: &'a [Range], after: Option<&'a [Range]>) -> &'a [Range] {
    let all = after.unwrap_or(before);
    let new = all.len() - before.len().min(all.len());
    if new > ALL_ORDERS || all.len() > ALL_ORDERS && !apart(all) {
        all
    } else {
        &[]
    }
}

/// Returns `true` if no two areas are adjacent, so that their order decides nothing.
pub(crate) fn apart(areas: &[Range]) -> bool {
    areas.windows(2).all(|pair| pair[0].1 != pair[1].0)
}

/// Adds the orders in which `areas`, ascending, may have been written.
pub(crate) fn orders(areas: &[Range], found: &mut Vec<Order>) {
    if areas.len() > ALL_ORDERS {
        found.push(areas.to_vec());
        found.push(areas.iter().rev().copied().collect());
        return;
    }
    permute(&mut Vec::new(), areas, found);
}

fn permute(done: &mut Order, rest: &[Range], found: &mut Vec<Order>) {
    if rest.is_empty() {
        found.push(done.clone());
    }
    for index in 0..rest.len() {
        let mut others = rest.to_vec();
        done.push(others.remove(index));
        permute(done, &others, found);
        done.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Range = (0, 1);
    const B: Range = (1, 2);
    const C: Range = (2, 3);
    const FAR: Range = (9, 10);

    #[test]
    fn what_lies_apart_has_no_order() {
        assert!(orderings(&[], None).is_empty());
        assert!(orderings(&[A, C, FAR], None).is_empty());
        assert_eq!(orderings(&[A], Some(&[A, FAR])), [[A, FAR]]);
    }

    #[test]
    fn neighbours_are_tried_in_all_orders() {
        assert_eq!(orderings(&[A, B], None), [[A, B], [B, A]]);
        assert_eq!(orderings(&[A, B, C], None).len(), 6);
    }

    #[test]
    fn of_many_only_the_plain_orders() {
        let many: Vec<Range> = (0..9).map(|at| (at, at + 1)).collect();
        let found = orderings(&many, None);
        assert_eq!(found.len(), 2);
        assert!(found[0].is_sorted() && found[1].is_sorted_by(|a, b| a > b));
        assert_eq!(orderings(&[], Some(&many)).len(), 2);
        assert_eq!(orderings(&[], Some(&many))[0], many);
    }

    #[test]
    fn what_is_left_untried_is_told() {
        let many: Vec<Range> = (0..9).map(|at| (at, at + 1)).collect();
        let few = [A, B, C];
        let lonely = [(0, 1), (2, 3), (4, 5), (6, 7)];
        assert_eq!(untried(&many, None), many);
        assert!(untried(&few, Some(&few)).is_empty() && untried(&lonely, None).is_empty());
        assert_eq!(untried(&[], Some(&lonely)), lonely);
        assert!(untried(&lonely[..1], Some(&lonely)).is_empty());
    }

    #[test]
    fn each_write_during_a_call_may_have_come_before_or_after() {
        // A or C or both before the call; none is what the engine itself assumes.
        assert_eq!(
            orderings(&[], Some(&[A, C])),
            [vec![A], vec![C], vec![A, C]]
        );
        // With B known before: alone with A two orders, with C two, with both six.
        assert_eq!(orderings(&[B], Some(&[A, B, C])).len(), 10);
    }
}
