//! Claims and volumes that do not match because of one rule, one pair after the other on one server. Each is
//! explained with its code and the rule, and the test carries out the suggested fix: then the claim is bound.

use serde_json::{Value, json};

use super::{NO_AGENTS, add_node, carry_out, collection, read};
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};

const NAMESPACE: &str = "/api/v1/namespaces/w";

struct Pair {
    name: &'static str,
    claim: Value,
    /// The first one is `v`.
    volumes: Vec<Value>,
    more: Vec<Value>,
    code: &'static str,
    /// The first rule that excludes `v`, if the claim searches for a volume.
    rule: Option<&'static str>,
    /// The expected words of the explanation.
    words: &'static str,
    /// The volume to which the claim is bound afterwards; `None`: a provisioned one.
    then: Option<&'static str>,
}

fn with(mut object: Value, patch: Value) -> Value {
    fn merge(into: &mut Value, patch: Value) {
        match patch {
            Value::Object(fields) => {
                if !into.is_object() {
                    *into = json!({});
                }
                for (key, value) in fields {
                    match value {
                        Value::Null => {
                            into.as_object_mut().unwrap().remove(&key);
                        }
                        value => merge(&mut into[key], value),
                    }
                }
            }
            other => *into = other,
        }
    }
    merge(&mut object, patch);
    object
}

fn volume(name: &str) -> Value {
    json!({"kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": name, "labels": {"tier": "fast"}},
        "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": format!("/tmp/{name}")}}})
}

fn claim(name: &str) -> Value {
    json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"namespace": "w", "name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}})
}

fn class(name: &str, provisioner: &str, mode: &str) -> Value {
    json!({"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": mode})
}

fn spec(spec: Value) -> Value {
    json!({ "spec": spec })
}

fn of_class(name: &str) -> Value {
    spec(json!({"storageClassName": name}))
}

