//! The incremental counts always equal a full recount.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::super::cluster::{Cluster, NodeFacts};
use super::super::pod::PodFacts;
use super::super::volumes::Caches;
use super::*;

const STEPS: usize = 4_000;

/// The objects that disks depend on, and the pods' nodes.
struct World {
    caches: Caches,
    volumes: Volumes,
    cluster: Cluster,
    /// Node, claims, and whether the placement is only assumed.
    pods: BTreeMap<String, (String, Vec<String>, bool)>,
    attachments: BTreeMap<String, VolumeAttachment>,
    csi_nodes: BTreeMap<String, CSINode>,
    version: u64,
}

/// Limit and handles, by node and driver.
type Counted = BTreeMap<(String, String), (Option<usize>, BTreeMap<String, usize>)>;

impl World {
    fn new() -> Self {
        let caches = Caches::empty();
        Self {
            volumes: Volumes::new(caches.clone()),
            caches,
            cluster: Cluster::default(),
            pods: BTreeMap::new(),
            attachments: BTreeMap::new(),
            csi_nodes: BTreeMap::new(),
            version: 0,
        }
    }

    fn meta(&mut self, name: &str) -> Value {
        self.version += 1;
        json!({"name": name, "uid": name, "resourceVersion": self.version.to_string()})
    }

    fn claim(
        &mut self,
        name: &str,
        volume: &str,
        class: &str,
    ) -> k8s_openapi::api::core::v1::PersistentVolumeClaim {
        let mut meta = self.meta(name);
        meta["namespace"] = json!("ns");
        let spec = json!({"volumeName": volume, "storageClassName": class});
        serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap()
    }

    fn put_claim(&mut self, name: &str, volume: &str, class: &str) {
        let claim = self.claim(name, volume, class);
        self.caches.claims.apply(claim);
        self.claim_changed(name);
    }

    fn remove_claim(&mut self, name: &str) {
        let claim = self.claim(name, "", "");
        self.caches.claims.remove(claim);
        self.claim_changed(name);
    }

    fn claim_changed(&mut self, name: &str) {
        let key = format!("ns/{name}");
        self.volumes.claim_changed(&key, self.caches.claims.get_kept(&key).as_ref());
    }

    fn volume(&mut self, name: &str, source: Value) -> k8s_openapi::api::core::v1::PersistentVolume {
        serde_json::from_value(json!({"metadata": self.meta(name), "spec": source})).unwrap()
    }

    fn put_volume(&mut self, name: &str, source: Value) {
        let volume = self.volume(name, source);
        self.caches.volumes.apply(volume);
        let kept = self.caches.volumes.get_kept(name).unwrap();
        self.volumes.put_volume(&kept, &kept.get());
    }

    fn remove_volume(&mut self, name: &str) {
        let volume = self.volume(name, json!({}));
        self.caches.volumes.remove(volume);
        self.volumes.remove_volume(name);
    }

    fn class(&mut self, name: &str, provisioner: Option<&str>) {
        let meta = self.meta(name);
        let class = json!({"metadata": meta, "provisioner": provisioner.unwrap_or_default()});
        let class = serde_json::from_value(class).unwrap();
        match provisioner {
            Some(_) => self.caches.classes.apply(class),
            None => self.caches.classes.remove(class),
        }
        self.volumes.class_changed(name);
    }

    fn attach(&mut self, name: &str, node: &str, source: Value) {
        let attachment = json!({"metadata": {"name": name}, "spec": {"attacher": "d", "nodeName": node, "source": source}});
        let attachment: VolumeAttachment = serde_json::from_value(attachment).unwrap();
        self.cluster.put_attachment(name, Some(&attachment));
        self.attachments.insert(name.to_owned(), attachment);
    }

    fn detach(&mut self, name: &str) {
        self.cluster.put_attachment(name, None);
        self.attachments.remove(name);
    }

    fn pod(name: &str, claims: &[String]) -> PodFacts {
        let volume = |claim: &String| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
        let volumes: Vec<Value> = claims.iter().map(volume).collect();
        let pod = json!({"metadata": {"namespace": "ns", "name": name, "uid": name},
            "spec": {"containers": [], "volumes": volumes}});
        PodFacts::of(&serde_json::from_value(pod).unwrap())
    }

