//! The two runners: one sync of one object, and the whole controller until it settles.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::mock::Mock;
use super::notation::{canonical, parse, render};
use super::own_index::WIDE;
use super::table::{Case, End, Plug};
use crate::context::Context;
use crate::options::Options;
use crate::pv::binder::Binder;
use crate::pv::controller::standard_plugins;
use crate::pv::migration::MigratedDriver;
use crate::pv::plugin::Plugins;
use crate::testing::{FakeApi, Fault, FaultKind};
use orlop_client::names;

/// A server with the initial state of a case, and a controller that has not run yet.
pub(super) struct Stage {
    pub(super) api: FakeApi,
    pub(super) binder: Arc<Binder>,
    pub(super) shutdown: CancellationToken,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn options(case: &Case) -> Options {
    Options { enable_dynamic_provisioning: !case.no_provisioning, ..Options::default() }
}

fn plugins(plug: Plug, inject: &[&'static str], options: &Options) -> Plugins {
    match plug {
        Plug::None => Plugins::new(Vec::new()),
        Plug::Builtin => standard_plugins(options).expect("the standard recipes are fine"),
        Plug::Mock(calls) => Plugins::new(vec![Mock::new(calls, inject)]),
    }
}

fn all_migrated(plugin: &str) -> Option<&'static str> {
    plugin.starts_with(names::IN_TREE_PREFIX).then_some("vendor.com/MockCSIDriver")
}

/// Creates the objects of a case on a new server.
fn seed(case: &Case) -> FakeApi {
    let api = FakeApi::new();
    let wide: &[&str] = if case.wide { WIDE } else { &[] };
    for line in wide.iter().chain(case.given) {
        api.seed(parse(line));
    }
    api
}

fn server_errors(api: &FakeApi, inject: &[&'static str]) {
    for line in inject {
        let Some(rest) = line.strip_prefix("api ") else { continue };
        let mut words = rest.splitn(3, ' ');
        let (verb, resource, text) = (words.next(), words.next(), words.next());
        api.fail(Fault {
            verb: verb.unwrap_or(""),
            resource: resource.unwrap_or(""),
            skip: 0,
            kind: FaultKind::Status(500, "InternalError", text.unwrap_or("")),
        });
    }
}

/// The stage of a case. `as_unit`: with the plugins and errors of the case.
pub(super) fn stage(case: &Case, as_unit: bool) -> Stage {
    let api = seed(case);
    let options = options(case);
    let plug = if as_unit { case.plugins } else { Plug::Builtin };
    let plugins = plugins(plug, case.inject, &options);
    if as_unit {
        server_errors(&api, case.inject);
    }
    let migrated: MigratedDriver =
        if case.everything_migrated { all_migrated } else { names::migrated_driver };
    let shutdown = CancellationToken::new();
    let context: Context = api.context(options, &shutdown);
    let binder = Binder::new(&context, plugins, migrated);
    Stage { api, binder, shutdown }
}

/// All volumes and claims on the server, one line each, sorted.
pub(super) fn state(api: &FakeApi) -> Vec<String> {
    let objects = ["persistentvolumes", "persistentvolumeclaims"];
    let mut lines: Vec<String> =
        objects.iter().flat_map(|plural| api.list(plural)).map(|object| render(&object)).collect();
    lines.sort();
    lines
}

/// The expected lines of an end state, sorted; including the wide set if the case uses it.
pub(super) fn wanted(case: &Case, lines: &[&str]) -> Vec<String> {
    let name = |line: &str| line.split_whitespace().nth(1).unwrap_or("").to_owned();
    let mut wanted: Vec<String> = lines.iter().map(|line| canonical(line)).collect();
    if case.wide {
        let unchanged = WIDE.iter().filter(|line| !lines.iter().any(|other| name(other) == name(line)));
        wanted.extend(unchanged.map(|line| canonical(line)));
    }
    wanted.sort();
    wanted
}

fn missing_events(api: &FakeApi, events: &[&str]) -> Vec<String> {
    let seen = api.events();
    events
        .iter()
        .filter(|event| !seen.iter().any(|line| line == *event))
        .map(|event| event.to_string())
        .collect()
}

/// Performs one step of a case as a user.
pub(super) fn step(api: &FakeApi, line: &str) {
    let mut words = line.splitn(2, ' ');
    let (what, rest) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    match what {
        "create" => {
            let object = parse(rest);
            api.seed(object);
        }
        "delete" => {
            let (plural, key) = rest.split_once(' ').expect("delete PLURAL KEY");
            assert!(api.delete(plural, key), "{line}");
        }
        "force-delete" => {
            if api.get("persistentvolumes", rest).is_some() {
                api.patch("persistentvolumes", rest, "", json!({"metadata": {"finalizers": null}}));
                api.delete("persistentvolumes", rest);
            }
        }
        "patch" => {
            let mut words = rest.splitn(3, ' ');
            let (resource, key) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let patch: Value = serde_json::from_str(words.next().unwrap_or("")).expect("a patch is JSON");
            let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            api.patch(plural, key, subresource, patch);
        }
        _ => panic!("no step: {line}"),
    }
}

impl Stage {
    /// Waits for the caches and fills the stores, without starting the workers.
    pub(super) async fn prepare(&self) {
        self.binder.caches_synced().await;
        self.binder.fill_stores();
    }

    /// Syncs one object, `claim KEY` or `volume NAME`. The result is ignored: the tests check the state.
    pub(super) async fn look_at(&self, what: &str) {
        let (kind, key) = what.split_once(' ').expect("claim KEY or volume NAME");
        let key = key.to_owned();
        let _ = match kind {
            "claim" => self.binder.process_claim(key).await,
            _ => self.binder.process_volume(key).await,
        };
    }

    /// Runs the whole controller.
    pub(super) fn start(&self) {
        let (binder, shutdown) = (Arc::clone(&self.binder), self.shutdown.clone());
        tokio::spawn(async move { binder.run(shutdown).await });
    }
}

/// Simulates the kubelet for recycler pods: every new pod succeeds shortly afterwards.
fn play_recyclers(stage: &Stage) {
    let (api, shutdown) = (stage.api.clone(), stage.shutdown.clone());
    tokio::spawn(async move {
        while !shutdown.is_cancelled() {
            for pod in api.list("pods") {
                let name = pod["metadata"]["name"].as_str().unwrap_or("").to_owned();
                if name.starts_with("recycler-for-") && pod["status"]["phase"] != "Succeeded" {
                    let key = format!("default/{name}");
                    api.patch("pods", &key, "status", json!({"status": {"phase": "Succeeded"}}));
                }
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
}

/// Runs one sync with the injected events. Returns the problems as text.
pub(super) async fn play_once(case: &Case) -> Vec<String> {
    let mut problems = Vec::new();
    let stage = stage(case, true);
    stage.prepare().await;
    if let Some(expected) = case.finds {
        let claim = stage.api.list("persistentvolumeclaims").remove(0);
        let claim = serde_json::from_value(claim).expect("a claim");
        let found = stage.binder.find_volume(&claim, false);
        let name = found.as_ref().and_then(|volume| volume.metadata.name.as_deref());
        if name != expected {
            problems.push(format!("finds {name:?}, not {expected:?}"));
        }
    }
    let Some(once) = &case.once else { return problems };
    if case.claims_not_stored {
        for claim in stage.api.list("persistentvolumeclaims") {
            let claim = serde_json::from_value(claim).expect("a claim");
            stage.binder.forget_claim(&orlop_client::informer::key_of::<
                k8s_openapi::api::core::v1::PersistentVolumeClaim,
            >(&claim));
        }
    }
    stage.look_at(once.look_at).await;
    // Operations were started and have not run yet: the point at which races are injected.
    for race in case.inject.iter().filter_map(|line| line.strip_prefix("race ")) {
        step(&stage.api, race);
    }
    // Twice: saving and cleanup take five attempts each, ten seconds apart.
    stage.api.settle().await;
    stage.api.settle().await;
    compare(&mut problems, "once", case, &stage.api, &[End { objects: once.end, events: once.events }]);
    problems
}

/// Runs the whole controller until it settles. Returns the problems as text.
pub(super) async fn play_settled(case: &Case) -> Vec<String> {
    let mut problems = Vec::new();
    if case.settled.is_empty() {
        return problems;
    }
    let stage = stage(case, case.unit_only);
    run_to_the_end(case, &stage, LONG).await;
    compare(&mut problems, "settled", case, &stage.api, case.settled);
    problems
}

/// Four resyncs and every back-off that a test can reach.
pub(super) const LONG: Duration = Duration::from_secs(60);
/// Two resyncs: enough after one error.
pub(super) const SHORT: Duration = Duration::from_secs(31);

/// Runs the controller and the steps of a case on a stage, with a pause of `rest` after the start and each step.
pub(super) async fn run_to_the_end(case: &Case, stage: &Stage, rest: Duration) {
    if case.given.iter().any(|line| line.contains("policy=Recycle")) {
        play_recyclers(stage);
    }
    stage.start();
    tokio::time::sleep(rest).await;
    for line in case.steps {
        match *line {
            "settle" => tokio::time::sleep(rest).await,
            other => step(&stage.api, other),
        }
    }
    tokio::time::sleep(rest).await;
}

/// Accepts any of the end states.
fn compare(problems: &mut Vec<String>, which: &str, case: &Case, api: &FakeApi, ends: &[End]) {
    let have = state(api);
    let same = ends.iter().find(|end| wanted(case, end.objects) == have);
    let Some(end) = same else {
        let wanted = wanted(case, ends[0].objects);
        let only = |a: &[String], b: &[String]| -> Vec<String> {
            a.iter().filter(|line| !b.contains(line)).cloned().collect()
        };
        problems.push(format!(
            "{which}: have\n    {}\n  want\n    {}",
            only(&have, &wanted).join("\n    "),
            only(&wanted, &have).join("\n    ")
        ));
        return;
    };
    let missing = missing_events(api, end.events);
    if !missing.is_empty() {
        problems.push(format!(
            "{which}: no event\n    {}\n  but\n    {}",
            missing.join("\n    "),
            api.events().join("\n    ")
        ));
    }
}