fn reserved(name: &str, uid: Option<&str>) -> Value {
    spec(
        json!({"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "w", "name": name, "uid": uid}}),
    )
}

fn selecting(selector: Value) -> Value {
    spec(json!({ "selector": selector }))
}

/// A pair that one rule prevents from binding, and that a fix binds.
fn unfit(
    name: &'static str,
    in_claim: Value,
    in_volume: Value,
    rule: &'static str,
    words: &'static str,
) -> Pair {
    let (claim, volumes) = (with(claim("c"), in_claim), vec![with(volume("v"), in_volume)]);
    let (code, rule, then) = ("NoVolumeFits", Some(rule), Some("v"));
    Pair { name, claim, volumes, more: Vec::new(), code, rule, words, then }
}

/// A pair whose claim names the volume.
fn named(
    name: &'static str,
    in_claim: Value,
    in_volume: Value,
    code: &'static str,
    words: &'static str,
) -> Pair {
    let claim = with(with(claim("c"), spec(json!({"volumeName": "v"}))), in_claim);
    Pair { claim, code, rule: None, ..unfit(name, json!({}), in_volume, "", words) }
}

fn requests(size: &str) -> Value {
    spec(json!({"resources": {"requests": {"storage": size}}}))
}

fn in_csi() -> Value {
    spec(json!({"hostPath": null, "csi": {"driver": "x.test", "volumeHandle": "h"}}))
}

/// A local volume in zone a with a class that waits for the first consumer, and a pod that may run only in zone
/// b.
fn local(terms: Value) -> Pair {
    let affinity = json!({"required": {"nodeSelectorTerms": terms}});
    let local = json!({"hostPath": null, "local": {"path": "/mnt/v"}, "storageClassName": "local", "nodeAffinity": affinity});
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "w", "name": "p"}, "spec": {
        "nodeSelector": {"zone": "b"}, "containers": [{"name": "c", "image": "none"}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}});
    Pair {
        more: vec![class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"), pod],
        ..unfit("", of_class("local"), spec(local), "NodeAffinity", "without the node selector zone=b")
    }
}

fn pairs() -> Vec<Pair> {
    let rwx = || spec(json!({"accessModes": ["ReadWriteMany"]}));
    let block = || spec(json!({"volumeMode": "Block"}));
    let gold = || spec(json!({"volumeAttributesClassName": "gold"}));
    let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]});
    let zone =
        |value: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [value]}]});
    vec![
        unfit("size", requests("3Gi"), json!({}), "Size", "its capacity is 2Gi, and the claim requests 3Gi"),
        unfit(
            "access modes",
            rwx(),
            json!({}),
            "AccessModes",
            "its access modes are RWO, and the claim also requests RWX",
        ),
        unfit(
            "one pod alone",
            spec(json!({"accessModes": ["ReadWriteOncePod"]})),
            json!({}),
            "AccessModes",
            "RWOP",
        ),
        unfit("mode", block(), json!({}), "VolumeMode", "with volumeMode Filesystem"),
        unfit("attributes class", gold(), in_csi(), "AttributesClass", "the claim requests gold"),
        unfit(
            "attributes class of no driver",
            gold(),
            json!({}),
            "AttributesClass",
            "the claim requests gold",
        ),
        unfit(
            "attributes class of the volume",
            json!({}),
            with(in_csi(), gold()),
            "AttributesClass",
            "class is gold",
        ),
        unfit(
            "label",
            selecting(json!({"matchLabels": {"tier": "slow"}})),
            json!({}),
            "Selector",
            "tier=fast",
        ),
        unfit(
            "label not in",
            selecting(expression("NotIn", json!(["fast"]))),
            json!({}),
            "Selector",
            "tier=fast",
        ),
        unfit(
            "no such label",
            selecting(expression("Exists", Value::Null)),
            json!({"metadata": {"labels": null}}),
            "Selector",
            "no labels",
        ),
        unfit("class of the volume", json!({}), of_class("gold"), "Class", "its storage class is gold"),
        unfit(
            "old class annotation",
            json!({}),
            json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "gold"}}}),
            "Class",
            "its storage class is gold",
        ),
        unfit("two rules", with(rwx(), requests("3Gi")), json!({}), "AccessModes", "its capacity is 2Gi"),
        Pair {
            then: Some("v-anew"),
            ..unfit(
                "terminating",
                json!({}),
                json!({"metadata": {"finalizers": ["example.test/hold"]}}),
                "Terminating",
                "v-anew",
            )
        },
        unfit(
            "released",
            json!({}),
            reserved("gone", Some("uid-gone")),
            "ClaimRef",
            "it still has the data of claim w/gone",
        ),
        unfit("an earlier claim", json!({}), reserved("c", Some("uid-before")), "ClaimRef", "earlier claim"),
        unfit(
            "for one that is not there",
            json!({}),
            reserved("gone", None),
            "ClaimRef",
            "which does not exist",
        ),
        Pair {
            code: "ReservedUnfit",
            ..unfit("reserved and too small", requests("3Gi"), reserved("c", None), "Size", "does not fit")
        },
        Pair {
            code: "ClassMissing",
            ..unfit("no such class", of_class("gold"), json!({}), "Class", "gold does not exist")
        },
        Pair {
            code: "NoProvisioner",
            more: vec![class("hand", "kubernetes.io/no-provisioner", "Immediate")],
            ..unfit(
                "class that makes nothing",
                of_class("hand"),
                json!({}),
                "Class",
                "create volumes manually",
            )
        },
        Pair {
            code: "PluginMissing",
            more: vec![class("old", "kubernetes.io/glusterfs", "Immediate")],
            ..unfit(
                "plugin that is not there",
                of_class("old"),
                json!({}),
                "Class",
                "kubernetes.io/glusterfs",
            )
        },
        Pair {
            code: "ProvisionerMissing",
            more: vec![class("far", "far.test", "Immediate")],
            ..unfit(
                "provisioner that is not there",
                of_class("far"),
                json!({}),
                "Class",
                "no CSIDriver far.test",
            )
        },
        Pair {
            code: "NoDefaultClass",
            more: vec![class("disk", "kubernetes.io/host-path", "Immediate")],
            then: None,
            ..unfit(
                "no default class",
                spec(json!({"storageClassName": null})),
                of_class("iron"),
                "Class",
                "Available classes: disk",
            )
        },
        Pair {
            code: "WaitsForPod",
            rule: None,
            more: vec![class("wait", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")],
            ..unfit("class that waits", of_class("wait"), of_class("wait"), "", "create the pod")
        },
        Pair { name: "the pod may not run where the volume is", ..local(json!([zone("a")])) },
        Pair { name: "nor at its other places", ..local(json!([zone("a"), zone("c")])) },
        named(
            "names one that is too small",
            requests("3Gi"),
            json!({}),
            "VolumeUnfit",
            "its capacity is 2Gi",
        ),
        named(
            "names one of another class and modes",
            rwx(),
            of_class("gold"),
            "VolumeUnfit",
            "also: its access modes are RWO",
        ),
        named("names one of the other mode", block(), json!({}), "VolumeUnfit", "with volumeMode Filesystem"),
        named(
            "names one whose claim was deleted",
            json!({}),
            reserved("gone", Some("uid-gone")),
            "VolumeTaken",
            "which was deleted",
        ),
        named(
            "names one that is not there",
            spec(json!({"volumeName": "w"})),
            json!({}),
            "VolumeMissing",
            "volume w, which does not exist",
        ),
        Pair {
            volumes: vec![volume("v"), volume("other")],
            more: vec![with(claim("d"), spec(json!({"volumeName": "v"})))],
            then: Some("other"),
            ..named(
                "names one that another has",
                json!({}),
                json!({}),
                "VolumeTaken",
                "is bound to claim w/d",
            )
        },
        Pair {
            volumes: vec![
                with(volume("v"), json!({"metadata": {"finalizers": ["example.test/hold"]}})),
                volume("other"),
            ],
            then: Some("other"),
            ..named("names one that is leaving", json!({}), json!({}), "VolumeUnfit", "it is being deleted")
        },
    ]
}

