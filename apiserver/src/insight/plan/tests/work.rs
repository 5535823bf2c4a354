//! The work of plans for many objects.

use orlop_apimachinery::thread_time::assert_linear;

use super::*;
use crate::insight::plan::impact;
use crate::insight::plan::stoppable;

type Stored = (Snapshot<Projection>, ObjectTarget);

fn unblock((snapshot, aim): &Stored) -> bool {
    let options = PlanOptions::parse(json!({})).unwrap();
    decide(&ClusterView::new(snapshot), aim, "unblock", &options, &PlanContext::default()).is_ok()
}

fn terminating(object: Value, finalizers: Vec<String>) -> Value {
    let metadata = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers});
    merged(object, &json!({ "metadata": metadata }))
}

#[test]
fn unblock_reads_the_attachments_once() {
    let stored = |count: usize| {
        let finalizers = (0..count).map(|at| format!("external-attacher/a{at}")).collect();
        let mut objects: Objects = vec![(
            "persistentvolumes",
            terminating(volume("v", "Released", json!(null), json!({})), finalizers),
        )];
        for at in 0..count {
            let source = json!({"persistentVolumeName": format!("w{at}")});
            let spec = json!({"attacher": "a", "nodeName": "n", "source": source});
            objects.push(("volumeattachments", merged(named(&format!("at{at}")), &json!({ "spec": spec }))));
        }
        (snapshot(&objects), target("persistentvolumes", "", "v"))
    };
    assert!(unblock(&stored(3)));
    assert_linear("unblock of a volume", 100, stored, unblock);
}

#[test]
fn unblock_reads_the_pods_once() {
    let stored = |count: usize| {
        let finalizers = vec!["kubernetes.io/pvc-protection".to_owned(); count];
        let mut objects: Objects =
            vec![("persistentvolumeclaims", terminating(claim("a", "c", "u", "Bound", "v"), finalizers))];
        objects.extend((0..count).map(|at| ("pods", pod("a", &format!("p{at}"), "other", "Running"))));
        (snapshot(&objects), target("persistentvolumeclaims", "a", "c"))
    };
    assert!(unblock(&stored(3)));
    assert_linear("unblock of a claim", 100, stored, unblock);
}

/// A set that owns many claims, each of which a pod uses.
fn owner_of_claims(count: usize) -> Stored {
    let owner = json!({"kind": "StatefulSet", "name": "s", "uid": "uid-s"});
    let set = merged(named("s"), &json!({"metadata": {"namespace": "a", "uid": "uid-s"}}));
    let mut objects: Objects = vec![("statefulsets", set)];
    for at in 0..count {
        let name = format!("c{at}");
        let owned = json!({"metadata": {"ownerReferences": [owner]}});
        let claim = merged(claim("a", &name, &format!("u{at}"), "Bound", ""), &owned);
        objects.push(("persistentvolumeclaims", claim));
        objects.push(("pods", pod("a", &format!("p{at}"), &name, "Running")));
    }
    (snapshot(&objects), target("statefulsets", "a", "s"))
}

#[test]
fn impact_reads_the_pods_of_owned_claims_once() {
    let plan = |(snapshot, aim): &Stored| impact::plan(&ClusterView::new(snapshot), aim, &[]).unwrap();
    let three = plan(&owner_of_claims(3));
    assert!(three.summary.ends_with("it waits for pod a/p0, pod a/p1, pod a/p2"), "{}", three.summary);
    assert_eq!(three.steps[1].message, "belongs to it alone: deleted when pod a/p0 is gone");
    assert_linear("impact of an owner", 50, owner_of_claims, plan);
}

#[test]
fn scans_end_with_their_request() {
    let (stored, aim) = owner_of_claims(3);
    let whole = impact::plan(&ClusterView::new(&stored), &aim, &[]).unwrap();
    let stopped = stoppable::stopped();
    let none = impact::plan(&ClusterView::new(&stored).until(stopped), &aim, &[]).unwrap();
    assert_eq!((whole.steps.len(), none.steps.len()), (4, 1));
}
