//! Resident memory of the server with its controllers: empty, and with more and more volumes.
//!
//! Looked at when the controllers have made all volumes Available and a moment of quiet has passed, in which
//! allocators give back what they do not need.

use std::time::Duration;

use crate::bench::child::{Child, Role};
use crate::bench::error::BenchError;
use crate::bench::follow::Follower;
use crate::bench::ground::{Ground, Kept, Server};
use crate::bench::objects::{self, Claim, VOLUMES};
use crate::bench::process;
use crate::bench::progress;
use crate::bench::report::{Case, Figure};

use super::Done;

pub(super) async fn run(ground: &Ground) -> Result<Done, BenchError> {
    let mut server = ground.own(Role::Serve, &[]).await?;
    let prefix = ground.prefix("m");
    let mut cases = vec![look(ground, &server, 0).await];
    let mut made = 0;
    for volumes in &ground.plan.kept {
        progress(&format!("memory: {volumes} volumes ..."));
        fill(ground, &server, &prefix, made, *volumes).await?;
        made = *volumes;
        cases.push(look(ground, &server, made).await);
    }
    if let (Some(child), Some(data)) = (server.child.take(), server.data()) {
        child.stop().await?;
        ground.keep(Kept { data: data.to_owned(), volumes: made });
    }
    let mut problems = Vec::new();
    if cases.iter().any(|case| case.server.len() < 3) {
        problems.push("memory: the kernel does not say how much memory the server has".to_owned());
    }
    Ok(Done { cases, problems })
}

/// Makes volumes until there are `until`, and waits for the controllers.
pub(super) async fn fill(
    ground: &Ground,
    server: &Server,
    prefix: &str,
    from: usize,
    until: usize,
) -> Result<(), BenchError> {
    let n = until - from;
    let revision = server.revision(VOLUMES).await?;
    // The part of each batch is numbered from zero for whoever follows.
    let prefix = format!("{prefix}{from}-");
    let follower = Follower::start(&server.endpoint, VOLUMES, revision, &prefix, "Available", n);
    server.fill(VOLUMES, &objects::volume(&ground.run, Claim::None), &prefix, 0, n).await?;
    follower.all(Duration::from_secs(60 + n as u64 / 100)).await?;
    Ok(())
}

async fn look(ground: &Ground, server: &Server, volumes: usize) -> Case {
    tokio::time::sleep(ground.plan.quiet).await;
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
