//! The next step for every state of an attachment.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;
use crate::testing::merge_into;

const DRIVER: &str = "d.example";
const FINALIZER: &str = "external-attacher/d-example";

fn attachment(changes: &[&Value]) -> VolumeAttachment {
    let mut object = json!({"metadata": {"name": "va"}, "spec": {"attacher": DRIVER, "nodeName": "n",
        "source": {"persistentVolumeName": "pv"}}, "status": {"attached": false}});
    changes.iter().for_each(|change| merge_into(&mut object, change));
    serde_json::from_value(object).unwrap()
}

fn volume(change: Value) -> PersistentVolume {
    let mut object = json!({"metadata": {"name": "pv", "uid": "u", "finalizers": [FINALIZER]},
        "spec": {"accessModes": ["ReadWriteOnce"], "mountOptions": ["noatime"], "csi": {"driver": DRIVER,
            "volumeHandle": "h", "fsType": "xfs", "readOnly": true, "volumeAttributes": {"a": "1"},
            "controllerPublishSecretRef": {"name": "s", "namespace": "ns"}}}});
    merge_into(&mut object, &change);
    serde_json::from_value(object).unwrap()
}

fn node(drivers: Value) -> CSINode {
    serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"drivers": drivers}})).unwrap()
}

fn on_its_node() -> CSINode {
    node(json!([{"name": "other", "nodeID": "x"}, {"name": DRIVER, "nodeID": "id"}]))
}

fn can(rpcs: &[Rpc]) -> Capabilities {
    Capabilities::of(rpcs, &[])
}

/// The step as a short text, for tables.
fn word(step: Result<Step, AttachRefusal>) -> String {
    match step {
        Ok(Step::Rest) => "rest".to_owned(),
        Ok(Step::SayAttached) => "say attached".to_owned(),
        Ok(Step::HoldVolume) => "hold volume".to_owned(),
        Ok(Step::Publish(call)) => {
            let before = if call.written { "" } else { "prepare and " };
            format!("{before}publish {} to {}", call.handle, call.node_id)
        }
        Ok(Step::Unpublish(call)) => {
            let after = if call.unlisted { " if it can" } else { "" };
            format!("unpublish {} from {}{after}", call.handle, call.node_id)
        }
        Ok(Step::RemoveFinalizer) => "remove the finalizer".to_owned(),
        Err(refusal) => refusal.to_string(),
    }
}

