//! Runs the cases of the tables: the whole controller against the fake server, with an attacher and a kubelet as the rows specify.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use super::attacher::{self, Rules};
use super::notation::{attachment, canonical, conditions, long, parse, render};
use super::table::Case;
use crate::attach;
use crate::context::Run;
use crate::gc;
use crate::options::Options;
use crate::testing::{FakeApi, FaultKind};

/// The time without changes after which a case has settled. In these tests, only the retry of a failure needs time.
const REST: Duration = Duration::from_millis(1500);

fn options(flags: &[&str]) -> Options {
    let mut options = Options::default();
    for flag in flags {
        match *flag {
            "disable-attach-detach-reconcile-sync=true" => {
                options.disable_attach_detach_reconcile_sync = true
            }
            "disable-force-detach-on-timeout=true" => options.disable_force_detach_on_timeout = true,
            other => panic!("{other}"),
        }
    }
    options
}

/// A server on which a case is played.
pub(super) struct Stage {
    pub(super) api: FakeApi,
    rules: Rules,
    _attacher: AbortOnDropHandle<()>,
    running: DropGuard,
}

impl Stage {
    /// Creates the initial objects of a case on a server, and starts the controller.
    pub(super) async fn of(case: &Case) -> Self {
        Self::with_fault(case, None).await
    }

    /// The same; the n-th write of the controller fails.
    pub(super) async fn with_fault(case: &Case, fault: Option<(usize, FaultKind)>) -> Self {
        let api = FakeApi::new();
        if let Some((nth, kind)) = fault {
            api.fail_nth_write(nth, kind);
        }
        for line in case.given {
            api.seed(parse(line, &api.now()));
        }
        let rules = attacher::rules(case.attacher);
        let attacher = tokio::spawn(attacher::run(api.clone(), rules.clone()));
        let controllers: &[Run] = if case.pod_gc { &[attach::run, gc::pods::run] } else { &[attach::run] };
        let running = api.start(controllers, options(case.flags));
        tokio::time::sleep(REST).await;
        Self { api, rules, _attacher: AbortOnDropHandle::new(attacher), running }
    }

    /// Replaces the running controller with a new one.
    pub(super) async fn restart(&mut self) {
        self.running = CancellationToken::new().drop_guard();
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.running = self.api.start(&[attach::run], Options::default());
        tokio::time::sleep(REST).await;
    }

    /// Performs one step of a case.
    pub(super) async fn step(&self, line: &str) {
        let api = &self.api;
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["settle"] => tokio::time::sleep(REST).await,
            ["wait", seconds] => tokio::time::sleep(Duration::from_secs(seconds.parse().unwrap())).await,
            ["create", rest @ ..] => drop(api.seed(parse(&rest.join(" "), &api.now()))),
            ["delete", "pod", key] => assert!(api.delete_with("pods", key, json!({"gracePeriodSeconds": 0}))),
            ["terminate", "pod", key] => assert!(api.delete("pods", key)),
            ["delete", "pvc", key] => assert!(api.delete("persistentvolumeclaims", key)),
            ["delete", "node", name] => assert!(api.delete("nodes", name)),
            ["touch", kind, key] => {
                let touch = json!({"metadata": {"annotations": {"touched": api.now()}}});
                api.patch(&format!("{kind}s"), key, "", touch);
            }
            ["phase", pod, phase] => {
                drop(api.patch("pods", pod, "status", json!({"status": {"phase": phase}})))
            }
            ["manage", node] => {
                let annotations = json!({orlop_client::names::ANN_CONTROLLER_MANAGED_ATTACH: "true"});
                api.patch("nodes", node, "", json!({"metadata": {"annotations": annotations}}));
            }
            ["uses", node, names] => {
                let names: Vec<String> =
                    names.split(',').filter(|name| *name != "-").map(super::notation::unique).collect();
                api.patch("nodes", node, "status", json!({"status": {"volumesInUse": names}}));
            }
            ["ready", node, ready] => {
                let conditions = conditions(*ready == "true");
                api.patch("nodes", node, "status", json!({"status": {"conditions": conditions}}));
            }
            ["taint", node, key] => {
                let taints = json!([{"key": key, "effect": "NoExecute"}]);
                api.patch("nodes", node, "", json!({"spec": {"taints": taints}}));
            }
            ["force-delete", "va", word] => {
                let (_, name, _) = attachment(word);
                api.patch("volumeattachments", &name, "", json!({"metadata": {"finalizers": null}}));
                assert!(api.delete("volumeattachments", &name));
            }
            ["not-attached", "va", word, error @ ..] => {
                let (_, name, _) = attachment(word);
                let mut status = json!({"attached": false});
                error.iter().for_each(|field| status[*field] = json!({"message": "no"}));
                api.patch("volumeattachments", &name, "status", json!({ "status": status }));
            }
            ["attacher", ..] => {
                let how = line.split_once(' ').unwrap().1;
                *self.rules.lock() = [("*".to_owned(), how.to_owned())].into();
            }
            ["replace", rest @ ..] => {
                assert!(api.delete("csidrivers", &long(rest[1])));
                api.seed(parse(&rest.join(" "), &api.now()));
            }
            other => panic!("{other:?}"),
        }
    }

    /// All VolumeAttachments and nodes, one line each, sorted.
    pub(super) fn end(&self) -> Vec<String> {
        let objects = ["volumeattachments", "nodes"].into_iter().flat_map(|plural| self.api.list(plural));
        let mut lines: Vec<String> = objects.map(|object| render(&object)).collect();
        lines.sort();
        lines
    }

    /// Events as the rows name them: `pod/NS/NAME TYPE REASON TEXT`.
    pub(super) fn events(&self) -> Vec<String> {
        let text = |event: &Value, pointer: &str| {
            event.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned()
        };
        let line = |event: &Value| {
            let kind = text(event, "/involvedObject/kind").to_lowercase();
            let (namespace, name) =
                (text(event, "/involvedObject/namespace"), text(event, "/involvedObject/name"));
            let object =
                [kind, namespace, name].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
            format!(
                "{} {} {} {}",
                object.join("/"),
                text(event, "/type"),
                text(event, "/reason"),
                text(event, "/message")
            )
        };
        self.api.list("events").iter().map(line).collect()
    }
}

/// Runs a case. Returns the differences from the row.
pub(super) async fn play(case: &Case) -> Vec<String> {
    let stage = Stage::of(case).await;
    for line in case.steps {
        stage.step(line).await;
    }
    tokio::time::sleep(REST).await;
    let mut wanted: Vec<String> = case.end.iter().map(|line| canonical(line)).collect();
    wanted.sort();
    let end = stage.end();
    let mut problems = Vec::new();
    if end != wanted {
        problems.push(format!("end\n    {}\n  wanted\n    {}", end.join("\n    "), wanted.join("\n    ")));
    }
    let events = stage.events();
    for event in case.events {
        let there = match event.strip_suffix('*') {
            Some(beginning) => events.iter().any(|line| line.starts_with(beginning)),
            None => events.iter().any(|line| line == event),
        };
        if !there {
            problems.push(format!("no event {event:?} in {events:#?}"));
        }
    }
    for absent in case.absent {
        let (reason, object) = absent.split_once(" on ").unwrap_or((absent, ""));
        let unwanted = |line: &&String| {
            let mut words = line.split(' ');
            words.next().is_some_and(|on| object.is_empty() || on == object) && words.nth(1) == Some(reason)
        };
        problems.extend(events.iter().find(unwanted).map(|line| format!("unwanted event {line}")));
    }
    problems
}