    fn put_pod(&mut self, name: &str, node: &str, claims: Vec<String>, assumed: bool) {
        let facts = Self::pod(name, &claims);
        match assumed {
            true => self.cluster.assume(Arc::new(facts), node),
            false => drop(self.cluster.put_pod(facts, node)),
        }
        self.pods.insert(name.to_owned(), (node.to_owned(), claims, assumed));
    }

    fn remove_pod(&mut self, name: &str) {
        self.cluster.remove_pod(&format!("ns/{name}"));
        self.pods.remove(name);
    }

    fn csi_node(&mut self, name: &str, limits: &[(&str, Option<i32>)]) {
        let driver = |(name, count): &(&str, Option<i32>)| json!({"name": name, "nodeID": "x", "allocatable": {"count": count}});
        let drivers: Vec<Value> = limits.iter().map(driver).collect();
        let node = json!({"metadata": {"name": name}, "spec": {"drivers": drivers}});
        let node: CSINode = serde_json::from_value(node).unwrap();
        self.cluster.put_csi_node(name, Some(&node));
        self.csi_nodes.insert(name.to_owned(), node);
    }

    /// The full recount.
    fn recounted(&self) -> Counted {
        let mut all = Counted::new();
        let mut uses = BTreeSet::new();
        for (node, claims, _) in self.pods.values() {
            uses.extend(claims.iter().map(|claim| (node.clone(), format!("ns/{claim}"))));
        }
        let used = uses.into_iter().map(|(node, claim)| (node, self.volumes.disk_of(&claim).disk));
        let attached = self.attachments.values().map(|attachment| {
            let source = &attachment.spec.source;
            let inline = source.inline_volume_spec.as_ref().and_then(|inline| inline.csi.as_ref());
            let inline = inline.map(|csi| Arc::new((csi.driver.clone(), csi.volume_handle.clone())));
            let volume = source.persistent_volume_name.as_ref();
            let disk = volume.map_or(inline, |volume| self.volumes.disk_of_volume(volume));
            (attachment.spec.node_name.clone(), disk)
        });
        for (node, disk) in used.chain(attached) {
            let Some(disk) = disk else { continue };
            let of = all.entry((node, disk.0.clone())).or_default();
            *of.1.entry(disk.1.clone()).or_default() += 1;
        }
        for (name, node) in &self.csi_nodes {
            for (driver, limit) in super::super::disk::volume_limits(Some(node)) {
                all.entry((name.clone(), driver)).or_default().0 = Some(limit);
            }
        }
        all
    }

    /// The incremental counts.
    fn kept(&mut self) -> Counted {
        self.cluster.settle_disks(&mut self.volumes);
        let mut all = Counted::new();
        for (node, disks) in &self.cluster.disks().nodes {
            assert!(!disks.drivers.is_empty(), "an empty record is not kept");
            for (driver, of) in &disks.drivers {
                let handles = of.disks.iter().map(|(disk, holders)| (disk.1.clone(), *holders)).collect();
                all.insert((node.clone(), driver.clone()), (of.limit, handles));
            }
        }
        all
    }

    fn count(&mut self, node: &str) -> usize {
        assert_eq!(self.kept(), self.recounted());
        self.cluster.disks().on(node).and_then(|disks| disks.of("d")).map_or(0, OfDriver::count)
    }
}

fn csi(driver: &str, handle: &str) -> Value {
    json!({"csi": {"driver": driver, "volumeHandle": handle}})
}

#[test]
fn attached_and_used_disk_counts_once_in_any_order() {
    let mut world = World::new();
    let claims = || vec!["c".to_owned()];
    world.attach("a", "n", json!({"persistentVolumeName": "v"}));
    world.put_pod("p", "n", claims(), true);
    assert_eq!(world.count("n"), 0, "unknown volume and claim");
    world.put_claim("c", "v", "k");
    assert_eq!(world.count("n"), 0, "no volume, and no class that says which driver's it will be");
    world.class("k", Some("d"));
    assert_eq!(world.count("n"), 1, "one to come");
    world.put_volume("v", csi("d", "h"));
    assert_eq!(world.count("n"), 1, "attached and used");
    world.put_pod("p", "n", claims(), false);
    world.put_pod("q", "n", claims(), false);
    world.put_pod("r", "m", claims(), false);
    assert_eq!((world.count("n"), world.count("m")), (1, 1));
    world.remove_pod("p");
    assert_eq!(world.count("n"), 1);
    world.detach("a");
    assert_eq!(world.count("n"), 1, "used by one still");
    world.remove_pod("q");
    assert_eq!((world.count("n"), world.count("m")), (0, 1));
    world.remove_volume("v");
    assert_eq!(world.count("m"), 1, "one to come again");
    world.class("k", None);
    assert_eq!(world.count("m"), 0);
}