async fn play(plane: &Plane, pair: &Pair) -> Result<(), String> {
    let http = plane.http();
    for volume in &pair.volumes {
        http.create("/api/v1/persistentvolumes", volume).await;
        let path = format!("/api/v1/persistentvolumes/{}", volume["metadata"]["name"].as_str().unwrap());
        let settled =
            |volume: &Value| matches!(volume["status"]["phase"].as_str(), Some("Available" | "Released"));
        http.until(&path, "the binder has seen it", settled).await;
        if volume["metadata"]["finalizers"].is_array() {
            http.delete(&path).await.expect(200);
        }
    }
    for object in &pair.more {
        http.create(&collection(object), object).await;
        if object["kind"] == "PersistentVolumeClaim" {
            let path = format!("{}/{}", collection(object), object["metadata"]["name"].as_str().unwrap());
            super::phase(&http, &path, "Bound").await;
        }
    }
    let claim = http.create(&format!("{NAMESPACE}/persistentvolumeclaims"), &pair.claim).await;
    let asked = "/apis/orlop.dev/v1/namespaces/w/persistentvolumeclaims/c/why";
    let why = http
        .until(asked, pair.name, |why| {
            let is_explained = why["object"]["uid"] == claim["metadata"]["uid"]
                && super::cause(why, pair.code).is_some()
                && why["causes"].as_array().unwrap().iter().any(|cause| cause["fix"].is_object())
                && why.to_string().contains(pair.words);
            let first = &why["candidates"]["nearest"][0];
            is_explained && pair.rule.is_none_or(|rule| first["volume"] == "v" && first["first"] == rule)
        })
        .await;
    println!("=== {}\n{}", pair.name, read(plane, "pvc/c", "w"));
    if let Some(rule) = pair.rule {
        let counted = json!([{"rule": rule, "count": 1}]);
        if why["candidates"]["by_rule"] != counted {
            return Err(format!("counted {}", why["candidates"]["by_rule"]));
        }
    }
    let fix = why["causes"].as_array().unwrap().iter().map(|cause| &cause["fix"]).find(|fix| fix.is_object());
    carry_out(plane, fix.unwrap()).await;
    let path = format!("{NAMESPACE}/persistentvolumeclaims/c");
    let claim = http.until(&path, pair.name, |claim| claim["status"]["phase"] == "Bound").await;
    let to = &claim["spec"]["volumeName"];
    if pair.then.is_some_and(|wanted| to != wanted) {
        return Err(format!("bound to {to}, not to {:?}", pair.then));
    }
    let bound = |why: &Value| why["state"] == "Bound" && why["severity"] == "ok";
    http.until(asked, "bound and well", bound).await;
    Ok(())
}

/// Deletes all objects that a pair has left.
async fn clear(http: &Http) {
    let kinds = [
        "/api/v1/namespaces/w/pods",
        "/api/v1/namespaces/w/persistentvolumeclaims",
        "/api/v1/persistentvolumes",
        "/apis/storage.k8s.io/v1/storageclasses",
    ];
    for kind in kinds {
        let all = http.get(kind).await.expect(200);
        for object in all["items"].as_array().unwrap() {
            let path = format!("{kind}/{}", object["metadata"]["name"].as_str().unwrap());
            http.delete(&format!("{path}?gracePeriodSeconds=0")).await;
            // The test does not wait for the controllers; an object that is already gone is fine, too.
            http.patch(&path, &json!({"metadata": {"finalizers": null}})).await;
            http.until_gone(&path).await;
        }
    }
}

#[tokio::test]
async fn every_pair_is_explained_and_bound_by_its_fix() {
    let flags = ["--enable-hostpath-provisioner", NO_AGENTS];
    let plane = Plane::of(Layout::OneProcess).controller_flags(&flags).start().await;
    let http = plane.http();
    http.create("/api/v1/namespaces", &json!({"metadata": {"name": "w"}})).await;
    for zone in ["a", "b"] {
        add_node(&http, zone, json!({"zone": zone})).await;
    }
    let pairs = pairs();
    assert!(pairs.len() >= 20);
    let mut failed = Vec::new();
    for pair in &pairs {
        if let Err(problem) = play(&plane, pair).await {
            failed.push(format!("{}: {problem}", pair.name));
        }
        clear(&http).await;
    }
    assert!(failed.is_empty(), "{} of {} failed:\n{}", failed.len(), pairs.len(), failed.join("\n"));
}
