//! Many volumes: the facts agree with the predicates, and 100 000 volumes are judged with few comparisons.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::{ask, claim, volume, with, world};
use crate::candidates::{NEAREST, Survey, verdicts};
use crate::facts::{ClaimRequest, FactTable, SelectorCache};
use crate::model::Code;
use orlop_volume::fit::{self, RequiredLabels};

fn pick(rng: &mut StdRng, from: &[Value]) -> Value {
    from[rng.random_range(0..from.len())].clone()
}

fn a_volume(rng: &mut StdRng, n: usize) -> Value {
    let mut object = with(volume(), json!({"metadata": {"name": format!("v-{n}")}}));
    for choices in [
        vec![json!({}), json!({"spec": {"capacity": {"storage": "500Mi"}}})],
        vec![json!({}), json!({"spec": {"accessModes": ["ReadWriteMany", "ReadOnlyMany"]}})],
        vec![json!({}), json!({}), json!({"spec": {"volumeMode": "Block"}})],
        vec![json!({}), json!({"spec": {"storageClassName": "gold"}})],
        vec![json!({}), json!({}), json!({"spec": {"volumeAttributesClassName": "fast"}})],
        vec![
            json!({}),
            json!({"metadata": {"labels": {"tier": "slow"}}}),
            json!({"metadata": {"labels": null}}),
        ],
        vec![json!({}), json!({}), json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})],
        vec![json!({}), json!({"status": {"phase": "Released"}}), json!({"status": {"phase": "Pending"}})],
        vec![
            json!({}),
            json!({"spec": {"claimRef": {"namespace": "ns", "name": "c"}}}),
            json!({"spec": {"claimRef": {"namespace": "ns", "name": "c", "uid": "uid-c"}}}),
            json!({"spec": {"claimRef": {"namespace": "ns", "name": "c", "uid": "uid-before"}}}),
        ],
    ] {
        object = with(object, pick(rng, &choices));
    }
    object
}

fn a_claim(rng: &mut StdRng) -> Value {
    let mut object = claim();
    for choices in [
        vec![
            json!({}),
            json!({"spec": {"accessModes": ["ReadWriteMany"]}}),
            json!({"spec": {"accessModes": ["Odd"]}}),
        ],
        vec![json!({}), json!({"spec": {"volumeMode": "Block"}})],
        vec![json!({}), json!({"spec": {"storageClassName": "gold"}})],
        vec![json!({}), json!({"spec": {"volumeAttributesClassName": "fast"}})],
        vec![json!({}), json!({"spec": {"selector": {"matchLabels": {"tier": "fast"}}}})],
    ] {
        object = with(object, pick(rng, &choices));
    }
    object
}

#[test]
fn facts_agree_with_the_predicates() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut fitting = 0;
    for n in 0..2000 {
        let volume: PersistentVolume = serde_json::from_value(a_volume(&mut rng, n)).unwrap();
        let claim: PersistentVolumeClaim = serde_json::from_value(a_claim(&mut rng)).unwrap();
        let (asked, wanted) = (ClaimRequest::of(&claim), RequiredLabels::of(&claim));
        let mut table = FactTable::default();
        let name: Arc<str> = "v".into();
        table.put(&name, &volume);
        let against = table.all().next().unwrap().against(&asked, &mut SelectorCache::new());
        let verdicts = verdicts(&volume, &claim, &wanted, None);
        let failed: Vec<_> = verdicts.iter().filter(|verdict| !verdict.ok).collect();
        assert_eq!(against.first, failed.first().map(|verdict| verdict.rule), "seed {seed}, {n}");
        assert_eq!(usize::from(against.count), failed.len(), "seed {seed}, {n}");
        let fits = fit::search_misfit(&volume, &claim, &wanted, false).is_none();
        assert_eq!(fits, failed.is_empty(), "seed {seed}, {n}");
        fitting += usize::from(fits);
        table.remove("v");
        assert_eq!(table.all().count(), 0);
    }
    // About 30 volumes fit; the test only needs some.
    assert!(fitting > 2, "seed {seed}: only {fitting} fit");
}

#[test]
fn volumes_are_counted_and_the_nearest_reported() {
    let mut objects = vec![claim()];
    for n in 0..300 {
        // Each volume is smaller than the one before; every third has another class too.
        let mut one = json!({"metadata": {"name": format!("v-{n:03}")}, "spec": {"capacity": {"storage": format!("{}Mi", 1000 - n)}}});
        if n % 3 == 0 {
            one["spec"]["storageClassName"] = json!("gold");
        }
        objects.push(with(volume(), one));
    }
    let found = ask(&world(&objects), "persistentvolumeclaims", "ns/c").candidates.unwrap();
    assert_eq!((found.total, found.fit, found.nearest.len()), (300, 0, NEAREST));
    assert_eq!(found.by_rule.len(), 1);
    assert_eq!(found.by_rule[0].count, 300);
    let names: Vec<&str> = found.nearest.iter().take(4).map(|one| one.volume.as_str()).collect();
    assert_eq!(names, ["v-001", "v-002", "v-004", "v-005"]);
}

