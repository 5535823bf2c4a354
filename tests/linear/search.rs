//! Searches for an order of concurrent operations that explains their answers: the algorithm of Wing and Gong
//! with Lowe's cache of visited states. It does not use revisions.

use std::collections::HashSet;
use std::hash::Hash;

use super::history::At;

/// An operation on one object: it took effect at one instant between its call and its return.
#[derive(Clone, Debug)]
pub(crate) struct Timed<A> {
    pub(crate) call: At,
    /// `None` if it is unknown whether it took effect at all.
    pub(crate) ret: Option<At>,
    pub(crate) act: A,
}

/// The object on which operations act.
pub(crate) trait Model {
    type Act;
    type State: Clone + Eq + Hash;

    /// The state after an operation, if the operation is possible in the current state.
    fn step(&self, act: &Self::Act, state: &Self::State) -> Option<Self::State>;
}

/// A call or a return, in a list of those that are not yet ordered.
struct Node {
    operation: usize,
    is_call: bool,
    /// Of a call: the index of its return.
    ret: usize,
    previous: usize,
    next: usize,
}

/// Returns an order that explains all operations (their indices), or the operations that could not extend the
/// longest partial order.
pub(crate) fn explain<M: Model>(
    model: &M,
    initial: M::State,
    operations: &[Timed<M::Act>],
) -> Result<Vec<usize>, Vec<usize>> {
    let mut list = List::of(operations);
    let mut wanted = operations.iter().filter(|operation| operation.ret.is_some()).count();
    let mut tried: HashSet<(u128, M::State)> = HashSet::new();
    let (mut state, mut done) = (initial, 0_u128);
    let mut order: Vec<(usize, M::State, u128)> = Vec::new();
    let mut stuck: (usize, Vec<usize>) = (0, Vec::new());
    let mut at = list.first();
    while wanted > 0 {
        let node = &list.nodes[at];
        // The end of the list counts as a return.
        let returned = at == List::END || !node.is_call;
        if !returned {
            let operation = node.operation;
            let next = model.step(&operations[operation].act, &state);
            let with = done ^ mark(operation);
            if let Some(next) = next.filter(|next| tried.insert((with, next.clone()))) {
                order.push((at, std::mem::replace(&mut state, next), std::mem::replace(&mut done, with)));
                wanted -= usize::from(operations[operation].ret.is_some());
                list.lift(at);
                at = list.first();
            } else {
                at = node.next;
            }
            continue;
        }
        if order.len() >= stuck.0 {
            stuck = (order.len(), list.open());
        }
        // An operation that has returned must already be in the order: undo the last choice.
        let Some((last, before, without)) = order.pop() else { return Err(stuck.1) };
        (state, done) = (before, without);
        list.put_back(last);
        wanted += usize::from(operations[list.nodes[last].operation].ret.is_some());
        at = list.nodes[last].next;
    }
    Ok(order.iter().map(|(node, _, _)| list.nodes[*node].operation).collect())
}

/// A set of operations is identified by the sum of these marks; a collision of two sets is as unlikely as a
/// memory error.
fn mark(operation: usize) -> u128 {
    let mut mixed = 0;
    for part in 0..2_u64 {
        let mut x = (operation as u64 * 2 + part).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed = (mixed << 64) | u128::from(x ^ (x >> 31));
    }
    mixed
}

/// Calls and returns in the order of time. An operation is removed from the list when it is ordered, and restored
/// when the choice is undone.
struct List {
    nodes: Vec<Node>,
}

impl List {
    /// The head and the tail are the same node.
    const END: usize = 0;

    fn of<A>(operations: &[Timed<A>]) -> List {
        // Calls come first among equal instants: operations that cannot be ordered by time are concurrent.
        let mut moments: Vec<(At, bool, usize)> = Vec::new();
        for (index, operation) in operations.iter().enumerate() {
            moments.push((operation.call, false, index));
            moments.push((operation.ret.unwrap_or(At::MAX), true, index));
        }
        moments.sort_unstable();
        let node = |operation, is_call, at: usize| Node {
            operation,
            is_call,
            ret: List::END,
            previous: at.saturating_sub(1),
            next: at + 1,
        };
        let mut nodes = vec![node(0, false, 0)];
        let mut calls = vec![List::END; operations.len()];
        for (_, is_return, operation) in moments {
            let at = nodes.len();
            nodes.push(node(operation, !is_return, at));
            if is_return {
                nodes[calls[operation]].ret = at;
            } else {
                calls[operation] = at;
            }
        }
        let last = nodes.len() - 1;
        nodes[List::END].previous = last;
        nodes[last].next = List::END;
        List { nodes }
    }

    fn first(&self) -> usize {
        self.nodes[List::END].next
    }

