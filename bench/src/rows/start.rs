//! Start time: from exec to the first successful response of `/readyz`, empty, with many volumes, and after a kill
//! that leaves thousands of writes in the journal.

use crate::child::Role;
use crate::environment::{Environment, Server, SharedData};
use crate::error::BenchError;
use crate::objects::{self, Claim, VOLUMES};
use crate::report::{Case, Figure};

use super::{Done, memory};

pub(super) async fn run(environment: &Environment) -> Result<Done, BenchError> {
    let mut cases = Vec::new();
    let mut empty = Vec::new();
    for _ in 0..environment.plan.starts {
        let data = environment.fresh_data();
        let child = environment.child(Role::Serve, &data, &[]).await?;
        empty.push(child.ready_after.as_secs_f64());
        child.kill();
    }
    cases.push(case("empty".to_owned(), 0, empty));

    let SharedData { data, volumes } = match environment.kept() {
        Some(kept) => kept,
        None => filled(environment).await?,
    };
    let mut stopped = Vec::new();
    let mut killed = Vec::new();
    for _ in 0..environment.plan.starts {
        let child = environment.child(Role::Serve, &data, &[]).await?;
        stopped.push(child.ready_after.as_secs_f64());
        child.stop().await?;
    }
    cases.push(case(format!("{volumes} volumes"), volumes, stopped));
    // These writes are in no snapshot when the server is killed, so the next start replays them.
    let unsaved = environment.plan.volumes;
    for round in 0..environment.plan.starts {
        let server = Server::of(environment.child(Role::Serve, &data, &[]).await?);
        let prefix = format!("{}{round}-", environment.prefix("k"));
        server.fill(VOLUMES, &objects::volume(&environment.run, Claim::None), &prefix, 0, unsaved).await?;
        server.done();
        let child = environment.child(Role::Serve, &data, &[]).await?;
        killed.push(child.ready_after.as_secs_f64());
        child.stop().await?;
    }
    let most = volumes + unsaved * environment.plan.starts;
    cases.push(case(format!("{volumes} volumes, after a kill"), most, killed));
    // Removing the parent directory removes any remaining files.
    let _ = std::fs::remove_dir_all(&data);
    Ok(Done { cases, problems: Vec::new() })
}

/// Data with many volumes of a server that has shut down cleanly.
async fn filled(environment: &Environment) -> Result<SharedData, BenchError> {
    let volumes = environment.plan.kept.last().copied().unwrap_or_default();
    let mut server = environment.own(Role::Serve, &[]).await?;
    memory::fill(environment, &server, &environment.prefix("s"), 0, volumes).await?;
    let data = server.data().map(ToOwned::to_owned).unwrap_or_default();
    if let Some(child) = server.child.take() {
        child.stop().await?;
    }
    Ok(SharedData { data, volumes })
}

fn case(name: String, volumes: usize, mut seconds: Vec<f64>) -> Case {
    seconds.sort_by(f64::total_cmp);
    let median = seconds.get(seconds.len() / 2).copied().unwrap_or_default();
    let longest = seconds.last().copied().unwrap_or_default();
    let figures = vec![
        Figure::new("volumes", "volumes", "", volumes as f64),
        Figure::new("ready_s", "exec to ready, median", "s", median),
        Figure::new("longest_s", "exec to ready, longest", "s", longest),
    ];
    Case { name, server: figures, against: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_reports_median_and_maximum() {
        for (seconds, median, longest) in
            [(vec![3.0, 1.0, 2.0], 2.0, 3.0), (vec![1.0], 1.0, 1.0), (vec![], 0.0, 0.0)]
        {
            let case = case("x".to_owned(), 5, seconds.clone());
            let values: Vec<f64> = case.server.iter().map(|figure| figure.value).collect();
            assert_eq!(values, [5.0, median, longest], "{seconds:?}");
        }
    }
}
