//! When writes are due: the schedule of an open loop, and the order in which servers take turns. Pure.
//!
//! A closed loop waits for a slow server before it sends the next request, and so omits exactly the requests
//! that would have waited. In an open loop, each write has a due time that does not depend on earlier writes.

use std::time::Duration;

/// Evenly spaced points in time, relative to the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    per_second: u32,
}

impl Schedule {
    /// `per_second` points per second; at least one.
    pub(crate) fn new(per_second: u32) -> Self {
        Schedule { per_second: per_second.max(1) }
    }

    /// The number of points per second.
    pub(crate) fn per_second(self) -> u32 {
        self.per_second
    }

    /// When write `index` is due. Computed from the index, so that rounding errors do not accumulate.
    pub(crate) fn due(self, index: usize) -> Duration {
        let nanos = index as u128 * 1_000_000_000 / u128::from(self.per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The order of `rounds` rounds on each of `sides` servers. Every other round is reversed, so that a machine
/// that becomes slower or faster affects all servers alike.
pub(crate) fn turns(rounds: usize, sides: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(rounds * sides);
    for round in 0..rounds {
        if round % 2 == 0 {
            order.extend(0..sides);
        } else {
            order.extend((0..sides).rev());
        }
    }
    order
}

/// The size of part `part` when `n` is divided into `parts` parts that differ by at most one.
pub(crate) fn share(n: usize, parts: usize, part: usize) -> usize {
    let parts = parts.max(1);
    n / parts + usize::from(part < n % parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_are_evenly_spaced() {
        for (per_second, index, micros) in [
            (200, 0, 0),
            (200, 1, 5_000),
            (200, 4_000, 20_000_000),
            (3, 1, 333_333),
            (3, 3, 1_000_000),
            (0, 2, 2_000_000),
        ] {
            let got = Schedule::new(per_second).due(index);
            assert_eq!(got.as_micros(), micros, "number {index} of {per_second} per second");
        }
    }

    #[test]
    fn turns_reverse_every_round() {
        assert_eq!(turns(1, 1), [0]);
        assert_eq!(turns(3, 1), [0, 0, 0]);
        assert_eq!(turns(3, 2), [0, 1, 1, 0, 0, 1]);
        assert!(turns(0, 2).is_empty());
    }

    #[test]
    fn shares_add_up_to_the_total() {
        for (n, parts, want) in [(10, 3, vec![4, 3, 3]), (2, 3, vec![1, 1, 0]), (9, 1, vec![9])] {
            let got: Vec<usize> = (0..parts).map(|part| share(n, parts, part)).collect();
            assert_eq!(got, want, "{n} in {parts}");
            assert_eq!(got.iter().sum::<usize>(), n);
        }
    }
}