/// Judging 100,000 equal volumes costs one comparison, whose result is reused.
#[test]
fn equal_volumes_are_compared_once() {
    let volume: PersistentVolume =
        serde_json::from_value(with(volume(), json!({"spec": {"storageClassName": "gold"}}))).unwrap();
    let mut table = FactTable::default();
    for n in 0..100_000 {
        let name: Arc<str> = format!("v-{n}").into();
        table.put(&name, &volume);
    }
    let selecting = with(claim(), json!({"spec": {"selector": {"matchLabels": {"tier": "slow"}}}}));
    let claim: PersistentVolumeClaim = serde_json::from_value(selecting).unwrap();
    let asked = ClaimRequest::of(&claim);
    let mut memory = SelectorCache::new();
    let mut survey = Survey::default();
    table.all().for_each(|facts| survey.add(facts, &asked, facts.against(&asked, &mut memory)));
    assert_eq!((survey.counts(), memory.len()), ((100_000, 0), 1));
}

/// An unscheduled pod with many bound claims reads all nodes once.
#[test]
fn nodes_are_compared_once_with_a_pod() {
    let objects = |claims: usize| {
        let mut objects: Vec<Value> = (0..300).map(|n| super::node(&format!("n{n}"), "a")).collect();
        let mut volumes = Vec::new();
        for n in 0..claims {
            let (c, v) = (format!("c{n}"), format!("v{n}"));
            let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions":
                [{"key": "zone", "operator": "In", "values": ["b"]}]}]}});
            objects.push(with(
                volume(),
                json!({"metadata": {"name": v, "uid": v}, "spec": {"nodeAffinity": affinity}}),
            ));
            objects.push(with(
                claim(),
                json!({"metadata": {"name": c, "uid": c}, "spec": {"volumeName": v},
                "status": {"phase": "Bound"}}),
            ));
            volumes.push(json!({"name": v, "persistentVolumeClaim": {"claimName": c}}));
        }
        objects.push(with(super::pod("p", None), json!({"spec": {"volumes": volumes}})));
        world(&objects)
    };
    let why = ask(&objects(50), "pods", "ns/p");
    let count = |code| why.causes.iter().filter(|cause| cause.code == code).count();
    assert_eq!((count(Code::VolumePinsPod), count(Code::ClaimsLeftOut)), (20, 1));
    assert!(why.causes.last().is_some_and(|cause| cause.message.contains("30 more claims")));
}

/// Each finalizer may cost a look at all pods of the claim.
#[test]
fn only_some_finalizers_are_explained() {
    let finalizers = vec!["kubernetes.io/pvc-protection"; 1000];
    let leaving =
        json!({"metadata": {"deletionTimestamp": "2026-05-01T00:00:00Z", "finalizers": finalizers}});
    let why =
        ask(&world(&[with(claim(), leaving), super::pod("p", Some("n"))]), "persistentvolumeclaims", "ns/c");
    assert_eq!(why.blocked_by.len(), 20);
    assert!(why.causes[0].message.ends_with("It has 980 more finalizers."), "{}", why.causes[0].message);
}

/// Volumes whose affinity has to be evaluated are decoded after the facts were read, see the assertion in the table.
#[test]
fn affinities_are_evaluated_outside_of_the_facts() {
    let zones = |zones: &[&str]| {
        let term =
            |zone: &&str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
        let terms: Vec<Value> = zones.iter().map(term).collect();
        json!({"spec": {"storageClassName": "late", "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}})
    };
    let named = |name: &str| json!({"metadata": {"name": name, "uid": name}});
    let table = world(&[
        super::class("late", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
        with(claim(), json!({"spec": {"storageClassName": "late"}})),
        super::pod("p", None),
        super::node("n", "a"),
        with(with(volume(), named("near")), zones(&["a", "b"])),
        with(with(volume(), named("far")), zones(&["b", "c"])),
    ]);
    let found = ask(&table, "persistentvolumeclaims", "ns/c").candidates.unwrap();
    assert_eq!((found.total, found.fit), (2, 1));
    assert_eq!(found.nearest[0].volume, "near");
}
