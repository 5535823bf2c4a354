//! Pairs of a claim and a volume that fail one rule. The test runs the binder, requests the explanation, applies
//! its fix unchanged, and expects the binder to do what the fix promises.

use serde_json::{Value, json};

use super::{ask, claim, class, node, pod, volume, with, world};
use crate::model::{Code, Fix, Reference, Rule};
use std::sync::Arc;

use orlop_client::failing::Failing;
use orlop_client::informers::Informers;
use orlop_controller::context::{Context, Run};
use orlop_controller::options::Options;
use orlop_controller::pv;
use orlop_csi::drivers::Drivers;
use orlop_test_support::FakeApi;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The result of the fix.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// The claim is bound to the volume.
    Bound,
    /// A provisioner is called.
    Asked,
    /// The claim is bound to a recreated volume with this name.
    Recreate(&'static str),
    /// The pod is recreated and can run where the volume is; there is no scheduler in these tests.
    Moved,
    /// There is no fix; the message contains this next step.
    Explained(&'static str),
}

struct Pair {
    name: &'static str,
    claim: Value,
    volume: Value,
    more: Vec<Value>,
    code: Code,
    /// The first rule that the volume fails, if the claim searches.
    rule: Option<Rule>,
    then: Then,
}

fn pair(name: &'static str, claim: Value, volume: Value, code: Code, rule: Option<Rule>, then: Then) -> Pair {
    Pair { name, claim, volume, more: Vec::new(), code, rule, then }
}

/// A pair that fails one rule.
fn unfit(name: &'static str, in_claim: Value, in_volume: Value, rule: Rule, then: Then) -> Pair {
    let (claim, volume) = (with(claim(), in_claim), with(volume(), in_volume));
    pair(name, claim, volume, Code::NoVolumeFits, Some(rule), then)
}

/// A pair whose claim names the volume.
fn named(name: &'static str, in_claim: Value, in_volume: Value, code: Code, then: Then) -> Pair {
    let named = with(claim(), json!({"spec": {"volumeName": "v"}}));
    pair(name, with(named, in_claim), with(volume(), in_volume), code, None, then)
}

fn other_claim() -> Value {
    with(
        claim(),
        json!({"metadata": {"name": "d", "uid": "uid-d", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}),
    )
}

fn reference(name: &str, uid: &str) -> Value {
    json!({"spec": {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns", "name": name,
        "uid": uid}}})
}

fn of_class(name: &str) -> Value {
    json!({"spec": {"storageClassName": name}})
}

fn released(name: &str, uid: &str) -> Value {
    with(reference(name, uid), json!({"status": {"phase": "Released"}}))
}

fn terminating() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.test/hold"]}})
}

