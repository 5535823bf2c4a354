//! Thousands of requests: create, get, list and patch of volumes.

use std::sync::Arc;

use crate::child::Role;
use crate::client::Draft;
use crate::environment::{Environment, IN_FLIGHT, Server, creates};
use crate::error::BenchError;
use crate::load::{Fill, Load, Work};
use crate::objects::{self, Claim, VOLUMES, volume};
use crate::pace;
use crate::report::{Case, Figure};
use crate::samples::Samples;

use super::Done;

/// A prime stride: visits all volumes, in an order that no cache can predict.
const STRIDE: usize = 7919;
/// Rounds of creates, each followed by bare syncs.
const SLICES: usize = 10;

pub(super) async fn create_64(environment: &Environment) -> Result<Done, BenchError> {
    let prefix = environment.prefix("c");
    let work = creates(VOLUMES, &volume(&environment.run, Claim::None), &prefix, IN_FLIGHT);
    let servers = environment.servers(Role::Apiserver).await?;
    let (warm_up, n) = (environment.plan.warm_up, environment.plan.creates);
    let (loads, problems) = measure(environment, "create-64", &servers, &work, warm_up, n).await;
    finish(servers, &prefix, warm_up + n).await?;
    Ok(Done { cases: vec![case(loads, |load| Spread::of(load).figures())], problems })
}

pub(super) async fn create_1(environment: &Environment) -> Result<Done, BenchError> {
    let prefix = environment.prefix("o");
    let work = creates(VOLUMES, &volume(&environment.run, Claim::None), &prefix, 1);
    let servers = environment.servers(Role::Apiserver).await?;
    let (warm_up, n) = (environment.plan.warm_up.min(200), environment.plan.creates_in_turn);
    // The speed of a disk varies from minute to minute, so creates and bare syncs alternate.
    let mut syncs = Samples::default();
    let mut loads: Vec<Load> = servers.iter().map(|_| Load::default()).collect();
    let mut problems = warm(&servers, "create-1", &work, warm_up).await;
    let mut from = warm_up;
    for slice in 0..SLICES {
        syncs.merge(environment.syncs(SLICES)?);
        let share = pace::share(n, SLICES, slice);
        in_turns(environment, &servers, &work, from, share, &mut loads).await;
        from += share;
    }
    problems.extend(failures(&servers, "create-1", &loads));
    finish(servers, &prefix, warm_up + n).await?;
    let [sync] = syncs.percentiles([50.0]);
    let figures = |load: Load| {
        let spread = Spread::of(load);
        let p50 = spread.p50;
        let mut figures = spread.figures();
        if sync > 0.0 {
            figures.push(Figure::new("sync_p50_us", "disk sync without a server, p50", "µs", sync));
            figures.push(Figure::new("p50_syncs", "request p50 / disk sync p50", "", p50 / sync));
        }
        figures
    };
    Ok(Done { cases: vec![case(loads, figures)], problems })
}

pub(super) async fn get_64(environment: &Environment) -> Result<Done, BenchError> {
    let prefix = environment.prefix("g");
    let (named, volumes) = (prefix.clone(), environment.plan.volumes);
    let fill: Fill = Arc::new(move |number, draft| {
        let name = objects::name(&named, number * STRIDE % volumes);
        *draft = Draft::of("GET", format!("{VOLUMES}/{name}"));
    });
    let work = Work { in_flight: IN_FLIGHT, wanted: &[200], fill };
    on_volumes(environment, "get-64", &prefix, &work, environment.plan.gets).await
}

pub(super) async fn patch_64(environment: &Environment) -> Result<Done, BenchError> {
    let prefix = environment.prefix("p");
    let (named, volumes) = (prefix.clone(), environment.plan.volumes);
    let fill: Fill = Arc::new(move |number, draft| patch(draft, &named, number, volumes));
    let work = Work { in_flight: IN_FLIGHT, wanted: &[200], fill };
    on_volumes(environment, "patch-64", &prefix, &work, environment.plan.patches).await
}

