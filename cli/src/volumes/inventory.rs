//! Reads the volumes of drivers from the API: PersistentVolumes, claims in provisioning, inline volumes of
//! attachments and pods, VolumeSnapshotContents. Reads JSON, since few fields matter and a kind may not be
//! served.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use kube::api::ListParams;
use orlop_apimachinery::quantity::Quantity;
use orlop_client::client::is_not_found;
use orlop_client::names::{
    ANN_BETA_STORAGE_PROVISIONER, ANN_CREATE_REQUEST, ANN_STORAGE_PROVISIONER, FINALIZER_PROVISIONING,
};
use orlop_volume::translate::in_tree_sources;
use serde_json::Value;

use super::compare::{ApiObjects, HandleObject, Making};

const CLAIMS: &str = "/api/v1/persistentvolumeclaims";
const PODS: &str = "/api/v1/pods";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";
/// Annotation of a content whose driver was asked for a snapshot (upstream: external-snapshotter).
const ANN_BEING_CREATED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
/// Objects per page.
const PAGE: u32 = 500;

/// The API cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}: {cause}")]
pub(crate) struct LookError {
    path: &'static str,
    cause: kube::Error,
}

/// Reads the API once, for all drivers. Claims are read before volumes, so that a claim that is bound between the
/// two reads appears as a volume.
///
/// # Errors
/// A kind cannot be listed. Snapshots may be missing.
pub(super) async fn look(
    client: &Client,
    drivers: &[&str],
) -> Result<BTreeMap<String, ApiObjects>, LookError> {
    let claims = required(client, CLAIMS).await?;
    let volumes = required(client, VOLUMES).await?;
    let attachments = required(client, ATTACHMENTS).await?;
    let contents = list(client, CONTENTS).await?;
    let pods = required(client, PODS).await?;
    let all = Objects {
        claims: &claims,
        volumes: &volumes,
        attachments: &attachments,
        pods: &pods,
        contents: contents.as_deref(),
    };
    let of = |driver: &str| known(driver, &all);
    Ok(drivers.iter().map(|driver| ((*driver).to_owned(), of(driver))).collect())
}

async fn required(client: &Client, path: &'static str) -> Result<Vec<Value>, LookError> {
    // A server without these kinds cannot be compared.
    Ok(list(client, path).await?.unwrap_or_default())
}

/// All objects of a kind; `None` if the kind is not served.
async fn list(client: &Client, path: &'static str) -> Result<Option<Vec<Value>>, LookError> {
    let failed = |cause| LookError { path, cause };
    let mut all = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let request = kube::core::Request::new(path).list(&params);
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        let mut page: Value = match client.request(request).await {
            Ok(page) => page,
            Err(error) if is_not_found(&error) && path == CONTENTS => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if let Some(items) = page["items"].as_array_mut() {
            all.append(items);
        }
        match page.pointer("/metadata/continue").and_then(Value::as_str) {
            Some(next) if !next.is_empty() => params.continue_token = Some(next.to_owned()),
            Some(_) | None => return Ok(Some(all)),
        }
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|all| all.iter().any(|one| one == finalizer))
}

fn is_terminating(object: &Value) -> bool {
    text(object, "/metadata/deletionTimestamp").is_some()
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name").unwrap_or_default()
}

fn bytes(object: &Value, pointer: &str) -> i64 {
    text(object, pointer).and_then(|text| Quantity::parse(text).ok()).map_or(0, |quantity| quantity.value())
}

/// All objects that may refer to a driver.
#[derive(Clone, Copy, Default)]
struct Objects<'a> {
    claims: &'a [Value],
    volumes: &'a [Value],
    attachments: &'a [Value],
    pods: &'a [Value],
    contents: Option<&'a [Value]>,
}

/// The identifiers of in-tree volumes in a source that was migrated to `driver`.
fn in_tree<'a>(source: &'a Value, driver: &'a str) -> impl Iterator<Item = &'a str> {
    in_tree_sources().filter(move |plugin| plugin.driver == driver).filter_map(|plugin| {
        source.get(plugin.field)?.get(plugin.id_field)?.as_str().filter(|id| !id.is_empty())
    })
}

