//! The claims of a pod, and the result of each node.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::super::super::volumes::Caches;
use super::*;
use crate::testing::merge_into;

/// Storage for one test, filled by hand.
struct World {
    caches: Caches,
    volumes: Volumes,
}

impl World {
    fn new() -> Self {
        let caches = Caches::empty();
        let world = Self { volumes: Volumes::new(caches.clone()), caches };
        for (name, mode, provisioner, terms) in [
            ("wait", "WaitForFirstConsumer", "p", json!(null)),
            ("local", "WaitForFirstConsumer", "kubernetes.io/no-provisioner", json!(null)),
            ("now", "Immediate", "p", json!(null)),
            (
                "zone-b",
                "WaitForFirstConsumer",
                "p",
                json!([{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]),
            ),
        ] {
            let class = json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode,
                "allowedTopologies": terms});
            world.caches.classes.apply(serde_json::from_value(class).unwrap());
        }
        world
    }

    fn claim(&self, name: &str, class: &str, more: Value) {
        let mut claim = json!({"metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1"},
            "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}});
        merge_into(&mut claim, &more);
        self.caches.claims.apply(serde_json::from_value(claim).unwrap());
    }

    /// An available volume in a zone.
    fn volume(&mut self, name: &str, class: &str, zone: &str, more: Value) {
        let mut volume = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
                [{"key": "zone", "operator": "In", "values": [zone]}]}]}}}, "status": {"phase": "Available"}});
        merge_into(&mut volume, &more);
        self.caches.volumes.apply(serde_json::from_value(volume).unwrap());
        let kept = self.caches.volumes.get_kept(name).unwrap();
        self.volumes.put_volume(&kept, &kept.get());
    }

    fn ask(&self, claims: &[&str], zone: &str) -> Result<PodVolumes, Vec<String>> {
        let claims = claims_of(&pod(claims), &self.volumes).unwrap();
        let labels = [("zone".to_owned(), zone.to_owned())].into_iter().collect();
        let node = NodeFacts { name: format!("node-{zone}"), labels, ..NodeFacts::default() };
        check(&claims, &self.volumes, &node, &visits(1, 1))
            .unwrap()
            .map(Plan::read)
            .map_err(|misfit| misfit.reasons)
    }
}

fn pod(claims: &[&str]) -> Pod {
    let volume = |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    let volumes: Vec<Value> = claims.iter().map(volume).collect();
    serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "p", "uid": "u"},
        "spec": {"containers": [], "volumes": volumes}}))
    .unwrap()
}

fn bound_to(volume: &str) -> Value {
    json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": volume}})
}

#[test]
fn unusable_claims_reject_all_nodes() {
    let world = World::new();
    let del = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    world.claim("lost", "now", json!({"spec": {"volumeName": "v"}, "status": {"phase": "Lost"}}));
    world.claim("going", "now", del);
    world.claim("immediate", "now", json!({}));
    world.claim("no-class", "gone", json!({}));
    world.claim("half", "wait", json!({"spec": {"volumeName": "v"}}));
    world.claim("waits", "wait", json!({}));
    world.claim("bound", "now", bound_to("v"));
    world.claim("p-e", "wait", json!({}));
    let immediate = "pod has unbound immediate PersistentVolumeClaims";
    let table = [
        ("missing", Some("persistentvolumeclaim \"missing\" not found")),
        ("lost", Some("persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"v\"")),
        ("going", Some("persistentvolumeclaim \"going\" is being deleted")),
        ("immediate", Some(immediate)),
        ("no-class", Some(immediate)),
        ("half", Some(immediate)),
        ("waits", None),
        ("bound", None),
    ];
    for (claim, wanted) in table {
        let said = claims_of(&pod(&[claim]), &world.volumes).err();
        assert_eq!(said, wanted.map(|text| NotNow::Unfit(text.to_owned())), "{claim}");
    }
    let mut ephemeral = pod(&[]);
    for (volume, wanted) in [
        ("f", "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-f\""),
        ("e", "PVC ns/p-e was not created for pod ns/p (pod is not owner)"),
    ] {
        let volumes = json!([{"name": volume, "ephemeral": {}}]);
        ephemeral.spec.as_mut().unwrap().volumes = serde_json::from_value(volumes).unwrap();
        let said = claims_of(&ephemeral, &world.volumes).unwrap_err();
        assert_eq!(said, NotNow::Unfit(wanted.to_owned()));
    }
}

