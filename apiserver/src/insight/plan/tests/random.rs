//! Random states and verbs: after any verb, no claim has two volumes, and no volume in use was freed (I8). The
//! check does not depend on the verbs: it compares the states before and after.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::*;
use crate::insight::plan::model::StepAction;

const STATES: u64 = 5_000;

type State = BTreeMap<(&'static str, String, String), Value>;

fn pick<'a>(random: &mut StdRng, from: &[&'a str]) -> &'a str {
    from.choose(random).copied().unwrap_or_default()
}

fn any_reference(random: &mut StdRng) -> Value {
    if random.random_bool(0.2) {
        return Value::Null;
    }
    let (namespace, name) = (pick(random, &["a", "b"]), pick(random, &["c", "d"]));
    let uid = match random.random_range(0..4) {
        0 => String::new(),
        1 => "old".to_owned(),
        _ => format!("{namespace}-{name}"),
    };
    points(namespace, name, &uid)
}

fn any_volume(random: &mut StdRng, name: &str) -> Value {
    let phase = pick(random, &["Available", "Bound", "Released", "Released", "Failed"]);
    let policy = pick(random, &["Retain", "Retain", "Delete", "Recycle"]);
    let mut patch = json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
    if random.random_bool(0.3) {
        patch["spec"]["csi"] = Value::Null;
        patch["spec"]["hostPath"] = json!({"path": "/tmp/x"});
    }
    if random.random_bool(0.15) {
        patch["metadata"] = json!({
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kubernetes.io/pv-protection"],
        });
    }
    let reference = any_reference(random);
    volume(name, phase, reference, patch)
}

fn any_state(random: &mut StdRng) -> Objects {
    let mut objects: Objects = vec![("namespaces", named("a")), ("namespaces", named("b"))];
    for name in ["v", "w"] {
        if random.random_bool(0.8) {
            objects.push(("persistentvolumes", any_volume(random, name)));
        }
    }
    for namespace in ["a", "b"] {
        for name in ["c", "d"] {
            if random.random_bool(0.5) {
                let phase = pick(random, &["Pending", "Bound", "Bound", "Lost", "Lost"]);
                let volume = if phase == "Pending" { "" } else { pick(random, &["", "v", "w"]) };
                let claim = claim(namespace, name, &format!("{namespace}-{name}"), phase, volume);
                objects.push(("persistentvolumeclaims", claim));
            }
        }
        if random.random_bool(0.3) {
            let phase = pick(random, &["Running", "Pending", "Succeeded"]);
            objects.push(("pods", pod(namespace, "p", pick(random, &["c", "d"]), phase)));
        }
    }
    if random.random_bool(0.2) {
        objects.push(("volumeattachments", attachment("va", pick(random, &["v", "w"]), "n1", json!({}))));
    }
    if random.random_bool(0.5) {
        objects.push(("nodes", named("n1")));
    }
    if random.random_bool(0.7) {
        tie(random, &mut objects);
    }
    objects
}

/// Binds a volume and a claim of the state to each other, so that some verbs have work to do.
fn tie(random: &mut StdRng, objects: &mut Objects) {
    let of = |plural: &str| -> Vec<usize> {
        objects.iter().enumerate().filter(|(_, object)| object.0 == plural).map(|(at, _)| at).collect()
    };
    let (volumes, claims) = (of("persistentvolumes"), of("persistentvolumeclaims"));
    let (Some(v), Some(c)) = (volumes.choose(random).copied(), claims.choose(random).copied()) else {
        return;
    };
    let part =
        |at: usize, name: &str| objects[at].1["metadata"][name].as_str().unwrap_or_default().to_owned();
    let (namespace, name, uid) = (part(c, "namespace"), part(c, "name"), part(c, "uid"));
    let bound = claim(&namespace, &name, &uid, "Bound", &part(v, "name"));
    objects[v].1["spec"]["claimRef"] = points(&namespace, &name, &uid);
    objects[v].1["status"]["phase"] = "Bound".into();
    objects[c].1 = bound;
}

fn any_verb(random: &mut StdRng) -> (&'static str, ObjectTarget, Value) {
    let volume = target("persistentvolumes", "", pick(random, &["v", "w"]));
    let claim = target("persistentvolumeclaims", pick(random, &["a", "b"]), pick(random, &["c", "d"]));
    let other = format!("{}/{}", pick(random, &["a", "b"]), pick(random, &["c", "d"]));
    match random.random_range(0..9) {
        0 => ("reclaim", volume, json!({"keepData": true})),
        1 => ("reclaim", volume, json!({"keepData": true, "for": other})),
        2 => ("reclaim", volume, json!({"scrub": true})),
        3 => ("recover", claim, json!({})),
        4 => (
            "transfer",
            claim,
            json!({"namespace": pick(random, &["a", "b"]), "name": pick(random, &["c", "d"])}),
        ),
        5 => ("unblock", volume, json!({})),
        6 => ("undelete", volume, json!({})),
        7 => ("undelete", claim, json!({})),
        _ => ("release", target("volumeattachments", "", "va"), json!({})),
    }
}

fn state(objects: &Objects) -> State {
    let key = |plural: &'static str, value: &Value| {
        let part = |name: &str| value["metadata"][name].as_str().unwrap_or_default().to_owned();
        (plural, part("namespace"), part("name"))
    };
    objects.iter().map(|(plural, value)| (key(plural, value), value.clone())).collect()
}