fn pairs() -> Vec<Pair> {
    let local = |zone: &str| {
        json!({"spec": {"storageClassName": "local", "nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}}}})
    };
    let local_class = || class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer");
    let zone_b = || with(pod("p", None), json!({"spec": {"nodeSelector": {"zone": "b"}}}));
    vec![
        unfit(
            "size",
            json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}),
            json!({}),
            Rule::Size,
            Then::Bound,
        ),
        unfit(
            "access modes",
            json!({"spec": {"accessModes": ["ReadWriteMany"]}}),
            json!({}),
            Rule::AccessModes,
            Then::Bound,
        ),
        unfit(
            "one pod alone",
            json!({"spec": {"accessModes": ["ReadWriteOncePod"]}}),
            json!({}),
            Rule::AccessModes,
            Then::Bound,
        ),
        unfit("mode", json!({"spec": {"volumeMode": "Block"}}), json!({}), Rule::VolumeMode, Then::Bound),
        unfit(
            "attributes class",
            json!({"spec": {"volumeAttributesClassName": "gold"}}),
            json!({}),
            Rule::AttributesClass,
            Then::Bound,
        ),
        unfit(
            "attributes class to take away",
            json!({}),
            json!({"spec": {"volumeAttributesClassName": "gold"}}),
            Rule::AttributesClass,
            Then::Bound,
        ),
        unfit(
            "selector",
            json!({"spec": {"selector": {"matchLabels": {"tier": "slow"}}}}),
            json!({}),
            Rule::Selector,
            Then::Bound,
        ),
        unfit("class of the volume", json!({}), of_class("gold"), Rule::Class, Then::Bound),
        unfit(
            "old class annotation",
            json!({}),
            json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "gold"}}}),
            Rule::Class,
            Then::Bound,
        ),
        unfit(
            "two rules",
            json!({"spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "3Gi"}}}}),
            json!({}),
            Rule::AccessModes,
            Then::Bound,
        ),
        unfit("terminating", json!({}), terminating(), Rule::Terminating, Then::Recreate("v-anew")),
        unfit(
            "released, its claim gone",
            json!({}),
            released("gone", "uid-gone"),
            Rule::ClaimRef,
            Then::Bound,
        ),
        unfit(
            "released, an earlier claim of the name",
            json!({}),
            released("c", "uid-before"),
            Rule::ClaimRef,
            Then::Bound,
        ),
        unfit(
            "reserved for one that is not there",
            json!({}),
            reference("gone", ""),
            Rule::ClaimRef,
            Then::Bound,
        ),
        Pair {
            more: vec![other_claim()],
            ..unfit(
                "belongs to another",
                json!({}),
                with(reference("d", "uid-d"), json!({"status": {"phase": "Bound"}})),
                Rule::ClaimRef,
                Then::Explained("reserved for claim ns/d"),
            )
        },
        Pair {
            code: Code::ReservedUnfit,
            ..unfit(
                "reserved and too small",
                json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}),
                reference("c", ""),
                Rule::Size,
                Then::Bound,
            )
        },
        unfit(
            "class that is only a name",
            with(of_class("shelf"), json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}})),
            of_class("shelf"),
            Rule::Size,
            Then::Bound,
        ),
        Pair {
            more: vec![class("local", "kubernetes.io/no-provisioner", "Immediate")],
            ..unfit(
                "class by hand, and the volume is too small",
                with(of_class("local"), json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}})),
                of_class("local"),
                Rule::Size,
                Then::Bound,
            )
        },
        Pair {
            code: Code::ClassMissing,
            ..unfit("class that is not there", of_class("gold"), json!({}), Rule::Class, Then::Bound)
        },
        Pair {
            more: vec![class("local", "kubernetes.io/no-provisioner", "Immediate")],
            code: Code::NoProvisioner,
            ..unfit("class that makes nothing", of_class("local"), json!({}), Rule::Class, Then::Bound)
        },
        Pair {
            more: vec![class("old", "kubernetes.io/glusterfs", "Immediate")],
            code: Code::PluginMissing,
            ..unfit("plugin that is not there", of_class("old"), json!({}), Rule::Class, Then::Bound)
        },
        Pair {
            more: vec![class("gold", "gold.example.test", "Immediate")],
            code: Code::ProvisionerMissing,
            ..unfit("provisioner that is not there", of_class("gold"), json!({}), Rule::Class, Then::Bound)
        },
        Pair {
            more: vec![
                class("gold", "gold.example.test", "Immediate"),
                json!({"kind": "CSIDriver", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "gold.example.test"}, "spec": {}}),
            ],
            code: Code::WaitsForProvisioner,
            ..unfit(
                "provisioner that was asked",
                of_class("gold"),
                json!({}),
                Rule::Class,
                Then::Explained("is provisioning the volume"),
            )
        },
        Pair {
            // The provisioner of the first class is not installed.
            more: vec![
                class("far", "far.example.test", "Immediate"),
                class("gold", "gold.example.test", "Immediate"),
                json!({"kind": "CSIDriver", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "gold.example.test"}, "spec": {}}),
            ],
            code: Code::NoDefaultClass,
            ..unfit(
                "no default class",
                json!({"spec": {"storageClassName": null}}),
                of_class("iron"),
                Rule::Class,
                Then::Asked,
            )
        },
        Pair {
            more: vec![class("wait", "gold.example.test", "WaitForFirstConsumer")],
            code: Code::WaitsForPod,
            ..unfit(
                "class that waits, no pod",
                of_class("wait"),
                json!({}),
                Rule::Class,
                Then::Explained("create the pod"),
            )
        },
        Pair {
            more: vec![local_class(), node("a", "a"), node("b", "b"), zone_b()],
            ..unfit(
                "the pod runs where the volume is not",
                of_class("local"),
                local("a"),
                Rule::NodeAffinity,
                Then::Moved,
            )
        },
        Pair {
            more: vec![local_class(), node("b", "b"), zone_b()],
            code: Code::PodNotScheduled,
            rule: None,
            ..unfit(
                "the pod has no node yet",
                of_class("local"),
                local("b"),
                Rule::Class,
                Then::Explained("p has none yet"),
            )
        },
        named(
            "names one that is too small",
            json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}),
            json!({}),
            Code::VolumeUnfit,
            Then::Bound,
        ),
        named(
            "names one of another class and mode set",
            json!({"spec": {"accessModes": ["ReadWriteMany"]}}),
            of_class("gold"),
            Code::VolumeUnfit,
            Then::Bound,
        ),
        named(
            "names one of the other mode",
            json!({"spec": {"volumeMode": "Block"}}),
            json!({}),
            Code::VolumeUnfit,
            Then::Bound,
        ),
        named(
            "names one that is not there",
            json!({"spec": {"volumeName": "w"}}),
            json!({}),
            Code::VolumeMissing,
            Then::Bound,
        ),
        Pair {
            more: vec![other_claim()],
            ..named(
                "names one that belongs to another",
                json!({}),
                with(reference("d", "uid-d"), json!({"status": {"phase": "Bound"}})),
                Code::VolumeTaken,
                Then::Explained("is bound to claim ns/d"),
            )
        },
        named(
            "names one whose claim was deleted",
            json!({}),
            released("gone", "uid-gone"),
            Code::VolumeTaken,
            Then::Bound,
        ),
    ]
}

const BINDER: [Run; 1] = [pv::run];

fn plural(kind: &str) -> String {
    match kind {
        "StorageClass" => "storageclasses".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    }
}

