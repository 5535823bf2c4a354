//! The lines of the tables: objects from them, and lines from objects.

use serde_json::{Value, json};

use crate::attach::volume::{Key, digest};
use crate::testing::notation::{access_modes, key};
use orlop_client::names::ANN_CONTROLLER_MANAGED_ATTACH;
use orlop_volume::attachment::name_of_digest;
use orlop_volume::csi::handle::unique_name;

/// A name with its short forms written out.
pub(super) fn long(word: &str) -> String {
    let word = word.replace("%20", " ");
    match word.strip_prefix("HP") {
        Some(rest) => format!("hostpath.csi.k8s.io{rest}"),
        None => word,
    }
}

/// The unique name of `DRIVER^HANDLE`; any other name as it is.
pub(super) fn unique(word: &str) -> String {
    let word = long(word);
    match word.split_once('^') {
        Some((driver, handle)) => unique_name(driver, handle),
        None => word,
    }
}

/// Driver, name of the VolumeAttachment, and node of `DRIVER^HANDLE@NODE` or `DRIVER=NAME@NODE`.
pub(super) fn attachment(word: &str) -> (String, String, String) {
    let word = long(word);
    let (volume, node) = word.rsplit_once('@').unwrap();
    if let Some((driver, name)) = volume.split_once('=') {
        return (driver.to_owned(), name.to_owned(), node.to_owned());
    }
    let (driver, _) = volume.split_once('^').unwrap();
    let name = name_of_digest(&digest(&Key::new(&unique(volume), node)).unwrap());
    (driver.to_owned(), name, node.to_owned())
}

fn list(words: &str) -> Vec<String> {
    words.split(',').filter(|word| *word != "-").map(unique).collect()
}

pub(super) fn conditions(ready: bool) -> Value {
    json!([{"type": "Ready", "status": if ready { "True" } else { "False" }}])
}

fn node(name: &str, words: &[&str]) -> Value {
    let mut node = json!({"kind": "Node", "metadata": {"name": name, "annotations": {ANN_CONTROLLER_MANAGED_ATTACH: "true"}},
        "status": {"conditions": conditions(true)}});
    for word in words {
        match word.split_once('=') {
            None if *word == "unmanaged" => node["metadata"]["annotations"] = json!({}),
            None if *word == "not-ready" => node["status"]["conditions"] = conditions(false),
            Some(("managed", value)) => {
                node["metadata"]["annotations"][ANN_CONTROLLER_MANAGED_ATTACH] = json!(value);
            }
            Some(("force-after", value)) => {
                node["metadata"]["annotations"][orlop_client::names::ANN_FORCE_DETACH_AFTER] = json!(value);
            }
            Some(("lists", names)) => {
                let entries: Vec<_> =
                    list(names).iter().map(|name| json!({"name": name, "devicePath": ""})).collect();
                node["status"]["volumesAttached"] = json!(entries);
            }
            Some(("uses", names)) => node["status"]["volumesInUse"] = json!(list(names)),
            other => panic!("{other:?}"),
        }
    }
    node
}

fn volume(name: &str, words: &[&str]) -> Value {
    let mut volume = json!({"kind": "PersistentVolume", "metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"}},
        "status": {"phase": "Bound"}});
    let source = words[0];
    let (field, source) = match source.split_once(':') {
        None if source == "local" => ("local", json!({"path": "/mnt/a"})),
        Some(("gce", disk)) => ("gcePersistentDisk", json!({"pdName": disk, "fsType": "ext4"})),
        Some(("iscsi", target)) => {
            let parts: Vec<&str> = target.split(',').collect();
            let lun: i32 = parts[2].parse().unwrap();
            ("iscsi", json!({"targetPortal": parts[0], "iqn": parts[1], "lun": lun}))
        }
        _ => {
            let name = long(source);
            let (driver, handle) = name.split_once('^').unwrap();
            ("csi", json!({"driver": driver, "volumeHandle": handle}))
        }
    };
    volume["spec"][field] = source;
    volume["spec"]["accessModes"] = access_modes(words[1]);
    for word in &words[2..] {
        match word.split_once('=') {
            Some(("ref", claim)) => {
                let (claim, uid) = claim.split_once(':').unwrap();
                let (namespace, name) = key(claim);
                volume["spec"]["claimRef"] = json!({"namespace": namespace, "name": name, "uid": uid});
            }
            Some(("zone", zone)) => {
                volume["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": zone});
            }
            Some(("class", class)) => volume["spec"]["storageClassName"] = json!(class),
            Some(("force-after", value)) => {
                volume["metadata"]["annotations"] =
                    json!({orlop_client::names::ANN_FORCE_DETACH_AFTER: value});
            }
            None if *word == "block" => volume["spec"]["volumeMode"] = json!("Block"),
            other => panic!("{other:?}"),
        }
    }
    volume
}