fn step(world: &mut World, random: &mut StdRng) {
    let mut one_of = |prefix: &str, many: usize| format!("{prefix}{}", random.random_range(0..many));
    let (claim, volume, class, node) = (one_of("c", 6), one_of("v", 5), one_of("k", 2), one_of("n", 3));
    let (driver, handle, attachment, pod) = (one_of("d", 2), one_of("h", 4), one_of("a", 5), one_of("p", 8));
    let source = match random.random_range(0..4) {
        0 => json!({}),
        _ => csi(&driver, &handle),
    };
    match random.random_range(0..18) {
        0 | 1 => world.put_claim(&claim, &volume, &class),
        2 => world.put_claim(&claim, "", &class),
        3 => world.remove_claim(&claim),
        4 => world.put_volume(&volume, source),
        5 => world.remove_volume(&volume),
        6 => world.class(&class, (random.random_range(0..2) == 0).then_some(driver.as_str())),
        7 => world.attach(&attachment, &node, json!({"persistentVolumeName": volume})),
        8 => world.attach(&attachment, &node, json!({"inlineVolumeSpec": source})),
        9 => world.detach(&attachment),
        10 => world.csi_node(&node, &[("d0", Some(random.random_range(0..3))), ("d1", None)]),
        11 => {
            world.cluster.put_csi_node(&node, None);
            world.csi_nodes.remove(&node);
        }
        12 | 13 => {
            let claims = (0..6).map(|n| format!("c{n}")).filter(|_| random.random_range(0..3) == 0).collect();
            let known = world.pods.contains_key(&pod);
            world.put_pod(&pod, &node, claims, !known && random.random_range(0..2) == 0);
        }
        14 => {
            world.cluster.forget(&format!("ns/{pod}"), &pod);
            if world.pods.get(&pod).is_some_and(|(_, _, assumed)| *assumed) {
                world.pods.remove(&pod);
            }
        }
        15 => world.remove_pod(&pod),
        16 => match random.random_range(0..2) {
            0 => drop(world.cluster.put_node(NodeFacts { name: node, ..NodeFacts::default() })),
            _ => world.cluster.remove_node(&node),
        },
        _ => {
            let (assumed_claim, assumed_volume) =
                (world.claim(&claim, &volume, &class), world.volume(&volume, source));
            match random.random_range(0..6) {
                0 => world.volumes.assume_claim(assumed_claim),
                1 => world.volumes.restore_claim(&format!("ns/{claim}")),
                2 => world.volumes.claim_written(assumed_claim),
                3 => world.volumes.assume_volume(assumed_volume),
                4 => world.volumes.restore_volume(&volume),
                _ => world.volumes.volume_written(assumed_volume),
            }
        }
    }
}

#[test]
fn incremental_counts_equal_a_full_recount() {
    let seed = std::env::var("ORLOP_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_121);
    println!("ORLOP_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World::new();
    let mut most = 0;
    for nth in 0..STEPS {
        step(&mut world, &mut random);
        // Not after every step: several changes may precede a query.
        if random.random_range(0..3) == 0 {
            let (kept, recounted) = (world.kept(), world.recounted());
            assert_eq!(kept, recounted, "seed {seed}, step {nth}");
            most = most.max(kept.values().map(|(_, handles)| handles.len()).max().unwrap_or(0));
        }
    }
    assert!(most > 3, "seed {seed}: there was something to count");
    for pod in world.pods.keys().cloned().collect::<Vec<_>>() {
        world.remove_pod(&pod);
    }
    for attachment in world.attachments.keys().cloned().collect::<Vec<_>>() {
        world.detach(&attachment);
    }
    for node in world.csi_nodes.keys().cloned().collect::<Vec<_>>() {
        world.cluster.put_csi_node(&node, None);
    }
    world.cluster.settle_disks(&mut world.volumes);
    let left = world.cluster.disks();
    let sizes = [
        left.nodes.len(),
        left.claims.len(),
        left.attachments.len(),
        left.by_volume.len(),
        left.by_class.len(),
    ];
    assert_eq!((sizes, left.stale.len()), ([0; 5], 0), "seed {seed}: nothing is left of what is gone");
}