fn applied(before: &State, plan: &Plan) -> State {
    let mut after = before.clone();
    for step in &plan.steps {
        let plural = step.kind().names().plural;
        let key = after
            .keys()
            .map(|key| key.0)
            .chain(["persistentvolumes", "persistentvolumeclaims"])
            .find(|known| *known == plural);
        let key = (key.unwrap_or("other"), step.after.namespace().to_owned(), step.after.name().to_owned());
        let ends = step.action == StepAction::Delete && step.after.finalizers().next().is_none();
        if ends {
            after.remove(&key);
        } else {
            after.insert(key, Value::Object(step.after.0.clone()));
        }
    }
    after
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The number of volumes per claim, referenced by uid or reserved by name.
fn volumes_of_claims(state: &State) -> BTreeMap<String, usize> {
    let volumes: Vec<&Value> =
        state.iter().filter(|(key, _)| key.0 == "persistentvolumes").map(|(_, value)| value).collect();
    let claims = state.iter().filter(|(key, _)| key.0 == "persistentvolumeclaims");
    let count = |key: &(&'static str, String, String), claim: &Value| {
        let points = |volume: &&&Value| {
            let at = |part: &str| text(volume, &format!("/spec/claimRef/{part}")).to_owned();
            let by_name = at("namespace") == key.1 && at("name") == key.2 && at("uid").is_empty();
            by_name || !at("uid").is_empty() && at("uid") == text(claim, "/metadata/uid")
        };
        volumes.iter().filter(points).count()
    };
    claims.map(|(key, claim)| (text(claim, "/metadata/uid").to_owned(), count(key, claim))).collect()
}

/// A certain user of a volume: a running pod whose claim is bound to the volume, or an attachment that names it.
fn used_by(state: &State, volume: &Value) -> Option<String> {
    let name = text(volume, "/metadata/name");
    let (namespace, claim) = (text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name"));
    for ((plural, _, _), value) in state {
        let running = *plural == "pods"
            && text(value, "/metadata/namespace") == namespace
            && text(value, "/spec/volumes/0/persistentVolumeClaim/claimName") == claim
            && text(value, "/status/phase") != "Succeeded";
        let attached =
            *plural == "volumeattachments" && text(value, "/spec/source/persistentVolumeName") == name;
        // A pod whose claim is bound to another volume uses that volume, and so does a pod created after a new claim.
        let born = |object: &Value| text(object, "/metadata/creationTimestamp").to_owned();
        let uid = text(volume, "/spec/claimRef/uid");
        let bound = state.get(&("persistentvolumeclaims", namespace.to_owned(), claim.to_owned()));
        let elsewhere = bound.is_some_and(|bound| {
            let named = text(bound, "/spec/volumeName");
            let is_new = !uid.is_empty() && text(bound, "/metadata/uid") != uid && born(bound) < born(value);
            named != name && (!named.is_empty() || is_new)
        });
        if attached || running && !elsewhere {
            return Some(text(value, "/metadata/name").to_owned());
        }
    }
    None
}

/// Whether a volume lost its owner or is to be scrubbed.
fn was_freed(before: &Value, after: Option<&Value>) -> bool {
    let Some(after) = after else { return true };
    let owner = |volume: &Value| {
        (text(volume, "/spec/claimRef/namespace").to_owned(), text(volume, "/spec/claimRef/name").to_owned())
    };
    let policy = |volume: &Value| text(volume, "/spec/persistentVolumeReclaimPolicy").to_owned();
    let has_owner = !owner(before).1.is_empty();
    has_owner && owner(before) != owner(after) || policy(before) != "Recycle" && policy(after) == "Recycle"
}

#[test]
fn no_verb_binds_two_volumes_or_frees_one_in_use() {
    let first = rand::random::<u32>();
    let mut done: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in u64::from(first)..u64::from(first) + STATES {
        let mut random = StdRng::seed_from_u64(seed);
        let objects = any_state(&mut random);
        let (verb, target, options) = any_verb(&mut random);
        let past = match target.kind.names().plural {
            "persistentvolumes" => vec![any_volume(&mut random, &target.name)],
            _ if verb == "recover" => {
                // The past of the volume that the claim names.
                let states = state(&objects);
                let namespace = target.namespace.clone().unwrap_or_default();
                let claim = states.get(&("persistentvolumeclaims", namespace, target.name.clone()));
                let named = claim.map(|claim| text(claim, "/spec/volumeName").to_owned());
                match named.filter(|named| !named.is_empty()) {
                    Some(named) => vec![any_volume(&mut random, &named)],
                    None => Vec::new(),
                }
            }
            _ => {
                let namespace = target.namespace.clone().unwrap_or_default();
                vec![claim(&namespace, &target.name, "old", "Bound", pick(&mut random, &["v", "w"]))]
            }
        };
        let Ok(plan) = planned(&objects, &target, verb, options.clone(), &past) else { continue };
        *done.entry(verb).or_default() += 1;
        let before = state(&objects);
        let after = applied(&before, &plan);
        let (had, have) = (volumes_of_claims(&before), volumes_of_claims(&after));
        for (claim, count) in have {
            let most = had.get(&claim).copied().unwrap_or_default().max(1);
            assert!(
                count <= most,
                "seed {seed}: {verb} {options}: the claim {claim} has {count} volumes: {plan:#?}"
            );
        }
        for ((plural, namespace, name), old) in &before {
            if *plural != "persistentvolumes" {
                continue;
            }
            let new = after.get(&(*plural, namespace.clone(), name.clone()));
            if was_freed(old, new)
                && let Some(user) = used_by(&before, old)
            {
                panic!(
                    "seed {seed}: {verb} {options}: {name} was freed, and {user} uses it: {plan:#?}\n{objects:#?}"
                );
            }
        }
    }
    for verb in ["reclaim", "recover", "transfer", "unblock", "undelete", "release"] {
        assert!(done.contains_key(verb), "{verb} was never done: {done:?} (from {first})");
    }
}
