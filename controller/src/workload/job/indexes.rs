//! Sets of indexes, as `status.completedIndexes` shows them: `1,3-5,7`. Pure functions.

use std::collections::BTreeSet;
use std::fmt;

/// The first and the last index of an interval.
type Interval = (i64, i64);

/// A set of indexes, as ordered intervals that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexes(Vec<Interval>);

impl Indexes {
    /// Parses a list. Skips damaged intervals, and indexes that are not less than `limit`: an indexed Job can be scaled down.
    pub fn parse(text: &str, limit: i64) -> Self {
        let interval = |text: &str| -> Option<Interval> {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last): Interval = (first.parse().ok()?, last.parse().ok()?);
            let last = last.min(limit - 1);
            (0 <= first && first <= last).then_some((first, last))
        };
        Self::of(text.split(',').filter_map(interval).collect())
    }

    fn of(mut intervals: Vec<Interval>) -> Self {
        intervals.sort_unstable();
        let mut joined: Vec<Interval> = Vec::with_capacity(intervals.len());
        for (first, last) in intervals {
            match joined.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }

    /// The set with more indexes.
    pub fn with(&self, more: &BTreeSet<i64>) -> Self {
        self.union(&Self(more.iter().map(|index| (*index, *index)).collect()))
    }

    /// The indexes that are in one of the sets.
    pub fn union(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied().collect())
    }

    /// The number of indexes.
    pub fn len(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Whether the set has no index.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set has this index.
    pub fn contains(&self, index: i64) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// The number of indexes that are in both sets.
    pub fn common(&self, other: &Self) -> i64 {
        let (mut mine, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = 0;
        while let (Some(one), Some(two)) = (mine.peek(), others.peek()) {
            common += (one.1.min(two.1) - one.0.max(two.0) + 1).max(0);
            if one.1 <= two.1 {
                mine.next()
            } else {
                others.next()
            };
        }
        common
    }

    /// The first `count` indexes less than `limit` that are not in the set.
    pub fn first_missing(&self, count: usize, limit: i64) -> Vec<i64> {
        let (mut missing, mut next) = (Vec::new(), 0);
        for (first, last) in self.0.iter().copied().chain([(limit, limit)]) {
            let left = count - missing.len();
            missing.extend((next..first.min(limit)).take(left));
            next = next.max(last.saturating_add(1));
        }
        missing
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_and_shown() {
        for (text, limit, shown, len) in [
            ("", 10, "", 0),
            ("0", 10, "0", 1),
            ("1,3-5,7", 10, "1,3-5,7", 5),
            ("1,2", 10, "1,2", 2),
            ("1-2,3", 10, "1-3", 3),
            ("1,3-9,12", 5, "1,3,4", 3),
            ("x,2,3-y,-1,5-4,4", 10, "2,4", 2),
        ] {
            let indexes = Indexes::parse(text, limit);
            assert_eq!((indexes.to_string().as_str(), indexes.len()), (shown, len), "{text}");
        }
    }

    #[test]
    fn sets_are_joined_and_compared() {
        for (one, two, union, common) in [
            ("", "1", "1", 0),
            ("1,3", "2", "1-3", 0),
            ("1-5", "2,4-7", "1-7", 3),
            ("0-2,8", "1-8", "0-8", 3),
        ] {
            let (one, two) = (Indexes::parse(one, 20), Indexes::parse(two, 20));
            assert_eq!((one.union(&two).to_string(), one.common(&two)), (union.to_owned(), common));
            assert_eq!((two.union(&one).to_string(), two.common(&one)), (union.to_owned(), common));
            assert!(
                (0..20)
                    .all(|index| one.union(&two).contains(index)
                        == (one.contains(index) || two.contains(index)))
            );
        }
    }

    #[test]
    fn missing_indexes_are_the_lowest() {
        for (set, count, limit, wanted) in [
            ("", 2, 5, &[0, 1][..]),
            ("0,2", 2, 5, &[1, 3]),
            ("0-3", 3, 5, &[4]),
            ("0-4", 3, 5, &[]),
            ("3", 0, 5, &[]),
        ] {
            assert_eq!(Indexes::parse(set, limit).first_missing(count, limit), wanted, "{set}");
        }
    }
}