#[test]
fn next_step_for_every_state() {
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let ours = json!({"metadata": {"finalizers": [FINALIZER]}});
    let noted = json!({"metadata": {"annotations": {ANN_CSI_NODE_ID: "id"}}});
    let noted_other = json!({"metadata": {"annotations": {ANN_CSI_NODE_ID: "old"}}});
    let attached = json!({"status": {"attached": true}});
    let foreign = json!({"metadata": {"finalizers": ["other"]}});
    let inline = json!({"spec": {"source": {"persistentVolumeName": null, "inlineVolumeSpec":
        {"accessModes": ["ReadWriteMany"], "csi": {"driver": DRIVER, "volumeHandle": "in"}}}}});
    let sourceless = json!({"spec": {"source": {"persistentVolumeName": null}}});
    let twice =
        json!({"spec": {"source": {"inlineVolumeSpec": {"csi": {"driver": DRIVER, "volumeHandle": "in"}}}}});
    let (pv, nodes) = (Some(volume(json!({}))), Some(on_its_node()));
    let going = Some(volume(deleted.clone()));
    let unheld = Some(volume(json!({"metadata": {"finalizers": ["kubernetes.io/pv-protection"]}})));
    let elsewhere = Some(node(json!([])));
    let full = [Rpc::PublishUnpublishVolume];
    // Attachment, volume, node, whether the driver attaches, whether the list contradicts the status.
    type Case<'a> =
        (&'a str, &'a [&'a Value], &'a Option<PersistentVolume>, &'a Option<CSINode>, bool, bool, &'a str);
    let table: &[Case<'_>] = &[
        ("new", &[], &pv, &nodes, true, false, "prepare and publish h to id"),
        ("new, volume not held", &[], &unheld, &nodes, true, false, "hold volume"),
        ("after a crash before the call", &[&ours, &noted], &pv, &nodes, true, false, "publish h to id"),
        (
            "the node has another id now",
            &[&ours, &noted_other],
            &pv,
            &nodes,
            true,
            false,
            "prepare and publish h to id",
        ),
        ("the finalizer was taken away", &[&noted], &pv, &nodes, true, false, "prepare and publish h to id"),
        ("attached", &[&attached, &ours, &noted], &pv, &nodes, true, false, "rest"),
        (
            "attached, the list says otherwise",
            &[&attached, &ours, &noted],
            &pv,
            &nodes,
            true,
            true,
            "publish h to id",
        ),
        (
            "the volume is going",
            &[],
            &going,
            &nodes,
            true,
            false,
            "PersistentVolume \"pv\" is marked for deletion",
        ),
        ("no volume", &[], &None, &nodes, true, false, "persistentvolume \"pv\" not found"),
        ("no node", &[&noted, &ours], &pv, &None, true, false, "csinode.storage.k8s.io \"n\" not found"),
        ("not on the node", &[], &pv, &elsewhere, true, false, "CSINode n does not contain driver d.example"),
        ("inline", &[&inline], &None, &nodes, true, false, "prepare and publish in to id"),
        (
            "no source",
            &[&sourceless],
            &None,
            &nodes,
            true,
            false,
            "neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source",
        ),
        (
            "two sources",
            &[&twice],
            &pv,
            &nodes,
            true,
            false,
            "both InlineCSIVolumeSource and PersistentVolumeName specified in VA source",
        ),
        ("deleted, never asked", &[&deleted, &foreign], &pv, &nodes, true, false, "rest"),
        ("deleted", &[&deleted, &ours, &noted], &pv, &nodes, true, false, "unpublish h from id"),
        (
            "deleted, the outcome of publish is not known",
            &[&ours, &noted, &deleted],
            &going,
            &nodes,
            true,
            false,
            "unpublish h from id",
        ),
        (
            "deleted, the node is gone",
            &[&deleted, &ours, &noted_other],
            &pv,
            &None,
            true,
            false,
            "unpublish h from old",
        ),
        (
            "deleted, the node has no driver",
            &[&deleted, &ours, &noted_other],
            &pv,
            &elsewhere,
            true,
            false,
            "unpublish h from old",
        ),
        (
            "deleted, the node has another id",
            &[&deleted, &ours, &noted_other],
            &pv,
            &nodes,
            true,
            false,
            "unpublish h from old",
        ),
        (
            "deleted, nothing says which node",
            &[&deleted, &ours],
            &pv,
            &None,
            true,
            false,
            "csinode.storage.k8s.io \"n\" not found",
        ),
        (
            "deleted, no volume",
            &[&deleted, &ours, &noted],
            &None,
            &nodes,
            true,
            false,
            "persistentvolume \"pv\" not found",
        ),
        (
            "detached, held by others, the list says otherwise",
            &[&deleted, &foreign, &noted],
            &pv,
            &nodes,
            true,
            true,
            "unpublish h from id",
        ),
        ("deleted, inline", &[&deleted, &ours, &inline], &None, &nodes, true, false, "unpublish in from id"),
        ("trivial", &[], &None, &None, false, false, "say attached"),
        ("trivial, attached", &[&attached], &None, &None, false, false, "rest"),
        ("trivial, attached, doubted", &[&attached], &None, &None, false, true, "rest"),
        ("trivial, deleted", &[&deleted, &foreign], &None, &None, false, true, "rest"),
        (
            "trivial now, but asked before",
            &[&deleted, &ours, &noted],
            &pv,
            &nodes,
            false,
            false,
            "unpublish h from id if it can",
        ),
        (
            "trivial now, but asked before, no volume",
            &[&deleted, &ours, &noted],
            &None,
            &nodes,
            false,
            false,
            "persistentvolume \"pv\" not found",
        ),
        (
            "trivial now, and never asked",
            &[&deleted, &ours, &attached],
            &None,
            &None,
            false,
            false,
            "remove the finalizer",
        ),
    ];
    for (name, changes, volume, node, attaches, doubted, wanted) in table {
        let attachment = attachment(changes);
        let can = can(if *attaches { &full } else { &[] });
        let view = View {
            attachment: &attachment,
            volume: volume.as_ref(),
            volume_released: false,
            node: node.as_ref(),
            can: &can,
            doubted: *doubted,
        };
        assert_eq!(word(decide(&view)), *wanted, "{name}");
    }
}

#[test]
fn listed_place_is_where_the_volume_was_published() {
    let noted = json!({"metadata": {"annotations": {ANN_CSI_NODE_ID: "old"}}});
    let (pv, nodes, can) = (volume(json!({})), on_its_node(), can(&[Rpc::PublishUnpublishVolume]));
    for (name, changes, node, wanted) in [
        ("as it was published", vec![&noted], Some(&nodes), Some("old")),
        ("the node is gone", vec![&noted], None, Some("old")),
        ("attached by a driver that records nothing", vec![], Some(&nodes), Some("id")),
        ("nothing says where", vec![], None, None),
    ] {
        let attachment = attachment(&changes);
        let (volume, volume_released, doubted) = (Some(&pv), false, false);
        let view = View { attachment: &attachment, volume, volume_released, node, can: &can, doubted };
        let wanted = wanted.map(|node| ("h".to_owned(), node.to_owned()));
        assert_eq!(place(&view), wanted, "{name}");
    }
}

/// The publish request for a volume, with these capabilities.
fn asked(volume: &PersistentVolume, rpcs: &[Rpc], released: bool) -> Result<Publish, String> {
    let (attachment, node) = (attachment(&[]), on_its_node());
    let can = can(&[&[Rpc::PublishUnpublishVolume], rpcs].concat());
    let view = View {
        attachment: &attachment,
        volume: Some(volume),
        volume_released: released,
        node: Some(&node),
        can: &can,
        doubted: false,
    };
    match decide(&view) {
        Ok(Step::Publish(call)) => Ok(*call),
        other => Err(word(other)),
    }
}

#[test]
fn publish_request_follows_volume_and_capabilities() {
    let pv = volume(json!({}));
    let call = asked(&pv, &[], false).unwrap();
    assert!(!call.readonly, "a driver that does not know it is not asked for it");
    assert_eq!(call.secret.as_ref().and_then(|secret| secret.name.as_deref()), Some("s"));
    assert_eq!(call.capability, modes::of_volume(pv.spec.as_ref().unwrap(), &can(&[])).unwrap());
    let request = call.request([("k".to_owned(), "v".to_owned())].into());
    assert_eq!((request.volume_id.as_str(), request.node_id.as_str()), ("h", "id"));
    assert_eq!((request.volume_context["a"].as_str(), request.secrets["k"].as_str()), ("1", "v"));
    let both = [Rpc::PublishReadonly, Rpc::SingleNodeMultiWriter];
    let call = asked(&pv, &both, false).unwrap();
    assert!(call.readonly);
    assert_eq!(call.capability, modes::of_volume(pv.spec.as_ref().unwrap(), &can(&both)).unwrap());
    for (change, wanted) in [
        (json!({"spec": {"accessModes": []}}), "unsupported AccessMode combination: none is given"),
        (json!({"spec": {"csi": null, "nfs": {"server": "s", "path": "/"}}}), "the volume has no csi source"),
        (json!({"spec": {"csi": {"driver": "e.example"}}}), "the volume is of driver e.example"),
    ] {
        let why = asked(&volume(change), &[], false).unwrap_err();
        assert!(why.starts_with(wanted), "{why}");
    }
    assert_eq!(asked(&pv, &[], true).unwrap_err(), "PersistentVolume \"pv\" is marked for deletion");
}

#[test]
fn volume_finalizer_is_removed_only_when_unused() {
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let in_tree = json!({"spec": {"csi": null, "cinder": {"volumeID": "v"}}});
    let migrated = json!({"metadata": {"annotations": {orlop_client::names::ANN_MIGRATED_TO: DRIVER}}, "spec": in_tree["spec"]});
    for (name, change, attached, wanted) in [
        ("not in use", json!({}), false, false),
        ("going", deleted.clone(), false, true),
        ("going, attached", deleted.clone(), true, false),
        ("in-tree of another", in_tree.clone(), false, true),
        ("in-tree of another, attached", in_tree, true, false),
        ("migrated to this one", migrated, false, false),
        (
            "not held",
            json!({"metadata": {"finalizers": [], "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            false,
            false,
        ),
    ] {
        assert_eq!(may_release_volume(&volume(change), DRIVER, attached), wanted, "{name}");
    }
}
