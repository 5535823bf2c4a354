//! Disk usage after days of writes.
//!
//! The scenario: 5000 volumes, 200 updates per second, a retention of 24 hours, at most 256 MiB and at least
//! 10,000 revisions. Every size is divided by the same number, so that the proportions are the same; the
//! store's clock runs at the scenario's time, and two days pass.
//!
//! | `ORLOP_SOAK` | divided by | updates | |
//! |---|---|---|---|
//! | not set | 400 | 86,400 | seconds |
//! | `1` | 16 | 2,160,000 | minutes |
//! | `full` | 1 | 34,560,000 | hours |
//!
//! There are at least 100 volumes, so that commits form groups. Live data is the current values and the log.
//! The directory must stay below `8 x live data + 64 MiB` while it is written as fast as the served copy can be
//! fed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::embedded::space;
use crate::testing::{Sum, put};
use crate::{Embedded, Kv, ManualClock, Options, Retention};

const VALUE: usize = 700;
/// The bytes of an event besides its value: its key and its fields.
const BESIDE: usize = 80;
const PER_SECOND: i64 = 200;
const DAY: Duration = Duration::from_secs(24 * 3600);
const START: i64 = 1_700_000_000_000;
const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn directory_size_stays_bounded() {
    let part = match std::env::var("ORLOP_SOAK").as_deref() {
        Ok("full") => 1,
        Ok(_) => 16,
        Err(_) => 400,
    };
    let keys = (5000 / part).max(100);
    let updates = 2 * DAY.as_secs() as usize * PER_SECOND as usize / part;
    let clock = Arc::new(ManualClock::new(START));
    let plan = Options::default();
    let retention = Retention {
        age: DAY,
        revisions: plan.retention.revisions / part as u64,
        bytes: plan.retention.bytes / part as u64,
    };
    let options = Options {
        retention,
        retain_every: Duration::from_millis(10),
        snapshot_bytes: (plan.snapshot_bytes / part as u64).max(64 << 10),
        segment_bytes: (plan.segment_bytes / part as u64).max(64 << 10),
        ballast_bytes: Some(0),
        clock: clock.clone(),
        ..plan
    };
    let held = (keys * (VALUE + BESIDE)) as u64 + retention.bytes;
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::<Sum>::open(dir.path(), options.clone()).unwrap();
    let (mut largest, mut done, start) = (0, 0, Instant::now());
    while done < updates {
        // A group is as large as with many concurrent writers.
        let group = 0..keys.min(500);
        let writes = group.clone().map(|n| {
            let (key, nth) = ((done + n) % keys, done + n);
            put(&store, &format!("/r/p/{key}"), &format!("{nth} {}", "x".repeat(VALUE - 10)))
        });
        store.commit(writes.collect()).await.unwrap();
        done += group.len();
        // As fast as the served copy can be fed; at 200 updates per second it always keeps up.
        while store.past.backlog.bytes() > MIB as usize {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        clock.set(START + (done * part) as i64 * 1000 / PER_SECOND);
        largest = largest.max(space::allocated(dir.path()));
    }
    println!(
        "{done} updates in {:.1?}; held {:.1} MiB; at the most {:.1} MiB on disk",
        start.elapsed(),
        held as f64 / MIB as f64,
        largest as f64 / MIB as f64
    );
    assert!(largest < 8 * held + 64 * MIB, "{largest} bytes on disk for {held}");
    // Half of the updates are older than a day, and most exceed the retention.
    let most = (retention.bytes / VALUE as u64).max(retention.revisions) + 5000;
    let rests = Instant::now();
    loop {
        let kept = store.head().revision().0 - store.oldest().0;
        let bytes = space::allocated(dir.path());
        if kept < most && bytes < 3 * held + 24 * MIB {
            break;
        }
        let usage = format!("{kept} revisions kept, at most {most}; {bytes} bytes on disk for {held}");
        assert!(rests.elapsed() < Duration::from_secs(120), "{usage}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{:.1} MiB {:.1?} later", space::allocated(dir.path()) as f64 / MIB as f64, rests.elapsed());
    store.close().await;
    drop(store);
    let closed = space::allocated(dir.path());
    assert!(closed < 3 * held + 24 * MIB, "{closed} bytes on disk for {held}");
    let store = Embedded::<Sum>::open(dir.path(), options).unwrap();
    assert_eq!((store.head().revision().0, store.head().range("/r/p/", None).count()), (done as u64, keys));
    store.close().await;
}
