//! Binding of claims to existing volumes: claims per second as their number grows, and with additional Released
//! volumes.
//!
//! The volumes are Available before the measurement starts. It lasts from the first create of a claim until a
//! watch has reported the last claim as Bound.

use std::time::{Duration, Instant};

use crate::child::Role;
use crate::client::Draft;
use crate::environment::{Environment, Server};
use crate::error::BenchError;
use crate::follow::Follower;
use crate::objects::{self, Claim, NAMESPACES, VOLUMES};
use crate::progress::progress;
use crate::report::{Case, Figure};

use super::Done;

/// The row is aborted below this rate.
const LEAST_PER_SECOND: u64 = 20;

/// One case: numbers of pairs and of Released volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Condition {
    pairs: usize,
    released: usize,
}

pub(super) async fn run(environment: &Environment) -> Result<Done, BenchError> {
    let mut cases = Vec::new();
    for (number, condition) in
        conditions(&environment.plan.pairs, environment.plan.released).into_iter().enumerate()
    {
        let mut case = Case { name: condition.words(), ..Case::default() };
        progress(&format!("bind: {} ...", case.name));
        for (side, server) in environment.servers(Role::Serve).await?.into_iter().enumerate() {
            let names = Names::new(environment, number);
            let figures = condition.measure(environment, &server, &names).await?;
            condition.clean(&server, &names).await?;
            server.done();
            if side == 0 {
                case.server = figures;
            } else {
                case.against = figures;
            }
        }
        cases.push(case);
    }
    Ok(Done { cases, problems: Vec::new() })
}

/// Each number of pairs alone, then the largest with Released volumes.
fn conditions(pairs: &[usize], released: usize) -> Vec<Condition> {
    let mut all: Vec<Condition> =
        pairs.iter().map(|pairs| Condition { pairs: *pairs, released: 0 }).collect();
    all.extend(pairs.iter().max().map(|pairs| Condition { pairs: *pairs, released }));
    all
}

/// The namespace and name prefixes of the objects of a condition.
struct Names {
    namespace: String,
    volumes: String,
    released: String,
    claims: String,
}

impl Names {
    fn new(environment: &Environment, number: usize) -> Self {
        Names {
            namespace: format!("orlop-bench-{}-{number}", environment.run),
            volumes: environment.prefix(&format!("b{number}")),
            released: environment.prefix(&format!("r{number}")),
            claims: environment.prefix(&format!("q{number}")),
        }
    }
}

fn patience(n: usize) -> Duration {
    Duration::from_secs(60 + n as u64 / LEAST_PER_SECOND)
}

impl Condition {
    fn words(self) -> String {
        match self.released {
            0 => format!("{} pairs", self.pairs),
            released => format!("{} pairs, {released} Released volumes", self.pairs),
        }
    }

    async fn measure(
        self,
        environment: &Environment,
        server: &Server,
        names: &Names,
    ) -> Result<Vec<Figure>, BenchError> {
        let mut namespace = Draft::of("POST", NAMESPACES);
        namespace.content_type = "application/json";
        objects::namespace(&environment.run).fill(&mut namespace.body, &names.namespace);
        server.once(&namespace, &[201]).await?;

        let free = objects::volume(&environment.run, Claim::None);
        let gone = objects::volume(&environment.run, Claim::Gone(&names.namespace));
        for (template, prefix, phase, n) in [
            (gone, &names.released, "Released", self.released),
            (free, &names.volumes, "Available", self.pairs),
        ] {
            if n == 0 {
                continue;
            }
            let revision = server.revision(VOLUMES).await?;
            let follower = Follower::start(&server.endpoint, VOLUMES, revision, prefix, phase, n);
            server.fill(VOLUMES, &template, prefix, 0, n).await?;
            follower.all(patience(n)).await?;
        }

        let path = objects::claims(&names.namespace);
        let revision = server.revision(&path).await?;
        let follower = Follower::start(&server.endpoint, &path, revision, &names.claims, "Bound", self.pairs);
        let start = Instant::now();
        let created =
            server.fill(&path, &objects::claim(&environment.run), &names.claims, 0, self.pairs).await?;
        let last = follower.all(patience(self.pairs)).await?;
        let seconds = last.saturating_duration_since(start).as_secs_f64().max(1e-9);
        Ok(vec![
            Figure::new("pairs", "pairs", "", self.pairs as f64),
            Figure::new("released", "Released volumes", "", self.released as f64),
            Figure::new("bound_per_s", "bound", "/s", self.pairs as f64 / seconds),
            Figure::new("all_bound_s", "until the last claim is Bound", "s", seconds),
            Figure::new(
                "claims_created_s",
                "until the last claim is created",
                "s",
                created.elapsed.as_secs_f64(),
            ),
        ])
    }

    async fn clean(self, server: &Server, names: &Names) -> Result<(), BenchError> {
        if server.child.is_some() {
            return Ok(());
        }
        server.clean(&objects::claims(&names.namespace), &names.claims, self.pairs).await?;
        server.clean(VOLUMES, &names.volumes, self.pairs).await?;
        server.clean(VOLUMES, &names.released, self.released).await?;
        let namespace = Draft::of("DELETE", format!("{NAMESPACES}/{}", names.namespace));
        server.once(&namespace, &[200, 202, 404, 409]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_volumes_join_the_largest_condition() {
        let words = |pairs: &[usize], released| -> Vec<String> {
            conditions(pairs, released).into_iter().map(Condition::words).collect()
        };
        assert_eq!(
            words(&[1000, 10_000], 7),
            ["1000 pairs", "10000 pairs", "10000 pairs, 7 Released volumes"]
        );
        assert_eq!(words(&[], 7), Vec::<String>::new());
    }
}