/// All objects that the engine may read.
fn state(api: &FakeApi) -> Vec<Value> {
    let kinds =
        ["persistentvolumeclaims", "persistentvolumes", "storageclasses", "pods", "nodes", "csidrivers"];
    kinds.iter().flat_map(|plural| api.list(plural)).collect()
}

fn key(of: &Reference) -> String {
    match &of.namespace {
        Some(namespace) => format!("{namespace}/{}", of.name),
        None => of.name.clone(),
    }
}

/// Applies a fix as an API request.
fn carry_out(api: &FakeApi, fix: &Fix) {
    if let Some(patch) = &fix.patch {
        api.patch(&plural(&patch.target.kind), &key(&patch.target), "", patch.body.clone());
    }
    if let Some(gone) = &fix.delete {
        api.delete(&plural(&gone.kind), &key(gone));
    }
    if let Some(object) = &fix.create {
        api.create(object.clone());
    }
}

/// Starts the binder; dropping the guard stops it.
fn start_binder(api: &FakeApi) -> DropGuard {
    let (client, shutdown, options) = (api.client(), CancellationToken::new(), Options::default());
    let context = Context {
        informers: Informers::new(client.clone(), shutdown.clone()),
        events: api.event_sink(&shutdown),
        drivers: Drivers::new(options.csi_timeout),
        clock: api.clock(),
        failing: Failing::default(),
        options: Arc::new(options),
        shutdown: shutdown.clone(),
        client,
    };
    for run in BINDER {
        tokio::spawn(run(context.clone()));
    }
    shutdown.drop_guard()
}

async fn play(pair: Pair) -> Vec<String> {
    let api = FakeApi::new();
    for object in [pair.claim, pair.volume].into_iter().chain(pair.more) {
        api.seed(object);
    }
    let _running = start_binder(&api);
    api.settle().await;
    let mut problems = Vec::new();
    let why = ask(&world(&state(&api)), "persistentvolumeclaims", "ns/c");
    let document = serde_json::to_string_pretty(&why).unwrap();
    // The first cause is also the summary.
    if why.causes.first().map(|cause| cause.code) != Some(pair.code) {
        problems.push(format!("{:?} is not the first cause in {document}", pair.code));
    }
    if let Some(rule) = pair.rule {
        let first = why.candidates.as_ref().and_then(|found| found.nearest.first()?.first);
        if first != Some(rule) {
            problems.push(format!("the first rule is {first:?}, not {rule:?}"));
        }
        let verdict = why.candidates.iter().flat_map(|found| &found.nearest).flat_map(|one| &one.verdicts);
        if !verdict.clone().any(|verdict| verdict.rule == rule && !verdict.ok) {
            problems.push(format!("{rule:?} lets it pass"));
        }
        let counted = why.candidates.iter().flat_map(|found| &found.by_rule).find(|one| one.rule == rule);
        if counted.map(|one| one.count) != Some(1) {
            problems.push(format!("counted: {counted:?}"));
        }
    }
    let fix = why.causes.iter().find_map(|cause| cause.fix.clone());
    match (pair.then, fix) {
        (Then::Explained(words), None) => {
            if !why.causes.iter().any(|cause| cause.message.contains(words)) {
                problems.push(format!("{words:?} is not in {document}"));
            }
        }
        (Then::Explained(_), Some(fix)) => problems.push(format!("a fix that was not expected: {fix:?}")),
        (_, None) => problems.push(format!("no fix in {document}")),
        (then, Some(fix)) => {
            carry_out(&api, &fix);
            api.settle().await;
            let claim = api.get("persistentvolumeclaims", "ns/c").unwrap();
            let done = match then {
                Then::Recreate(name) => {
                    claim["status"]["phase"] == "Bound" && claim["spec"]["volumeName"] == name
                }
                Then::Moved => {
                    api.get("pods", "ns/p").is_some_and(|pod| pod["spec"]["nodeSelector"]["zone"].is_null())
                }
                Then::Bound => claim["status"]["phase"] == "Bound" && claim["spec"]["volumeName"] == "v",
                Then::Asked => {
                    !claim["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"].is_null()
                }
                Then::Explained(_) => false,
            };
            if !done {
                problems.push(format!("{} does not lead to {then:?}: {claim:#}", fix.command));
            }
            let after = ask(&world(&state(&api)), "persistentvolumeclaims", "ns/c");
            if then == Then::Bound && after.state != "Bound" {
                problems.push(format!("afterwards it is {}", after.state));
            }
        }
    }
    problems
}

#[tokio::test(start_paused = true)]
async fn every_fix_resolves_its_pair() {
    let mut failed = Vec::new();
    let pairs = pairs();
    assert!(pairs.len() >= 20);
    for pair in pairs {
        let name = pair.name;
        let problems = play(pair).await;
        if !problems.is_empty() {
            failed.push(format!("{name}\n  {}", problems.join("\n  ")));
        }
    }
    assert!(failed.is_empty(), "{} pairs failed:\n{}", failed.len(), failed.join("\n"));
}
