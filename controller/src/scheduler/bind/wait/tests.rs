//! The binding progress of claims.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::super::super::volumes::Caches;
use super::*;
use crate::testing::merge_into;

fn world(claim: Option<Value>, volume: Option<Value>) -> Volumes {
    let caches = Caches::empty();
    let mut volumes = Volumes::new(caches.clone());
    if let Some(more) = claim {
        let mut claim = json!({"metadata": {"namespace": "ns", "name": "c", "uid": "u", "resourceVersion": "1",
            "annotations": {"a": "b"}}, "spec": {}});
        merge_into(&mut claim, &more);
        caches.claims.apply(serde_json::from_value(claim).unwrap());
    }
    if let Some(more) = volume {
        let mut volume = json!({"metadata": {"name": "v", "uid": "v", "resourceVersion": "1"}, "spec": {
            "claimRef": {"namespace": "ns", "name": "c", "uid": "u"}, "nodeAffinity": {"required": {"nodeSelectorTerms":
                [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}});
        merge_into(&mut volume, &more);
        caches.volumes.apply(serde_json::from_value(volume).unwrap());
        let kept = caches.volumes.get_kept("v").unwrap();
        volumes.put_volume(&kept, &kept.get());
    }
    volumes
}

#[test]
fn pod_waits_until_all_its_claims_are_bound() {
    let labels = [("zone".to_owned(), "a".to_owned())].into_iter().collect();
    let node = NodeFacts { name: "n".to_owned(), labels, ..NodeFacts::default() };
    let own = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}});
    let named = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}, "spec": {"volumeName": "v"}});
    let mut bound = named.clone();
    bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
    let (here, plain) = (Some(json!({})), Some(json!({})));
    let other = Some(json!({"spec": {"claimRef": null}}));
    let away = Some(json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}}));
    let no = |text: &str| Err(text.to_owned());
    let unfit = "pv \"v\" node affinity doesn't match node \"n\": no matching NodeSelectorTerms";
    let table = [
        (
            "static: the binder has not been there",
            Some("v"),
            plain.clone(),
            here.clone(),
            Ok(Progress::Waits),
        ),
        ("static: the name is there", Some("v"), Some(named.clone()), here.clone(), Ok(Progress::Waits)),
        ("static: bound", Some("v"), Some(bound.clone()), here.clone(), Ok(Progress::Bound)),
        ("static: untied", Some("v"), plain.clone(), other, no("ClaimRef got reset for pv \"v\"")),
        ("static: gone", Some("v"), plain.clone(), None, no("persistentvolume \"v\" not found")),
        ("static: moved", Some("v"), plain.clone(), away.clone(), no(unfit)),
        ("the claim is gone", Some("v"), None, here.clone(), no("persistentvolumeclaim \"c\" not found")),
        (
            "another claim",
            None,
            Some(json!({"metadata": {"uid": "w"}})),
            None,
            no("persistentvolumeclaim \"c\" not found"),
        ),
        ("made: not yet", None, Some(own), None, Ok(Progress::Waits)),
        ("made: the volume is not seen yet", None, Some(bound.clone()), None, Ok(Progress::Waits)),
        ("made: bound", None, Some(bound.clone()), here, Ok(Progress::Bound)),
        ("made: elsewhere", None, Some(bound), away, no(unfit)),
        ("made: given back", None, plain, None, no("provisioning failed for PVC \"c\"")),
        (
            "made: given back with all marks",
            None,
            Some(json!({"metadata": {"annotations": null}})),
            None,
            no("selectedNode annotation reset for PVC \"c\""),
        ),
    ];
    for (name, chosen, claim, volume, wanted) in table {
        let awaited =
            Awaited { claim: "ns/c".to_owned(), uid: "u".to_owned(), volume: chosen.map(str::to_owned) };
        assert_eq!(progress(&[awaited], &world(claim, volume), &node), wanted, "{name}");
    }
}
