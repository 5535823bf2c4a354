//! Releases the pages of the program while the process is idle, so that a small machine has its memory for others.
//!
//! Starting a server touches most of its code, and so does a burst of requests; an idle server needs about a tenth of it.

use std::fs;
use std::time::Duration;

use orlop_program_pages::{ProgramPages, resident_file_bytes};

/// The time between looks at a process that works, and the longest one.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(4);
/// A process that used less than this share of one processor since the last look is idle.
const IDLE_SHARE: u32 = 20;
/// The unit of processor times in /proc: `USER_HZ` is 100 on all platforms of this program.
const TICK: Duration = Duration::from_millis(10);
/// The pages of files that an idle process may keep, bytes: what it uses while it waits, and the C library.
const KEPT: u64 = 16 << 20;

/// Looks at this process until it ends.
pub(crate) async fn release_while_idle() {
    let program = match ProgramPages::of_this_process() {
        Ok(program) => program,
        Err(error) => {
            tracing::debug!("the pages of the program are never released: {error}");
            return;
        }
    };
    let mut wait = SHORTEST;
    loop {
        let before = processor_time();
        tokio::time::sleep(wait).await;
        let used = processor_time().saturating_sub(before);
        let action = decide(used, wait, || resident_file_bytes().unwrap_or_default());
        if action == Action::Release
            && let Err(error) = program.release()
        {
            tracing::debug!("the pages of the program cannot be released: {error}");
            return;
        }
        wait = match action {
            Action::Release | Action::Works => SHORTEST,
            Action::Keep => (wait * 2).min(LONGEST),
        };
    }
}

/// What to do after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The process works and needs its pages.
    Works,
    /// The process is idle and keeps few pages.
    Keep,
    /// The process is idle and keeps many pages.
    Release,
}

/// Decides for a process that used the processor time `used` during `wait`.
fn decide(used: Duration, wait: Duration, resident: impl FnOnce() -> u64) -> Action {
    if used * IDLE_SHARE >= wait {
        Action::Works
    } else if resident() <= KEPT {
        Action::Keep
    } else {
        Action::Release
    }
}

/// The processor time of all threads of this process so far, in steps of 10 ms; zero if /proc is not readable.
fn processor_time() -> Duration {
    fs::read_to_string("/proc/self/stat").ok().and_then(|stat| time_in(&stat)).unwrap_or_default()
}

/// The sum of `utime` and `stime` of proc_pid_stat(5): the 12th and 13th fields after the name, which may contain anything.
fn time_in(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = times.next()?.ok()? + times.next()?.ok()?;
    Some(TICK * u32::try_from(ticks).ok()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_an_idle_process_with_many_pages_releases_them() {
        let second = Duration::from_secs(1);
        let cases = [
            (Duration::from_millis(50), KEPT + 1, Action::Works),
            (Duration::from_millis(49), KEPT + 1, Action::Release),
            (Duration::from_millis(49), KEPT, Action::Keep),
            (Duration::ZERO, 0, Action::Keep),
            (8 * second, KEPT + 1, Action::Works),
        ];
        for (used, resident, expected) in cases {
            assert_eq!(decide(used, second, || resident), expected, "{used:?} {resident}");
        }
    }

    #[test]
    fn processor_time_is_read() {
        let stat = "7 (a) b) R 1 7 7 0 -1 4194560 1 0 0 0 21 4 900 900 20 0 1 0 1 2 3";
        assert_eq!(time_in(stat), Some(Duration::from_millis(250)));
        assert_eq!(time_in("7 (a) R 1"), None);
        assert!(time_in(&fs::read_to_string("/proc/self/stat").unwrap()).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn process_continues_after_its_pages_are_released() {
        let looks = tokio::time::timeout(Duration::from_secs(60), release_while_idle());
        looks.await.expect_err("the looks have no end");
        ProgramPages::of_this_process().unwrap().release().unwrap();
    }
}
