//! The cost of a decision as the cluster grows: counted in objects read from a cache, each of which may have to be decoded, never
//! in time.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::cluster::{Cluster, NodeFacts};
use super::super::decide::{Decision, decide};
use super::super::filter::{Rule, Rules};
use super::super::pod::PodFacts;
use super::super::volumes::{Caches, Volumes};
use super::{node, pod};
use orlop_client::packed_object::GETS;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Nodes with a volume limit that is reached: every disk is attached, and used by a pod.
struct World {
    caches: Caches,
    volumes: Volumes,
    cluster: Cluster,
}

impl World {
    fn new(nodes: usize, disks: usize) -> Self {
        let caches = Caches::empty();
        let mut world = Self { volumes: Volumes::new(caches.clone()), caches, cluster: Cluster::default() };
        for (class, provisioner) in [("fast", "d"), ("local", "kubernetes.io/no-provisioner")] {
            world.caches.classes.apply(read(super::storage::class(class, provisioner)));
        }
        let tells = json!({"metadata": {"name": "d"}, "spec": {"storageCapacity": true}});
        world.caches.drivers.apply(read(tells));
        for n in 0..nodes {
            world.node(&format!("n{n}"), disks);
            for d in 0..disks {
                let claim = format!("c{n}-{d}");
                world.disk(&claim);
                world.attach(&claim, &format!("n{n}"));
                let pod = pod(&format!("p{n}-{d}"), &[claim.as_str()]);
                world.cluster.put_pod(PodFacts::of(&read(pod)), &format!("n{n}"));
            }
        }
        world.cluster.settle_disks(&mut world.volumes);
        world
    }

    fn node(&mut self, name: &str, disks: usize) {
        let mut node = node(name, "z");
        node["status"]["allocatable"] = json!({"cpu": "1000", "memory": "8Gi", "pods": "1000"});
        self.cluster.put_node(NodeFacts::of(&read(node)));
        let driver = json!({"name": "d", "nodeID": name, "allocatable": {"count": disks}});
        let csi = read(json!({"metadata": {"name": name}, "spec": {"drivers": [driver]}}));
        self.cluster.put_csi_node(name, Some(&csi));
        let room = json!({"metadata": {"namespace": "ns", "name": name}, "storageClassName": "fast", "capacity": "1Ti",
            "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": name}}});
        self.volumes.put_capacity(&format!("ns/{name}"), Some(&read(room)));
        self.volume(super::storage::local(&format!("local-{name}"), name));
    }

    fn volume(&mut self, mut volume: Value) {
        volume["metadata"]["resourceVersion"] = json!("1");
        let name = volume["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.caches.volumes.apply(read(volume));
        let kept = self.caches.volumes.get_kept(&name).unwrap();
        self.volumes.put_volume(&kept, &kept.get());
    }

    fn claim(&mut self, mut claim: Value) {
        claim["metadata"]["resourceVersion"] = json!("1");
        let key = format!("ns/{}", claim["metadata"]["name"].as_str().unwrap_or_default());
        self.caches.claims.apply(read(claim));
        self.volumes.claim_changed(&key, self.caches.claims.get_kept(&key).as_ref());
    }

    /// A claim with its volume.
    fn disk(&mut self, name: &str) {
        self.volume(json!({"metadata": {"name": format!("pv-{name}")}, "spec": {"storageClassName": "fast",
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "csi": {"driver": "d", "volumeHandle": name}, "claimRef": {"namespace": "ns", "name": name}},
            "status": {"phase": "Bound"}}));
        let mut claim = super::storage::claim(name, "fast", "ReadWriteOnce");
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        claim["spec"]["volumeName"] = json!(format!("pv-{name}"));
        self.claim(claim);
    }

    fn attach(&mut self, claim: &str, node: &str) {
        let attachment = json!({"metadata": {"name": format!("va-{claim}")}, "spec": {"attacher": "d", "nodeName": node,
            "source": {"persistentVolumeName": format!("pv-{claim}")}}});
        self.cluster.put_attachment(&format!("va-{claim}"), Some(&read(attachment)));
    }

    /// Decides about a new pod with this claim, and counts the objects read.
    fn ask(&mut self, claim: &str) -> (Result<String, Rules>, usize) {
        let pod = read(pod("new", &[claim]));
        let before = GETS.get();
        let began = std::time::Instant::now();
        let decision = decide(&pod, &PodFacts::of(&pod), &mut self.cluster, &mut self.volumes).unwrap();
        println!("{claim}: {:?}", began.elapsed());
        let said = match decision {
            Decision::Place { node, .. } => Ok(node),
            Decision::Unfit { rules, .. } => Err(rules),
        };
        (said, GETS.get() - before)
    }
}

/// `ORLOP_TEST_NODES` and `ORLOP_TEST_DISKS` set the size of the larger cluster, for manual measurements.
#[test]
fn reads_of_a_decision_do_not_grow_with_the_cluster() {
    let number = |name: &str, usual: usize| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let sizes = [(5, 3), (number("ORLOP_TEST_NODES", 60), number("ORLOP_TEST_DISKS", 12))];
    let costs = sizes.map(|(nodes, disks)| {
        let mut world = World::new(nodes, disks);
        world.disk("more");
        world.claim(super::storage::claim("made", "fast", "ReadWriteOnce"));
        world.claim(super::storage::claim("found", "local", "ReadWriteOnce"));
        let (full, rules) = (world.ask("more"), Err(Rules::of(&[Rule::Limits])));
        assert_eq!(full.0, rules, "every node has all that it takes");
        let to_come = world.ask("made");
        assert_eq!(to_come.0, rules, "one to come is one more too");
        let there = world.ask("c1-1");
        assert!(there.0.is_ok(), "this one is on a node already");
        let local = world.ask("found");
        assert!(local.0.is_ok(), "local volumes are on every node");
        // A pod is removed: its disk is still attached first, then detached.
        world.cluster.remove_pod("ns/p2-0");
        assert_eq!(world.ask("more").0, rules);
        world.cluster.put_attachment("va-c2-0", None);
        let room = world.ask("more");
        assert_eq!(room.0, Ok("n2".to_owned()));
        let facts = Arc::new(PodFacts::of(&read(pod("assumed", &["more"]))));
        world.cluster.assume(facts, "n2");
        let after = world.ask("made");
        assert_eq!(after.0, rules, "its place is taken");
        [full.1, to_come.1, there.1, local.1, room.1, after.1]
    });
    assert_eq!(costs[0], costs[1], "what is read for a decision");
    assert!(costs[1].iter().all(|reads| *reads <= 10), "{costs:?}");
}