fn claim(claim: &str, words: &[&str]) -> Value {
    let (namespace, name) = key(claim);
    let volume = words[1].strip_prefix("volume=").unwrap();
    json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": namespace, "name": name, "uid": words[0]},
        "spec": {"volumeName": volume}, "status": {"phase": "Bound"}})
}

fn pod(pod: &str, words: &[&str]) -> Value {
    let (namespace, name) = key(pod);
    let mut pod = json!({"kind": "Pod", "metadata": {"namespace": namespace, "name": name}, "spec": {"containers": []},
        "status": {"phase": "Running"}});
    let mut volumes = Vec::new();
    for word in words {
        let at = format!("v{}", volumes.len());
        match word.split_once('=') {
            None => pod["status"]["phase"] = json!(word),
            Some(("on", node)) => pod["spec"]["nodeName"] = json!(node),
            Some(("containers", state)) => {
                pod["status"]["containerStatuses"] = json!([{"name": "c", "ready": false, "restartCount": 0, "image": "",
                    "imageID": "", "state": {state: {}}}]);
            }
            Some(("claim", claim)) => {
                let (name, read_only) = claim.strip_suffix(",ro").map_or((claim, false), |name| (name, true));
                let source = json!({"claimName": name, "readOnly": read_only});
                volumes.push(json!({"name": at, "persistentVolumeClaim": source}));
            }
            Some(("inline", source)) => {
                let (field, driver) = source.split_once(':').unwrap_or((source, ""));
                let source = match field {
                    "csi" => json!({"driver": long(driver)}),
                    "hostPath" => json!({"path": "/tmp"}),
                    "configMap" => json!({"name": "cm"}),
                    _ => json!({}),
                };
                volumes.push(json!({"name": at, field: source}));
            }
            other => panic!("{other:?}"),
        }
    }
    pod["spec"]["volumes"] = json!(volumes);
    pod
}

fn attachment_object(word: &str, words: &[&str], now: &str) -> Value {
    let (driver, name, node) = attachment(word);
    let source = match words[0].strip_prefix("pv=") {
        Some(volume) => json!({"persistentVolumeName": volume}),
        None => json!({"inlineVolumeSpec": {"csi": {"driver": driver, "volumeHandle": "inline"}}}),
    };
    let mut object = json!({"kind": "VolumeAttachment", "metadata": {"name": name},
        "spec": {"attacher": driver, "nodeName": node, "source": source}, "status": {"attached": false}});
    for word in &words[1..] {
        match *word {
            "attached" => object["status"]["attached"] = json!(true),
            "deleting" => {
                object["metadata"]["deletionTimestamp"] = json!(now);
                object["metadata"]["finalizers"] = json!([super::attacher::FINALIZER]);
            }
            "attachError" => object["status"]["attachError"] = json!({"message": "of before"}),
            "detachError" => object["status"]["detachError"] = json!({"message": "of before"}),
            other => panic!("{other}"),
        }
    }
    object
}

/// The object of a line.
pub(super) fn parse(line: &str, now: &str) -> Value {
    let words: Vec<&str> = line.split(' ').collect();
    let (name, rest) = (words[1], &words[2..]);
    match words[0] {
        "node" => node(name, rest),
        "pv" => volume(name, rest),
        "pvc" => claim(name, rest),
        "pod" => pod(name, rest),
        "va" => attachment_object(name, rest, now),
        "class" => json!({"kind": "StorageClass", "provisioner": "p", "metadata": {"name": name,
            "annotations": {orlop_client::names::ANN_FORCE_DETACH_AFTER: rest[0].strip_prefix("force-after=").unwrap()}}}),
        "driver" => {
            let attach = rest.first().map(|word| *word == "attach=true");
            json!({"kind": "CSIDriver", "metadata": {"name": long(name)}, "spec": {"attachRequired": attach}})
        }
        other => panic!("{other}"),
    }
}

/// The line of a VolumeAttachment or a node at the end, with names written out.
pub(super) fn render(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap();
    if object["kind"] == "Node" {
        let entries = object["status"]["volumesAttached"].as_array().cloned().unwrap_or_default();
        assert!(entries.iter().all(|entry| entry["devicePath"] == ""), "{entries:?}");
        let mut names: Vec<&str> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        return format!("node {name} {names:?}");
    }
    let (spec, status) = (&object["spec"], &object["status"]);
    let mut flags = Vec::new();
    for (flag, set) in [
        ("attached", status["attached"] == true),
        ("deleting", object["metadata"].get("deletionTimestamp").is_some()),
        ("attachError", status["attachError"].is_object()),
        ("detachError", status["detachError"].is_object()),
    ] {
        if set {
            flags.push(flag);
        }
    }
    let source = spec["source"]["persistentVolumeName"].as_str().unwrap_or("inline");
    format!("va {name} {} {} {source} {flags:?}", spec["attacher"], spec["nodeName"])
}

/// The line of an end as [`render`] writes it.
pub(super) fn canonical(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let mut object = parse(line, "now");
    if words[0] == "va" {
        object["metadata"]["finalizers"] = Value::Null;
    }
    render(&object)
}