/// A merge patch that always changes something: a repeated patch would not be a write.
pub(super) fn patch(draft: &mut Draft, prefix: &str, number: usize, volumes: usize) {
    let name = objects::name(prefix, number * STRIDE % volumes);
    draft.method = "PATCH";
    draft.path = format!("{VOLUMES}/{name}");
    draft.content_type = "application/merge-patch+json";
    draft.body = format!(r#"{{"metadata":{{"labels":{{"round":"{number}"}}}}}}"#).into_bytes();
}

pub(super) async fn list(environment: &Environment) -> Result<Done, BenchError> {
    let prefix = environment.prefix("l");
    let servers = environment.servers(Role::Apiserver).await?;
    let volumes = environment.plan.volumes;
    let template = volume(&environment.run, Claim::None);
    for server in &servers {
        server.fill(VOLUMES, &template, &prefix, 0, volumes).await?;
    }
    let fill: Fill = Arc::new(|_, draft| *draft = Draft::of("GET", VOLUMES));
    let work = Work { in_flight: 1, wanted: &[200], fill };
    let (loads, mut problems) =
        measure(environment, "list-5000", &servers, &work, 3, environment.plan.lists).await;
    // A server that bench did not start may contain other volumes too.
    for server in &servers {
        let body = server.once(&Draft::of("GET", VOLUMES), &[200]).await?;
        let items =
            memchr::memmem::find_iter(&body, &format!("{{\"metadata\":{{\"name\":\"{prefix}")).count();
        if items != volumes {
            let url = &server.endpoint.url;
            problems.push(format!("list-5000: {items} of {volumes} volumes were in the list of {url}"));
        }
    }
    finish(servers, &prefix, volumes).await?;
    let figures = |load: Load| {
        let (answers, elapsed) = (load.samples.len().max(1) as f64, load.elapsed.as_secs_f64().max(1e-9));
        let (bytes, own, server) = (load.bytes as f64, load.own_cpu, load.server_cpu);
        let [p50, p99] = load.samples.percentiles([50.0, 99.0]);
        let mut figures = vec![
            Figure::new("volumes", "volumes", "", volumes as f64),
            Figure::new("p50_ms", "p50", "ms", p50 / 1e3),
            Figure::new("p99_ms", "p99", "ms", p99 / 1e3),
            Figure::new("answer_mb", "answer", "MB", bytes / answers / 1e6),
            Figure::new("mb_per_s", "read", "MB/s", bytes / elapsed / 1e6),
        ];
        figures.extend(cpu_figures(own, server, answers));
        figures
    };
    Ok(Done { cases: vec![case(loads, figures)], problems })
}

/// Measures requests about existing volumes.
async fn on_volumes(
    environment: &Environment,
    what: &str,
    prefix: &str,
    work: &Work,
    n: usize,
) -> Result<Done, BenchError> {
    let servers = environment.servers(Role::Apiserver).await?;
    let template = volume(&environment.run, Claim::None);
    for server in &servers {
        server.fill(VOLUMES, &template, prefix, 0, environment.plan.volumes).await?;
    }
    let (loads, problems) = measure(environment, what, &servers, work, environment.plan.warm_up, n).await;
    finish(servers, prefix, environment.plan.volumes).await?;
    Ok(Done { cases: vec![case(loads, |load| Spread::of(load).figures())], problems })
}

/// Warms up each server, then sends all servers the same requests in alternation. Returns one load per server, and
/// the failures.
async fn measure(
    environment: &Environment,
    what: &str,
    servers: &[Server],
    work: &Work,
    warm_up: usize,
    n: usize,
) -> (Vec<Load>, Vec<String>) {
    let mut problems = warm(servers, what, work, warm_up).await;
    let mut loads: Vec<Load> = servers.iter().map(|_| Load::default()).collect();
    in_turns(environment, servers, work, warm_up, n, &mut loads).await;
    problems.extend(failures(servers, what, &loads));
    (loads, problems)
}

/// Sends the warm-up requests and returns their failures.
async fn warm(servers: &[Server], what: &str, work: &Work, n: usize) -> Vec<String> {
    let mut problems = Vec::new();
    for server in servers {
        let load = server.load(work, 0, n).await;
        problems.extend(load.problem(&format!("{what}, warm-up, {}", server.endpoint.url)));
    }
    problems
}

/// Sends each server the requests `from..from + n`, in alternation.
async fn in_turns(
    environment: &Environment,
    servers: &[Server],
    work: &Work,
    from: usize,
    n: usize,
    loads: &mut [Load],
) {
    let mut next = vec![from; servers.len()];
    let rounds = environment.plan.rounds;
    for (turn, side) in pace::turns(rounds, servers.len()).into_iter().enumerate() {
        let share = pace::share(n, rounds, turn / servers.len());
        loads[side].merge(servers[side].load(work, next[side], share).await);
        next[side] += share;
    }
}

/// Descriptions of the failed requests.
fn failures(servers: &[Server], what: &str, loads: &[Load]) -> Vec<String> {
    let pairs = loads.iter().zip(servers);
    pairs.filter_map(|(load, server)| load.problem(&format!("{what}, {}", server.endpoint.url))).collect()
}

/// Deletes the created objects.
async fn finish(servers: Vec<Server>, prefix: &str, n: usize) -> Result<(), BenchError> {
    for server in servers {
        server.clean(VOLUMES, prefix, n).await?;
        server.done();
    }
    Ok(())
}

/// The one case of a row without conditions.
fn case(loads: Vec<Load>, figures: impl Fn(Load) -> Vec<Figure>) -> Case {
    let mut sides = loads.into_iter().map(figures);
    Case {
        name: String::new(),
        server: sides.next().unwrap_or_default(),
        against: sides.next().unwrap_or_default(),
    }
}

/// Rate and percentiles of a load.
struct Spread {
    per_second: f64,
    p50: f64,
    p99: f64,
    cpu: Vec<Figure>,
}

impl Spread {
    fn of(load: Load) -> Self {
        let per_second = load.per_second();
        let cpu = cpu_figures(load.own_cpu, load.server_cpu, load.samples.len().max(1) as f64);
        let [p50, p99] = load.samples.percentiles([50.0, 99.0]);
        Spread { per_second, p50, p99, cpu }
    }

    fn figures(self) -> Vec<Figure> {
        let mut figures = vec![
            Figure::new("per_s", "done", "/s", self.per_second),
            Figure::new("p50_us", "p50", "µs", self.p50),
            Figure::new("p99_us", "p99", "µs", self.p99),
        ];
        figures.extend(self.cpu);
        figures
    }
}

/// Processor time per request or event: of bench, and of the server if visible.
pub(super) fn cpu_figures(
    own: std::time::Duration,
    server: Option<std::time::Duration>,
    n: f64,
) -> Vec<Figure> {
    let each = |spent: std::time::Duration| spent.as_secs_f64() * 1e6 / n;
    let server =
        server.map(|spent| Figure::new("server_cpu_us", "processor time, server", "µs each", each(spent)));
    let own = Figure::new("bench_cpu_us", "processor time, bench", "µs each", each(own));
    server.into_iter().chain([own]).collect()
}
