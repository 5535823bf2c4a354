//! Which change queues which keys: only the affected ones, independent of the number of other objects.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::notation::{parse, unique};
use crate::attach::controller::Controller;
use crate::attach::volume::{Key, digest};
use crate::attach::{settings, watch};
use crate::options::Options;
use crate::testing::FakeApi;
use orlop_volume::attachment::name_of_digest;

const NODES: usize = 20;
const VOLUMES: usize = 1000;

/// A controller with caches of this size that has checked all objects.
struct Stage {
    controller: Arc<Controller>,
    _handlers: Vec<orlop_client::informer::Registration>,
    _shutdown: tokio_util::sync::DropGuard,
}

fn key(n: usize) -> Key {
    Key::new(&unique(&format!("HP^v-{n}")), &format!("node-{}", n % NODES))
}

fn typed<K: serde::de::DeserializeOwned>(line: &str, version: u64) -> K {
    let mut object = parse(line, "");
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    typed_value(object)
}

fn typed_value<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn attachment(n: usize, version: u64, status: Value) -> Value {
    let key = key(n);
    json!({"metadata": {"name": name_of_digest(&digest(&key).unwrap()), "uid": format!("a-{n}"),
        "resourceVersion": version.to_string()}, "spec": {"attacher": "hostpath.csi.k8s.io", "nodeName": &*key.node,
        "source": {"persistentVolumeName": format!("pv-{n}")}}, "status": status})
}

async fn stage() -> Stage {
    let shutdown = CancellationToken::new();
    let options = Options::default();
    let context = FakeApi::new().context(options.clone(), &shutdown);
    let controller = Arc::new(Controller::new(&context, settings(&options)));
    let handlers = watch(&controller);
    controller.caches.synced().await;
    for n in 0..NODES {
        controller.caches.nodes.apply(typed(&format!("node node-{n}"), 1));
    }
    for n in 0..VOLUMES {
        let caches = &controller.caches;
        caches.volumes.apply(typed(&format!("pv pv-{n} HP^v-{n} RWO ref=default/c-{n}:uid-c-{n}"), 1));
        caches.claims.apply(typed(&format!("pvc default/c-{n} uid-c-{n} volume=pv-{n}"), 1));
        caches.attachments.apply(typed_value(attachment(n, 1, json!({"attached": true}))));
        caches.pods.apply(typed(&format!("pod default/p-{n} on=node-{} claim=c-{n}", n % NODES), 1));
    }
    let stage = Stage { controller, _handlers: handlers, _shutdown: shutdown.drop_guard() };
    stage.controller.state().started = true;
    assert_eq!(stage.woken().len(), VOLUMES);
    // All are attached.
    let mut state = stage.controller.state();
    for n in 0..VOLUMES {
        let spec = state.desired.spec(&key(n).volume).cloned();
        state.actual.put(&key(n), spec.as_ref(), true);
    }
    drop(state);
    stage
}

impl Stage {
    /// Resolves the queued pods. Returns the keys that are queued then.
    fn woken(&self) -> Vec<Key> {
        while let Some(pod) = self.controller.pods.try_get() {
            self.controller.look_at_pod(&pod);
            self.controller.pods.done(&pod);
        }
        let mut keys = Vec::new();
        while let Some(key) = self.controller.keys.try_get() {
            self.controller.keys.done(&key);
            keys.push(key);
        }
        keys.sort();
        keys
    }
}

#[tokio::test(start_paused = true)]
async fn change_queues_only_affected_keys() {
    let stage = stage().await;
    let caches = stage.controller.caches.clone();

    caches.pods.apply(typed("pod default/p-7 on=node-7 claim=c-7", 2));
    assert_eq!(stage.woken(), [], "a pod that wants what it has");
    caches.volumes.apply(typed("pv pv-7 HP^v-7 RWO ref=default/c-7:uid-c-7 force-after=never", 2));
    caches.claims.apply(typed("pvc default/c-7 uid-c-7 volume=pv-7", 2));
    assert_eq!(stage.woken(), [], "a volume and a claim whose pod has them");
    caches.nodes.apply(typed("node node-7", 2));
    assert_eq!(stage.woken(), [], "a node that says nothing new");

    caches.attachments.apply(typed_value(attachment(7, 2, json!({"attached": false}))));
    assert_eq!(stage.woken(), [key(7)], "a VolumeAttachment");

    caches.pods.remove(typed("pod default/p-8 on=node-8 claim=c-8", 2));
    assert_eq!(stage.woken(), [key(8)], "a pod that is gone");
    caches.nodes.apply(typed("node node-8 not-ready", 3));
    assert_eq!(stage.woken(), [key(8)], "a node: what is there and not wanted, of all that is there");
    caches.nodes.apply(typed("node node-8 not-ready", 4));
    assert_eq!(stage.woken(), [], "the same node again");

    caches.pods.apply(typed("pod default/p-new on=node-9 claim=c-8", 2));
    assert_eq!(
        stage.woken(),
        [key(8), Key { node: "node-9".into(), ..key(8) }],
        "a pod on another node, and the node that has its volume"
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(stage.woken(), [], "nothing more, later");
}