/// Collects what these objects contain about a driver.
fn known(driver: &str, objects: &Objects<'_>) -> ApiObjects {
    let Objects { claims, volumes, attachments, pods, contents } = *objects;
    let mut known = ApiObjects::default();
    for pod in pods {
        let object = format!("pod/{}/{}", text(pod, "/metadata/namespace").unwrap_or_default(), name(pod));
        let sources = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
        known.in_tree.extend(sources.flat_map(|source| {
            in_tree(source, driver).map(|id| (id.to_owned(), object.clone())).collect::<Vec<_>>()
        }));
    }
    for volume in volumes {
        known.names.insert(name(volume).to_owned());
        let object = format!("persistentvolume/{}", name(volume));
        if text(volume, "/spec/csi/driver") == Some(driver) {
            let handle = text(volume, "/spec/csi/volumeHandle").unwrap_or_default().to_owned();
            let deletes = text(volume, "/spec/persistentVolumeReclaimPolicy") == Some("Delete")
                && text(volume, "/status/phase") == Some("Released");
            let held = HandleObject {
                object,
                going: deletes || is_terminating(volume),
                bytes: bytes(volume, "/spec/capacity/storage"),
            };
            known.volumes.insert(handle, held);
        }
        let object = || format!("persistentvolume/{}", name(volume));
        known.in_tree.extend(in_tree(&volume["spec"], driver).map(|id| (id.to_owned(), object())));
    }
    for attachment in attachments {
        let source = "/spec/source/inlineVolumeSpec/csi";
        if text(attachment, &format!("{source}/driver")) == Some(driver)
            && let Some(handle) = text(attachment, &format!("{source}/volumeHandle"))
        {
            let object = format!("volumeattachment/{}", name(attachment));
            // The list may lack a volume that a pod names itself.
            known.volumes.entry(handle.to_owned()).or_insert(HandleObject { object, going: true, bytes: 0 });
        }
    }
    let making = claims.iter().filter_map(|claim| making(claim, driver));
    known.making = making.filter(|(_, making)| !known.names.contains(&making.name)).collect();
    if let Some(contents) = contents {
        let of_driver = contents.iter().filter(|content| text(content, "/spec/driver") == Some(driver));
        (known.snapshots, known.taking) = snapshots(of_driver);
    }
    known
}

/// A volume in provisioning: from an annotation of the claim (docs/csi.md), or from a claim that upstream's
/// provisioner of the driver may be processing.
fn making(claim: &Value, driver: &str) -> Option<(String, Making)> {
    let key = format!("{}/{}", text(claim, "/metadata/namespace").unwrap_or_default(), name(claim));
    let usual = format!("pvc-{}", text(claim, "/metadata/uid").unwrap_or_default());
    let asked = bytes(claim, "/spec/resources/requests/storage");
    if let Some(note) = annotation(claim, ANN_CREATE_REQUEST) {
        // An annotation that cannot be parsed may belong to any driver.
        let note: Value = serde_json::from_str(note).unwrap_or(Value::Null);
        if text(&note, "/driver").is_some_and(|of| of != driver) {
            return None;
        }
        let name = text(&note, "/name").map_or(usual, str::to_owned);
        let bytes = note["bytes"].as_i64().unwrap_or(0);
        return Some((key, Making { name, bytes }));
    }
    if has_finalizer(claim, FINALIZER_PROVISIONING) {
        return Some((key, Making { name: usual, bytes: 0 }));
    }
    let provisioner = [ANN_STORAGE_PROVISIONER, ANN_BETA_STORAGE_PROVISIONER];
    let is_asked = provisioner.iter().any(|key| annotation(claim, key) == Some(driver));
    let is_open = text(claim, "/spec/volumeName").is_none_or(str::is_empty);
    (is_asked && is_open).then_some((key, Making { name: usual, bytes: asked }))
}

