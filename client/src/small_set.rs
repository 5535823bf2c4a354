//! A set that nearly always has one element, and sometimes many: a `BTreeSet` of one element takes the memory of eleven.

use std::borrow::Borrow;
use std::collections::{BTreeSet, btree_set};
use std::ops::Bound;

/// An ordered set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Few<T> {
    /// No element.
    #[default]
    None,
    /// One element.
    One(T),
    /// Any number of elements; boxed, so that a single element takes little space.
    Many(Box<BTreeSet<T>>),
}

impl<T: Ord> Few<T> {
    /// Adds an element.
    pub fn insert(&mut self, element: T) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(element),
            Self::One(old) if old == element => Self::One(old),
            Self::One(old) => Self::Many(Box::new(BTreeSet::from([old, element]))),
            Self::Many(mut set) => {
                set.insert(element);
                Self::Many(set)
            }
        };
    }

    /// Removes an element.
    pub fn remove<Q>(&mut self, element: &Q)
    where
        T: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        match self {
            Self::None => {}
            Self::One(old) if (*old).borrow() == element => *self = Self::None,
            Self::One(_) => {}
            Self::Many(set) => {
                set.remove(element);
                if set.len() < 2 {
                    *self = set.pop_first().map_or(Self::None, Self::One);
                }
            }
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The elements in order.
    pub fn iter(&self) -> Iter<'_, T> {
        self.range::<T>(Bound::Unbounded)
    }

    /// The elements in order, starting at `from`.
    pub fn range<Q>(&self, from: Bound<&Q>) -> Iter<'_, T>
    where
        T: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let begins = |element: &&T| match from {
            Bound::Included(first) => (**element).borrow() >= first,
            Bound::Excluded(before) => (**element).borrow() > before,
            Bound::Unbounded => true,
        };
        match self {
            Self::None => Iter::One(None),
            Self::One(element) => Iter::One(Some(element).filter(begins)),
            Self::Many(set) => Iter::Many(set.range((from, Bound::Unbounded))),
        }
    }
}

impl<'a, T: Ord> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// See [`Few::iter`].
#[derive(Debug)]
pub enum Iter<'a, T> {
    /// At most one element.
    One(Option<&'a T>),
    /// The remaining elements of a larger set.
    Many(btree_set::Range<'a, T>),
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        match self {
            Self::One(element) => element.take(),
            Self::Many(elements) => elements.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn behaves_like_a_set() {
        let seed = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let (mut few, mut set) = (Few::default(), BTreeSet::new());
        for _ in 0..10_000 {
            let element = random.random_range(0..4_u8);
            if random.random() {
                few.insert(element);
                set.insert(element);
            } else {
                few.remove(&element);
                set.remove(&element);
            }
            assert!(few.iter().eq(&set), "seed {seed}: {few:?} {set:?}");
            assert_eq!(few.is_empty(), set.is_empty(), "seed {seed}");
            for from in [Bound::Included(&element), Bound::Excluded(&element)] {
                assert!(
                    few.range(from).eq(set.range((from, Bound::Unbounded))),
                    "seed {seed}: {from:?} {few:?}"
                );
            }
        }
    }
}
