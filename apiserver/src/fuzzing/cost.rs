//! Bounds on the cost of one input: the processor time of the thread, the bytes that it allocates, and the most bytes
//! that it holds at a time. Each bound is linear in the length of the input.
//!
//! The bounds are generous: about four times the cost of the worst seeds in a build without optimization. The tests also
//! compare each of those seeds with a longer one of the same form, which finds quadratic work that costs little.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use allocation_counter::measure;
use orlop_apimachinery::thread_time::ThreadTime;

/// How often an input that costs too much is run again before it fails: caches are filled by the first run, and other
/// load of the machine makes a run slower.
const CONFIRMATIONS: usize = 2;
/// Maximum length of an input in a message, characters.
const SHOWN: usize = 2_000;

/// The maximum cost of an input, by its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// Processor time of any input, and for each byte, in microseconds and nanoseconds.
    pub(super) micros: u64,
    pub(super) nanos_per_byte: u64,
    /// Bytes allocated for any input, and for each byte.
    pub(super) allocated: u64,
    pub(super) allocated_per_byte: u64,
    /// Bytes held at a time for any input, and for each byte.
    pub(super) held: u64,
    pub(super) held_per_byte: u64,
}

/// The cost of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) time: Duration,
    pub(super) allocated: u64,
    pub(super) held: u64,
}

impl Bound {
    /// The most that an input of a length may cost.
    fn at(&self, length: usize) -> Cost {
        let length = length as u64;
        Cost {
            time: Duration::from_micros(self.micros) + Duration::from_nanos(self.nanos_per_byte * length),
            allocated: self.allocated + self.allocated_per_byte * length,
            held: self.held + self.held_per_byte * length,
        }
    }

    /// Runs a target on an input.
    ///
    /// # Panics
    /// The input costs more, also when it is run again.
    pub(super) fn check(&self, target: &str, input: &[u8], run: impl Fn(&[u8])) {
        let most = self.at(input.len());
        let mut least = cost(|| run(input));
        for _ in 0..CONFIRMATIONS {
            if least.is_within(most) {
                return;
            }
            least = least.min(cost(|| run(input)));
        }
        assert!(
            least.is_within(most),
            "{target}: an input of {} bytes costs {least:?}, and may cost {most:?}: {}",
            input.len(),
            shown(input)
        );
    }

    /// Runs a target on an input, and on a longer one of the same form.
    ///
    /// # Panics
    /// The longer input costs more than the bound, or more than [`SLACK`] allows, also when it is run again.
    #[cfg(test)]
    pub(super) fn check_growth(&self, target: &str, short: &[u8], long: &[u8], run: impl Fn(&[u8])) {
        let most = self.at(long.len());
        let longer = long.len().div_ceil(short.len().max(1)) as u64;
        let times = |cost: Cost| Cost {
            time: cost.time.max(LEAST.time).mul_f64((SLACK.0 * longer) as f64),
            allocated: cost.allocated.max(LEAST.allocated) * SLACK.1 * longer,
            held: cost.held.max(LEAST.held) * SLACK.1 * longer,
        };
        let mut costs = Vec::new();
        for _ in 0..=CONFIRMATIONS {
            let (small, large) = (cost(|| run(short)), cost(|| run(long)));
            if large.is_within(most) && large.is_within(times(small)) {
                return;
            }
            costs.push((small, large));
        }
        panic!(
            "{target}: {} bytes cost much more than {} bytes, and may cost {most:?}: {costs:?}: {}",
            long.len(),
            short.len(),
            shown(long)
        );
    }
}

/// The least cost from which on growth is measured: below, the clock and what all inputs cost dominate.
#[cfg(test)]
const LEAST: Cost = Cost { time: Duration::from_millis(1), allocated: 64 << 10, held: 64 << 10 };
/// How much faster the time and the memory of a longer input may grow than its length. A list that is decoded gets its
/// final capacity at once if it is short, and is copied several times if it is long.
#[cfg(test)]
const SLACK: (u64, u64) = (2, 4);

fn shown(input: &[u8]) -> String {
    String::from_utf8_lossy(input).chars().take(SHOWN).collect()
}

impl Cost {
    fn is_within(self, most: Cost) -> bool {
        self.time <= most.time && self.allocated <= most.allocated && self.held <= most.held
    }