    fn lift(&mut self, call: usize) {
        for at in [call, self.nodes[call].ret] {
            let (previous, next) = (self.nodes[at].previous, self.nodes[at].next);
            self.nodes[previous].next = next;
            self.nodes[next].previous = previous;
        }
    }

    fn put_back(&mut self, call: usize) {
        for at in [self.nodes[call].ret, call] {
            let (previous, next) = (self.nodes[at].previous, self.nodes[at].next);
            self.nodes[previous].next = at;
            self.nodes[next].previous = at;
        }
    }

    /// The operations that are called before the first return.
    fn open(&self) -> Vec<usize> {
        let mut open = Vec::new();
        let mut at = self.first();
        while at != List::END && self.nodes[at].is_call {
            open.push(self.nodes[at].operation);
            at = self.nodes[at].next;
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A compare-and-set register.
    struct Register;

    #[derive(Clone, Copy, Debug)]
    enum Act {
        Write(u8),
        Read(u8),
        /// From, to, and whether it succeeded.
        Swap(u8, u8, bool),
    }
    use Act::{Read, Swap, Write};

    impl Model for Register {
        type Act = Act;
        type State = u8;
        fn step(&self, act: &Act, state: &u8) -> Option<u8> {
            match *act {
                Write(value) => Some(value),
                Read(value) => (value == *state).then_some(*state),
                Swap(from, to, true) => (from == *state).then_some(to),
                Swap(from, _, false) => (from != *state).then_some(*state),
            }
        }
    }

    /// A name, whether an order exists, and calls, returns and acts.
    type Case = (&'static str, bool, &'static [(At, Option<At>, Act)]);

    #[test]
    fn register_histories_are_explained_or_rejected() {
        #[rustfmt::skip]
        let cases: &'static [Case] = &[
            ("1 one behind the other", true, &[(1, Some(2), Write(1)), (3, Some(4), Read(1))]),
            ("2 a stale read", false, &[(1, Some(2), Write(1)), (3, Some(4), Read(0))]),
            ("3 a read beside the write sees either", true,
                &[(1, Some(6), Write(1)), (2, Some(3), Read(0)), (4, Some(5), Read(1))]),
            ("4 but not the new one first", false,
                &[(1, Some(6), Write(1)), (2, Some(3), Read(1)), (4, Some(5), Read(0))]),
            ("5 a swap that must have failed", false, &[(1, Some(2), Write(1)), (3, Some(4), Swap(0, 2, true))]),
            ("6 a swap that cannot have failed", false, &[(1, Some(2), Write(1)), (3, Some(4), Swap(1, 2, false))]),
            ("7 two swaps from the same", false, &[(1, Some(4), Swap(0, 1, true)), (2, Some(3), Swap(0, 2, true))]),
            ("8 one of them lost", true, &[(1, Some(4), Swap(0, 1, true)), (2, Some(3), Swap(0, 2, false))]),
            ("9 unknown and never seen", true, &[(1, None, Write(1)), (2, Some(3), Read(0)), (9, Some(10), Read(0))]),
            ("10 unknown and seen late", true, &[(1, None, Write(1)), (2, Some(3), Read(0)), (9, Some(10), Read(1))]),
            ("11 unknown, seen and gone again", false,
                &[(1, None, Write(1)), (2, Some(3), Read(1)), (4, Some(5), Read(0))]),
            ("12 unknown, but seen before it was sent", false, &[(1, Some(2), Read(1)), (3, None, Write(1))]),
            ("13 equal instants are concurrent", true, &[(1, Some(3), Write(1)), (3, Some(4), Read(0))]),
            ("14 it takes a choice back", true,
                &[(1, Some(9), Write(1)), (2, Some(8), Write(2)), (3, Some(7), Write(3)), (10, Some(11), Read(1)),
                  (4, Some(5), Read(2)), (6, Some(6), Read(3))]),
        ];
        for (name, wanted, operations) in cases {
            let timed: Vec<_> = operations
                .iter()
                .map(|(call, ret, act)| Timed { call: *call, ret: *ret, act: *act })
                .collect();
            let found = explain(&Register, 0, &timed);
            assert_eq!(found.is_ok(), *wanted, "{name}: {found:?}");
        }
    }

    #[test]
    fn long_histories_are_searched_quickly() {
        // Concurrent writers in lockstep: without the cache of visited states, the search would take exponential time.
        let mut timed = Vec::new();
        for round in 0..100 {
            let call = round * 100;
            timed.extend((0..6).map(|n| Timed {
                call: call + u64::from(n),
                ret: Some(call + 50),
                act: Write(n),
            }));
            timed.push(Timed { call: call + 60, ret: Some(call + 61), act: Read(3) });
        }
        timed.push(Timed { call: 100_000, ret: Some(100_001), act: Read(4) });
        assert_eq!(explain(&Register, 0, &timed), Err(vec![timed.len() - 1]));
        timed.pop();
        assert!(explain(&Register, 0, &timed).is_ok());
    }
}