#[test]
fn node_result_for_bound_and_waiting_claims() {
    let mut world = World::new();
    world.volume("pv-a", "local", "a", json!({}));
    world.volume("pv-b", "now", "b", json!({"status": {"phase": "Bound"}}));
    world.claim("local", "local", json!({}));
    world.claim("local-2", "local", json!({}));
    world.claim("bound", "now", bound_to("pv-b"));
    world.claim("orphan", "now", bound_to("pv-gone"));
    world.claim("made", "wait", json!({}));
    world.claim("made-b", "zone-b", json!({}));
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-a"}}});
    world.claim("asked-a", "wait", selected);
    type Table<'a> =
        [(&'a str, &'a [&'a str], &'a str, Result<(&'a [&'a str], &'a [&'a str]), &'a [&'a str]>); 12];
    let table: Table<'_> = [
        ("no claims", &[], "a", Ok((&[], &[]))),
        ("a volume is there", &["local"], "a", Ok((&["pv-a"], &[]))),
        ("none is there", &["local"], "b", Err(&[NOTHING_TO_BIND])),
        ("one for two", &["local", "local-2"], "a", Err(&[NOTHING_TO_BIND])),
        ("the bound volume is there", &["bound"], "b", Ok((&[], &[]))),
        ("the bound volume is elsewhere", &["bound"], "a", Err(&[AFFINITY])),
        ("its volume is gone", &["orphan"], "a", Err(&[VOLUME_GONE])),
        ("one will be made", &["made"], "a", Ok((&[], &["made"]))),
        ("not where the class allows none", &["made-b"], "a", Err(&[NOTHING_TO_BIND])),
        ("but where it does", &["made-b"], "b", Ok((&[], &["made-b"]))),
        ("asked for here already", &["asked-a"], "a", Ok((&[], &["asked-a"]))),
        (
            "asked for elsewhere, and more is wrong",
            &["asked-a", "orphan"],
            "b",
            Err(&[NOTHING_TO_BIND, VOLUME_GONE]),
        ),
    ];
    for (name, claims, zone, wanted) in table {
        let said = world.ask(claims, zone).map(|found| {
            let bind = found.bind.iter().map(|(volume, _)| object::name(&volume.metadata).to_owned());
            let provision = found.provision.iter().map(|claim| object::name(&claim.metadata).to_owned());
            (bind.collect::<Vec<_>>(), provision.collect::<Vec<_>>())
        });
        let own = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let wanted = wanted.map(|(bind, make)| (own(bind), own(make))).map_err(own);
        assert_eq!(said, wanted, "{name}");
    }
}

#[test]
fn published_capacity_restricts_provisioning() {
    let mut world = World::new();
    world.claim("c", "wait", json!({}));
    let driver = |tells: bool| json!({"metadata": {"name": "p"}, "spec": {"storageCapacity": tells}});
    let publish = |world: &mut World, name: &str, more: Value| {
        let mut capacity = json!({"metadata": {"namespace": "ns", "name": name}, "storageClassName": "wait",
            "nodeTopology": {"matchLabels": {"zone": "a"}}});
        merge_into(&mut capacity, &more);
        world.volumes.put_capacity(name, Some(&serde_json::from_value(capacity).unwrap()));
    };
    let fits = |world: &World| world.ask(&["c"], "a").is_ok();
    assert!(fits(&world), "the driver is not known");
    world.caches.drivers.apply(serde_json::from_value(driver(false)).unwrap());
    assert!(fits(&world), "it tells nothing");
    world.caches.drivers.apply(serde_json::from_value(driver(true)).unwrap());
    assert_eq!(world.ask(&["c"], "a").unwrap_err(), [NO_ROOM], "it has reported nothing yet");
    publish(&mut world, "small", json!({"capacity": "1Mi"}));
    publish(
        &mut world,
        "elsewhere",
        json!({"capacity": "1Ti", "nodeTopology": {"matchLabels": {"zone": "b"}}}),
    );
    publish(&mut world, "nowhere", json!({"capacity": "1Ti", "nodeTopology": null}));
    publish(&mut world, "other class", json!({"capacity": "1Ti", "storageClassName": "other"}));
    publish(&mut world, "in small pieces", json!({"capacity": "1Ti", "maximumVolumeSize": "1Mi"}));
    assert!(!fits(&world));
    publish(&mut world, "enough", json!({"capacity": "1Gi"}));
    assert!(fits(&world));
}

#[test]
fn assumptions_are_used_until_the_server_reports_otherwise() {
    let mut world = World::new();
    world.volume("pv-a", "local", "a", json!({}));
    world.claim("local", "local", json!({}));
    world.claim("local-2", "local", json!({}));
    let (volume, claim) = world.ask(&["local"], "a").unwrap().bind.remove(0);
    let changed = crate::pv::bind::volume_with_claim(&volume, &claim).unwrap();
    world.volumes.assume_volume(changed.clone());
    assert!(world.ask(&["local"], "a").is_ok() && world.ask(&["local-2"], "a").is_err());
    world.volumes.restore_volume("pv-a");
    assert!(world.ask(&["local-2"], "a").is_ok() && world.volumes.is_settled());
    // A concurrent write came first.
    world.volumes.assume_volume(changed);
    world.volume("pv-a", "local", "a", json!({"metadata": {"resourceVersion": "2"}}));
    assert!(world.ask(&["local-2"], "a").is_ok() && world.volumes.is_settled());

    let mut selected = world.volumes.claim("ns/local").unwrap().as_ref().clone();
    object::set_annotation(&mut selected.metadata, names::ANN_SELECTED_NODE, "node-b");
    world.volumes.assume_claim(selected.clone());
    assert_eq!(world.ask(&["local"], "a").unwrap_err(), [NOTHING_TO_BIND]);
    world.volumes.restore_claim("ns/local");
    assert!(world.ask(&["local"], "a").is_ok());
    // Written: the assumption stays until the informer has it.
    world.volumes.assume_claim(selected.clone());
    selected.metadata.resource_version = Some("3".to_owned());
    world.volumes.claim_written(selected);
    world.volumes.restore_claim("ns/local");
    let key = "ns/local";
    world.volumes.claim_changed(key, world.caches.claims.get_kept(key).as_ref());
    assert!(world.ask(&["local"], "a").is_err(), "an old version does not count");
    world.claim("local", "local", json!({"metadata": {"resourceVersion": "3"}}));
    world.volumes.claim_changed(key, world.caches.claims.get_kept(key).as_ref());
    assert!(world.ask(&["local"], "a").is_ok() && world.volumes.is_settled());
}
