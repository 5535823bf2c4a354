//! Tests of the desired state: the index of the pods that request a volume.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::super::desired_state::DesiredState;
use super::super::populator::{self, ResolvedVolume};
use super::fixture::{Bench, pod, pod_json};
use crate::volume::{Source, VolumeSpec};

fn resolved(bench: &Bench, pod: &Pod, name: &str) -> ResolvedVolume {
    let mut volumes = pod.spec.as_ref().unwrap().volumes.iter().flatten();
    let inline = volumes.find(|volume| volume.name == name).cloned().unwrap();
    let spec = VolumeSpec {
        name: name.to_owned(),
        source: Source::Inline(Arc::new(inline)),
        claim: None,
        read_only: false,
        block: false,
    };
    populator::named(&bench.host(), &bench.plugins(), pod, spec).unwrap()
}

fn uids(state: &DesiredState, unique: &str) -> Vec<String> {
    state.of_volume(unique).map(|(uid, _, _)| uid.to_string()).collect()
}

#[tokio::test]
async fn pods_of_a_volume_are_known_until_they_are_released() {
    let (bench, mut state) = (Bench::new(), DesiredState::default());
    let own = pod("p", "u1", &["+a", "+b"]);
    let volume = |name: &str, unique: &str| {
        Ok(ResolvedVolume { unique: unique.into(), ..resolved(&bench, &own, name) })
    };
    for uid in ["u2", "u1"] {
        assert!(state.want(&uid.into(), Arc::clone(&own)));
        assert!(state.resolved(uid, "a", volume("a", "shared")).is_some());
    }
    assert_eq!(uids(&state, "shared"), ["u1", "u2"]);
    assert!(state.resolved("u1", "b", Err("not found".to_owned())).is_none());
    assert!(state.resolved("u1", "a", volume("a", "other")).is_none(), "the first name stays");
    assert_eq!(uids(&state, "other"), [""; 0]);
    assert!(state.resolved("u1", "b", volume("b", "shared")).is_some());
    let seen = RefCell::new(Vec::new());
    let changed = state.review("shared", |wanted| {
        seen.borrow_mut().push(wanted.spec.name.clone());
        wanted.abilities
    });
    assert!(!changed);
    assert_eq!(seen.into_inner(), ["a", "b", "a"]);
    assert!(state.release("u1").is_some());
    assert!(state.release("u1").is_none());
    assert_eq!(uids(&state, "shared"), ["u2"]);
    state.release("u2");
    assert_eq!(uids(&state, "shared"), [""; 0]);
}

#[tokio::test]
async fn cost_of_a_pod_with_many_volumes_is_linear() {
    let (bench, mut state) = (Bench::new(), DesiredState::default());
    let template = pod_json("p", "u", &["+a"]);
    let names: Vec<String> = (0..20_000).map(|at| format!("v{at}")).collect();
    let list = |one: &dyn Fn(&String) -> Value| names.iter().map(one).collect::<Vec<_>>();
    let mut many = template.clone();
    many["spec"]["volumes"] = json!(list(&|name| json!({"name": name, "emptyDir": {}})));
    many["spec"]["containers"][0]["volumeMounts"] =
        json!(list(&|name| json!({"name": name, "mountPath": format!("/{name}")})));
    let one = resolved(&bench, &serde_json::from_value(template).unwrap(), "a");
    assert!(state.want(&"u".into(), Arc::new(serde_json::from_value(many).unwrap())));
    let begun = Instant::now();
    for name in &names {
        let volume = ResolvedVolume { unique: name.as_str().into(), ..one.clone() };
        assert!(state.resolved("u", name, Ok(volume)).is_some());
    }
    for name in &names {
        assert!(!state.review(name, |wanted| wanted.abilities));
        assert_eq!(state.of_volume(name).count(), 1);
    }
    // Quadratic work takes half a minute.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
