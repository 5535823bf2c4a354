//! Processor time of an idle server with its controllers.

use std::time::{Duration, Instant};

use crate::child::{Child, Role};
use crate::environment::Environment;
use crate::error::BenchError;
use crate::process::Cpu;
use crate::report::{Case, Figure};

use super::Done;

pub(super) async fn run(environment: &Environment) -> Result<Done, BenchError> {
    let server = environment.own(Role::Serve, &[]).await?;
    let cpu = || server.child.as_ref().map(Child::pid).and_then(Cpu::of);
    // A server that has just started is not idle yet.
    tokio::time::sleep(environment.plan.quiet).await;
    let (before, start) = (cpu(), Instant::now());
    tokio::time::sleep(Duration::from_secs(environment.plan.idle_seconds)).await;
    let (after, elapsed) = (cpu(), start.elapsed().as_secs_f64());
    server.done();
    let mut done = Done::default();
    let (Some(before), Some(after)) = (before, after) else {
        done.problems.push("idle: the kernel does not report the processor time of the server".to_owned());
        return Ok(done);
    };
    let spent = after.since(&before).as_secs_f64();
    done.cases.push(Case {
        name: "empty".to_owned(),
        server: vec![
            Figure::new("seconds", "looked at", "s", elapsed),
            Figure::new("cpu_percent", "processor time of one core", "%", spent / elapsed * 100.0),
        ],
        against: Vec::new(),
    });
    Ok(done)
}
