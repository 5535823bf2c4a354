//! Bytes on disk after many updates of few objects, once the log is trimmed as far as possible.
//!
//! The server retains revisions by number only (some thousands), not by age. The required data is every object
//! once and those revisions. The rest is overhead of the store: the journal until two snapshots cover it, the
//! snapshots, and partially filled pages.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::child::Role;
use crate::client::Draft;
use crate::environment::{Environment, IN_FLIGHT};
use crate::error::BenchError;
use crate::load::{Fill, Work};
use crate::objects::{self, Claim, VOLUMES};
use crate::process;
use crate::progress::progress;
use crate::report::{Case, Figure};

use super::Done;
use super::requests::patch;

/// Timeout for the size on disk to stop shrinking.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) async fn run(environment: &Environment) -> Result<Done, BenchError> {
    let plan = &environment.plan;
    let kept = plan.kept_revisions.to_string();
    let flags = ["--store-retention-age", "0s", "--store-retention-revisions", &kept];
    let mut server = environment.own(Role::Apiserver, &flags).await?;
    let prefix = environment.prefix("d");
    let volumes = plan.updated_objects;
    server.fill(VOLUMES, &objects::volume(&environment.run, Claim::None), &prefix, 0, volumes).await?;
    let named = prefix.clone();
    let fill: Fill = Arc::new(move |number, draft| patch(draft, &named, number, volumes));
    let work = Work { in_flight: IN_FLIGHT, wanted: &[200], fill };
    let load = server.load(&work, 0, plan.updates).await;
    let problems: Vec<String> = load.problem("disk").into_iter().collect();

    progress("disk: waiting until the log is trimmed ...");
    let list = server.once(&Draft::of("GET", VOLUMES), &[200]).await?;
    let live = list.len() as f64;
    let log = live / volumes.max(1) as f64 * plan.kept_revisions.min(plan.updates + volumes) as f64;
    let mut cases = Vec::new();
    if let Some(data) = server.data() {
        cases.push(case("running", calm(data, plan.calm).await, live, log));
    }
    if let Some(child) = server.child.take() {
        child.stop().await?;
    }
    if let Some(data) = server.data() {
        cases.push(case("stopped", process::allocated(data), live, log));
    }
    server.done();
    Ok(Done { cases, problems })
}

/// Waits until the size has not shrunk for `calm`, and returns it.
async fn calm(data: &Path, calm: Duration) -> u64 {
    let begin = Instant::now();
    let mut least = process::allocated(data);
    let mut since = Instant::now();
    while since.elapsed() < calm && begin.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let now = process::allocated(data);
        if now < least {
            (least, since) = (now, Instant::now());
        }
    }
    process::allocated(data)
}

fn case(name: &str, bytes: u64, live: f64, log: f64) -> Case {
    let bytes = bytes as f64;
    let figures = vec![
        Figure::new("disk_mb", "on disk", "MB", bytes / 1e6),
        Figure::new("live_mb", "live objects", "MB", live / 1e6),
        Figure::new("log_mb", "retained revisions", "MB", log / 1e6),
        Figure::new("ratio", "on disk / (live + retained)", "", bytes / (live + log).max(1.0)),
    ];
    Case { name: name.to_owned(), server: figures, against: Vec::new() }
}
