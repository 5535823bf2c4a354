//! Durations of many requests, and their percentiles.
//!
//! All durations are stored, in whole microseconds, so that percentiles are exact. Each takes four bytes, less
//! than its request. Pure.

use std::time::Duration;

/// Durations in microseconds, unordered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<u32>);

impl Samples {
    /// Allocates capacity for `n` durations.
    pub(crate) fn with_capacity(n: usize) -> Self {
        Samples(Vec::with_capacity(n))
    }

    /// Adds a duration. Durations of more than 71 minutes count as 71 minutes.
    pub(crate) fn record(&mut self, duration: Duration) {
        self.0.push(u32::try_from(duration.as_micros()).unwrap_or(u32::MAX));
    }

    /// Adds all durations of `other`.
    pub(crate) fn merge(&mut self, other: Samples) {
        if self.0.is_empty() {
            self.0 = other.0;
        } else {
            self.0.extend(other.0);
        }
    }

    /// The number of durations.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The percentiles, each between 0 and 100, in microseconds, by the nearest rank: the smallest duration that at
    /// least this percentage of durations do not exceed. Zero without durations.
    pub(crate) fn percentiles<const N: usize>(mut self, wanted: [f64; N]) -> [f64; N] {
        self.0.sort_unstable();
        let n = self.0.len();
        wanted.map(|percent| {
            let rank = (percent / 100.0 * n as f64).ceil() as usize;
            self.0.get(rank.clamp(1, n.max(1)) - 1).map_or(0.0, |micros| f64::from(*micros))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(micros: impl IntoIterator<Item = u64>) -> Samples {
        let mut samples = Samples::default();
        for value in micros {
            samples.record(Duration::from_micros(value));
        }
        samples
    }

    #[test]
    fn percentiles_use_the_nearest_rank() {
        let cases: [(&str, Vec<u64>, [f64; 4]); 6] = [
            ("1 nothing", vec![], [0.0; 4]),
            ("2 one", vec![7], [7.0; 4]),
            ("3 two", vec![9, 3], [3.0, 3.0, 9.0, 9.0]),
            ("4 a hundred, backwards", (1..=100).rev().collect(), [1.0, 50.0, 99.0, 100.0]),
            ("5 a thousand", (1..=1000).collect(), [1.0, 500.0, 990.0, 1000.0]),
            (
                "6 one slow of two hundred",
                [vec![10; 198], vec![5000; 2]].concat(),
                [10.0, 10.0, 10.0, 5000.0],
            ),
        ];
        for (case, values, want) in cases {
            assert_eq!(of(values).percentiles([0.0, 50.0, 99.0, 100.0]), want, "{case}");
        }
    }

    #[test]
    fn merged_samples_share_percentiles() {
        let mut all = of([1, 2]);
        all.merge(of([3, 4]));
        assert_eq!(all.len(), 4);
        assert_eq!(all.percentiles([50.0, 100.0]), [2.0, 4.0]);
    }

    #[test]
    fn long_durations_are_capped() {
        assert_eq!(of([u64::from(u32::MAX) + 5]).percentiles([50.0]), [f64::from(u32::MAX)]);
    }
}