    fn min(self, other: Cost) -> Cost {
        Cost {
            time: self.time.min(other.time),
            allocated: self.allocated.min(other.allocated),
            held: self.held.min(other.held),
        }
    }
}

/// Measures a run on this thread.
pub(super) fn cost(run: impl FnOnce()) -> Cost {
    let mut outcome = Ok(());
    let started = ThreadTime::start();
    // The counter would not notice that a panic ends the measurement.
    let allocations = measure(|| outcome = catch_unwind(AssertUnwindSafe(run)));
    let time = started.spent();
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
    Cost { time, allocated: allocations.bytes_total, held: allocations.bytes_max }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    const BOUND: Bound = Bound {
        micros: 2_000,
        nanos_per_byte: 500,
        allocated: 10_000,
        allocated_per_byte: 50,
        held: 10_000,
        held_per_byte: 20,
    };

    /// Admits anything.
    const WIDE: Bound = Bound { micros: 1 << 32, allocated: 1 << 40, held: 1 << 40, ..BOUND };

    fn message(run: impl Fn(&[u8])) -> Option<String> {
        let input = vec![b'x'; 5_000];
        let panic = catch_unwind(AssertUnwindSafe(|| BOUND.check("a target", &input, run))).err()?;
        panic.downcast_ref::<String>().cloned()
    }

    #[test]
    fn linear_work_is_within_a_bound() {
        let linear = |input: &[u8]| {
            let copy = input.to_vec();
            assert_eq!(black_box(copy.iter().filter(|byte| **byte == b'x').count()), input.len());
        };
        assert_eq!(message(linear), None);
    }

    #[test]
    fn quadratic_work_exceeds_a_bound() {
        let time = |input: &[u8]| {
            for byte in input {
                black_box(input.iter().filter(|other| *other == byte).count());
            }
        };
        let allocated = |input: &[u8]| {
            for _ in input {
                drop(black_box(input.to_vec()));
            }
        };
        let held = |input: &[u8]| {
            // Within the bounds of time and allocated bytes, but beyond the bound of bytes in use at a time.
            drop(black_box(vec![0u8; input.len() * 30]));
        };
        let copies = |input: &[u8]| drop(black_box(input.iter().map(|_| input.to_vec()).collect::<Vec<_>>()));
        for (case, message) in [
            ("time", message(time)),
            ("allocated", message(allocated)),
            ("held", message(held)),
            ("copies", message(copies)),
        ] {
            let message = message.unwrap_or_else(|| panic!("{case} is within the bound"));
            let start = "a target: an input of 5000 bytes costs Cost";
            assert!(message.starts_with(start) && message.ends_with("xxx"), "{case}: {message}");
        }
    }

    #[test]
    fn quadratic_work_grows_too_fast() {
        let (short, long) = (vec![b'x'; 500], vec![b'x'; 4_000]);
        let growth = |run: &dyn Fn(&[u8])| {
            let check = || WIDE.check_growth("a target", &short, &long, run);
            catch_unwind(AssertUnwindSafe(check)).is_ok()
        };
        let pairs = |input: &[u8]| {
            for byte in input {
                black_box(input.iter().filter(|other| *other == byte).count());
            }
        };
        assert!(!growth(&pairs));
        assert!(!growth(&|input| drop(black_box(vec![0u8; input.len() * input.len()]))));
        assert!(growth(&|input| drop(black_box(vec![0u8; input.len() * 100]))));
    }

    #[test]
    fn first_run_may_cost_more() {
        let runs = std::cell::Cell::new(0);
        let warms_up = |input: &[u8]| {
            runs.set(runs.get() + 1);
            let factor = if runs.get() == 1 { 1_000 } else { 1 };
            drop(black_box(vec![0u8; input.len() * factor]));
        };
        assert_eq!(message(warms_up), None);
        assert_eq!(runs.get(), 2);
    }

    #[test]
    fn panic_of_a_run_is_passed_on() {
        for _ in 0..100 {
            assert_eq!(message(|_| panic!("{}", "a finding")), Some("a finding".to_owned()));
        }
        assert!(cost(|| drop(black_box(vec![0u8; 100]))).allocated >= 100);
    }
}
