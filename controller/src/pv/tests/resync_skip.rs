//! Tests of the resync: the objects that it queues, and those that it skips.

use std::collections::BTreeSet;

use super::notation::parse;
use super::volume_handoff::still;
use crate::pv::binder::Binder;

const PAIR: [&str; 2] = [
    "pv pv-1 1Gi RWO Bound ref=default/c-1:uid-c-1 @by-controller",
    "pvc default/c-1 uid-c-1 1Gi RWO Bound volume=pv-1 has=RWO/1Gi @completed @by-controller",
];

/// Syncs the queued objects until the queues are empty. Returns their keys.
async fn sync_all(binder: &Binder) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    loop {
        if let Some(key) = binder.claims.try_get() {
            assert!(binder.process_claim(key.clone()).await.is_ok(), "{key}");
            binder.claims.done(&key);
            seen.insert(key);
        } else if let Some(name) = binder.volumes.try_get() {
            assert!(binder.process_volume(name.clone()).await.is_ok(), "{name}");
            binder.volumes.done(&name);
            seen.insert(name);
        } else {
            return seen;
        }
    }
}

async fn resync(binder: &Binder) -> BTreeSet<String> {
    binder.resync();
    sync_all(binder).await
}

fn set(keys: &[&str]) -> BTreeSet<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn resync_skips_only_settled_objects() {
    let lines = [
        PAIR[0],
        PAIR[1],
        "pv free 1Gi RWO Available class=other",
        "pv reserved 1Gi RWO Available ref=default/later",
        "pv released 1Gi RWO Released policy=Retain ref=default/gone:uid-gone",
        "pvc default/waits uid-waits 1Gi RWO Pending class=none",
        "pvc default/lost uid-lost 1Gi RWO Lost volume=never @completed @by-controller",
    ];
    let (binder, _api, _running) = still(lines.map(parse).to_vec()).await;
    let all = set(&["pv-1", "default/c-1", "free", "reserved", "released", "default/waits", "default/lost"]);
    assert_eq!(resync(&binder).await, all, "nothing was looked at before");
    let restless = set(&["reserved", "released", "default/waits", "default/lost"]);
    assert_eq!(resync(&binder).await, restless);
    assert_eq!(resync(&binder).await, restless, "and so it stays");
}

#[tokio::test(start_paused = true)]
async fn new_version_of_either_side_queues_both() {
    let table =
        [("persistentvolumes", "pv-1", "the volume"), ("persistentvolumeclaims", "default/c-1", "the claim")];
    for (resource, key, name) in table {
        let (binder, api, _running) = still(PAIR.map(parse).to_vec()).await;
        assert_eq!(resync(&binder).await.len(), 2, "{name}");
        assert_eq!(resync(&binder).await.len(), 0, "{name}");
        api.patch(resource, key, "", serde_json::json!({"metadata": {"labels": {"a": "b"}}}));
        api.settle().await;
        // The cache has the new version, the store does not: first the changed object is queued, and after its sync the
        // other.
        assert_eq!(resync(&binder).await, set(&[key]), "{name}");
        assert_eq!(resync(&binder).await.len(), 1, "{name}: the other side");
        assert_eq!(resync(&binder).await.len(), 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn object_in_only_one_of_cache_and_store_is_queued() {
    let (binder, api, _running) = still(PAIR.map(parse).to_vec()).await;
    assert_eq!(resync(&binder).await.len(), 2);
    api.delete("persistentvolumeclaims", "default/c-1");
    api.seed(parse("pv new 1Gi RWO Available class=other"));
    api.settle().await;
    let seen = resync(&binder).await;
    assert!(seen.is_superset(&set(&["default/c-1", "new"])), "{seen:?}");
}