/// Snapshot handles, and contents without a handle or with a pending request.
fn snapshots<'a>(
    contents: impl Iterator<Item = &'a Value>,
) -> (Option<BTreeMap<String, HandleObject>>, BTreeSet<String>) {
    let (mut known, mut taking) = (BTreeMap::new(), BTreeSet::new());
    for content in contents {
        let object = format!("volumesnapshotcontent/{}", name(content));
        let handle = text(content, "/status/snapshotHandle");
        match handle.or_else(|| text(content, "/spec/source/snapshotHandle")) {
            Some(handle) => {
                let bytes = content.pointer("/status/restoreSize").and_then(Value::as_i64).unwrap_or(0);
                known.insert(
                    handle.to_owned(),
                    HandleObject { object, going: is_terminating(content), bytes },
                );
            }
            None => drop(taking.insert(object.clone())),
        }
        if annotation(content, ANN_BEING_CREATED).is_some() {
            taking.insert(format!("volumesnapshotcontent/{}", name(content)));
        }
    }
    (Some(known), taking)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_attributed_to_their_driver() {
        let meta = |name: &str| json!({"name": name, "namespace": "ns", "uid": name});
        let note = |driver: &str| json!({"driver": driver, "name": "pvc-x", "bytes": 7}).to_string();
        let noted = |name: &str, note: &str| json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": {ANN_CREATE_REQUEST: note}}});
        let claims = [
            noted("mine", &note("d")),
            noted("other", &note("e")),
            noted("unreadable", "{"),
            json!({"metadata": {"name": "held", "namespace": "ns", "uid": "u", "finalizers": [FINALIZER_PROVISIONING]}}),
            json!({"metadata": {"name": "side", "namespace": "ns", "uid": "u2", "annotations": {ANN_STORAGE_PROVISIONER: "d"}},
                "spec": {"resources": {"requests": {"storage": "2Ki"}}}}),
            json!({"metadata": {"name": "done", "namespace": "ns", "uid": "u3", "annotations": {ANN_STORAGE_PROVISIONER: "d"}},
                "spec": {"volumeName": "pv"}}),
            noted("saved", &json!({"driver": "d", "name": "pv", "bytes": 1}).to_string()),
            json!({"metadata": meta("plain")}),
        ];
        let csi = |name: &str, driver: &str, phase: &str| {
            json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Ki"},
                "persistentVolumeReclaimPolicy": "Delete", "csi": {"driver": driver, "volumeHandle": format!("h-{name}")}},
                "status": {"phase": phase}})
        };
        let cinder = json!({"metadata": {"name": "in"}, "spec": {"cinder": {"volumeID": "c-1"}}});
        let volumes =
            [csi("pv", "d", "Bound"), csi("gone", "d", "Released"), csi("other", "e", "Bound"), cinder];
        let found = known("d", &Objects { claims: &claims, volumes: &volumes, ..Objects::default() });
        let handles: Vec<_> =
            found.volumes.iter().map(|(handle, held)| (handle.as_str(), held.going)).collect();
        assert_eq!(handles, [("h-gone", true), ("h-pv", false)]);
        assert_eq!(found.volumes["h-pv"].bytes, 1024);
        let making: Vec<_> =
            found.making.iter().map(|(claim, it)| (claim.as_str(), it.name.as_str(), it.bytes)).collect();
        let wanted = [
            ("ns/held", "pvc-u", 0),
            ("ns/mine", "pvc-x", 7),
            ("ns/side", "pvc-u2", 2048),
            ("ns/unreadable", "pvc-unreadable", 0),
        ];
        assert_eq!(making, wanted);
        assert!(found.in_tree.is_empty() && found.snapshots.is_none());
        let inline = json!({"metadata": meta("p"), "spec": {"volumes": [{"emptyDir": {}}, {"cinder": {"volumeID": "c-2"}}]}});
        let objects = Objects { volumes: &volumes, pods: &[inline], ..Objects::default() };
        let cinder = known("cinder.csi.openstack.org", &objects).in_tree;
        let ids: Vec<_> = cinder.iter().map(|(id, object)| (id.as_str(), object.as_str())).collect();
        assert_eq!(ids, [("c-2", "pod/ns/p"), ("c-1", "persistentvolume/in")]);
    }

    #[test]
    fn contents_are_attributed_to_their_driver() {
        let content = |name: &str, driver: &str, rest: Value| {
            let mut object = json!({"metadata": {"name": name}, "spec": {"driver": driver}});
            for (key, value) in rest.as_object().into_iter().flatten() {
                object[key] = value.clone();
            }
            object
        };
        let contents = [
            content("taken", "d", json!({"status": {"snapshotHandle": "s-1", "restoreSize": 9}})),
            content("waits", "d", json!({})),
            content("other", "e", json!({"status": {"snapshotHandle": "s-2"}})),
        ];
        let found = known("d", &Objects { contents: Some(&contents), ..Objects::default() });
        let snapshots = found.snapshots.unwrap_or_default();
        assert_eq!(snapshots.keys().collect::<Vec<_>>(), ["s-1"]);
        assert_eq!(snapshots["s-1"].bytes, 9);
        assert_eq!(found.taking.iter().collect::<Vec<_>>(), ["volumesnapshotcontent/waits"]);
        let given =
            content("given", "d", json!({"spec": {"driver": "d", "source": {"snapshotHandle": "s-3"}}}));
        let found = known("d", &Objects { contents: Some(&[given]), ..Objects::default() });
        assert!(found.snapshots.is_some_and(|all| all.contains_key("s-3")) && found.taking.is_empty());
    }
}
