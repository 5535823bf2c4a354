//! Resident memory of the server with its controllers: empty, and with a growing number of volumes.
//!
//! Memory is measured when the controllers have made all volumes Available and the server has settled, so that
//! allocators have released unused memory. With all volumes created, the row also requests an explanation of a
//! Pending claim that no volume satisfies: the first response builds the compact table of all volumes, the others
//! read it.

use std::time::{Duration, Instant};

use crate::child::{Child, Role};
use crate::client::Draft;
use crate::environment::{Environment, Server, SharedData};
use crate::error::BenchError;
use crate::follow::Follower;
use crate::objects::{self, Claim, VOLUMES};
use crate::process;
use crate::progress::progress;
use crate::report::{Case, Figure};
use crate::samples::Samples;

use super::Done;

pub(super) async fn run(environment: &Environment) -> Result<Done, BenchError> {
    let mut server = environment.own(Role::Serve, &[]).await?;
    let prefix = environment.prefix("m");
    let mut cases = vec![look(environment, &server, 0).await];
    let mut made = 0;
    for volumes in &environment.plan.kept {
        progress(&format!("memory: {volumes} volumes ..."));
        fill(environment, &server, &prefix, made, *volumes).await?;
        made = *volumes;
        cases.push(look(environment, &server, made).await);
    }
    // After the last measurement, because the cache for explanations is not part of an idle server's memory.
    if let Some(case) = cases.last_mut() {
        case.server.extend(why(environment, &server).await?);
    }
    if let (Some(child), Some(data)) = (server.child.take(), server.data()) {
        child.stop().await?;
        environment.keep(SharedData { data: data.to_owned(), volumes: made });
    }
    let mut problems = Vec::new();
    if cases.iter().any(|case| case.server.len() < 3) {
        problems.push("memory: the kernel does not report the memory of the server".to_owned());
    }
    Ok(Done { cases, problems })
}

/// Creates volumes up to the number `until`, and waits for the controllers.
pub(super) async fn fill(
    environment: &Environment,
    server: &Server,
    prefix: &str,
    from: usize,
    until: usize,
) -> Result<(), BenchError> {
    let n = until - from;
    let revision = server.revision(VOLUMES).await?;
    // Each batch has its own prefix and counts from zero, because a `Follower` expects the numbers `0..n`.
    let prefix = format!("{prefix}{from}-");
    let follower = Follower::start(&server.endpoint, VOLUMES, revision, &prefix, "Available", n);
    server.fill(VOLUMES, &objects::volume(&environment.run, Claim::None), &prefix, 0, n).await?;
    follower.all(Duration::from_secs(60 + n as u64 / 100)).await?;
    Ok(())
}

/// The number of requests for an explanation.
const QUESTIONS: usize = 20;

/// Measures how long it takes to explain why a claim is Pending among all these volumes.
async fn why(environment: &Environment, server: &Server) -> Result<Vec<Figure>, BenchError> {
    let name = objects::name(&environment.prefix("why"), 0);
    let claims = objects::claims("default");
    let mut draft = Draft::of("POST", claims.clone());
    draft.content_type = "application/json";
    objects::claim_of(&environment.run, "900Gi").fill(&mut draft.body, &name);
    server.once(&draft, &[201]).await?;
    let ask =
        Draft::of("GET", format!("/apis/orlop.dev/v1/namespaces/default/persistentvolumeclaims/{name}/why"));
    let begun = Instant::now();
    server.once(&ask, &[200]).await?;
    let first = begun.elapsed();
    let mut samples = Samples::with_capacity(QUESTIONS);
    for _ in 0..QUESTIONS {
        let begun = Instant::now();
        server.once(&ask, &[200]).await?;
        samples.record(begun.elapsed());
    }
    server.once(&Draft::of("DELETE", format!("{claims}/{name}")), &[200]).await?;
    let [p50, max] = samples.percentiles([50.0, 100.0]);
    Ok(vec![
        Figure::new("why_first_ms", "the first why of a claim", "ms", first.as_secs_f64() * 1e3),
        Figure::new("why_p50_ms", "why of a claim, p50", "ms", p50 / 1e3),
        Figure::new("why_max_ms", "the slowest", "ms", max / 1e3),
    ])
}

async fn look(environment: &Environment, server: &Server, volumes: usize) -> Case {
    tokio::time::sleep(environment.plan.quiet).await;
    let mut figures = vec![Figure::new("volumes", "volumes", "", volumes as f64)];
    if let Some(bytes) = server.child.as_ref().map(Child::pid).and_then(process::resident) {
        figures.push(Figure::new("rss_mb", "resident memory", "MB", bytes as f64 / 1e6));
    }
    if let Some(data) = server.data() {
        figures.push(Figure::new("disk_mb", "on disk", "MB", process::allocated(data) as f64 / 1e6));
    }
    let name = if volumes == 0 { "empty".to_owned() } else { format!("{volumes} volumes") };
    Case { name, server: figures, against: Vec::new() }
}
