//! Translations with upstream's results for the same sources.

#![allow(clippy::unwrap_used)]

use serde::Serialize;
use serde_json::{Value, json};

use super::*;
use orlop_client::names;

mod zones;

const ZONE: &str = "topology.kubernetes.io/zone";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";

/// A volume with this source; `more` is merged over it.
fn volume(source: Value, more: Value) -> PersistentVolume {
    let mut value = json!({"metadata": {"name": "pv"}, "spec": source});
    merge(&mut value, more);
    serde_json::from_value(value).unwrap()
}

fn merge(value: &mut Value, more: Value) {
    match (value, more) {
        (Value::Object(members), Value::Object(more)) => {
            more.into_iter().for_each(|(name, more)| merge(members.entry(name).or_insert(json!(null)), more));
        }
        (value, more) => *value = more,
    }
}

fn show<T: Serialize>(object: Option<T>) -> Value {
    object.map_or(Value::Null, |object| serde_json::to_value(object).unwrap())
}

#[track_caller]
fn assert_spec(case: &str, got: Option<PersistentVolume>, want: Value) {
    assert_eq!(show(got)["spec"], want, "{case}");
}

#[test]
fn in_tree_sources_name_the_fields_of_their_plugin() {
    for source in in_tree_sources() {
        let spec = json!({source.field: {source.id_field: "v"}});
        let volume: PersistentVolume = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        assert_eq!(driver_of(&volume), Some(source.driver));
        let shown = serde_json::to_value(&volume).unwrap();
        assert_eq!(shown["spec"][source.field][source.id_field], "v", "{}", source.field);
    }
}

#[test]
fn every_plugin_has_a_driver_and_other_sources_have_none() {
    for plugin in &PLUGINS {
        assert_eq!(names::migrated_driver(plugin.name), Some(plugin.driver));
    }
    for (source, want) in [
        (json!({"cinder": {"volumeID": "v"}}), Some("cinder.csi.openstack.org")),
        (
            json!({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}}),
            Some("disk.csi.azure.com"),
        ),
        (json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "v"}}), None),
        (json!({"hostPath": {"path": "/"}}), None),
    ] {
        assert_eq!(driver_of(&volume(source.clone(), json!({}))), want, "{source}");
    }
    let other = volume(json!({"hostPath": {"path": "/"}}), json!({}));
    assert!(to_csi(&other).is_none() && from_csi(&other).is_none());
    let foreign = volume(json!({"csi": {"driver": "d.example.com", "volumeHandle": "v"}}), json!({}));
    assert!(to_csi(&foreign).is_none() && from_csi(&foreign).is_none());
}

#[test]
fn in_tree_volumes_translate_to_csi() {
    for (case, source, want) in [
        (
            "1 ebs",
            json!({"awsElasticBlockStore": {"volumeID": "vol-1", "fsType": "ext4", "partition": 2, "readOnly": true}}),
            json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4", "readOnly": true,
                "volumeAttributes": {"partition": "2"}}}),
        ),
        (
            "2 ebs, with its zone in the name",
            json!({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-2"}}),
            json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-2", "volumeAttributes": {"partition": "0"}}}),
        ),
        (
            "3 ebs, without a zone",
            json!({"awsElasticBlockStore": {"volumeID": "aws:///vol-3"}}),
            json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-3", "volumeAttributes": {"partition": "0"}}}),
        ),
        ("4 ebs, no volume", json!({"awsElasticBlockStore": {"volumeID": "aws:///disk"}}), Value::Null),
        (
            "5 gce",
            json!({"gcePersistentDisk": {"pdName": "d", "fsType": "ext4", "partition": 1}, "accessModes": ["ReadWriteMany"]}),
            json!({"accessModes": ["ReadWriteOnce"], "csi": {"driver": "pd.csi.storage.gke.io", "fsType": "ext4",
                "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", "volumeAttributes": {"partition": "1"}}}),
        ),
        (
            "6 gce, read by many",
            json!({"gcePersistentDisk": {"pdName": "d"}, "accessModes": ["ReadOnlyMany"]}),
            json!({"accessModes": ["ReadOnlyMany"], "csi": {"driver": "pd.csi.storage.gke.io",
                "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", "volumeAttributes": {"partition": ""}}}),
        ),
        (
            "7 gce, read by many and written by one",
            json!({"gcePersistentDisk": {"pdName": "d"}, "accessModes": ["ReadOnlyMany", "ReadWriteOnce"]}),
            json!({"accessModes": ["ReadWriteOnce"], "csi": {"driver": "pd.csi.storage.gke.io",
                "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", "volumeAttributes": {"partition": ""}}}),
        ),
        (
            "8 azure disk",
            json!({"azureDisk": {"diskName": "d", "diskURI": "/u/d", "kind": "managed", "cachingMode": "None",
                "fsType": "xfs", "readOnly": true}}),
            json!({"csi": {"driver": "disk.csi.azure.com", "volumeHandle": "/u/d", "fsType": "xfs", "readOnly": true,
                "volumeAttributes": {"kind": "Managed", "cachingmode": "None", "fstype": "xfs"}}}),
        ),
        (
            "9 azure disk of another kind",
            json!({"azureDisk": {"diskName": "d", "diskURI": "/u/d", "kind": "Dedicated"}}),
            Value::Null,
        ),
        (
            "10 azure file",
            json!({"azureFile": {"shareName": "s", "secretName": "azure-storage-account-a-secret", "secretNamespace": "n"}}),
            json!({"csi": {"driver": "file.csi.azure.com", "volumeHandle": "#a#s#pv#n", "volumeAttributes": {"sharename": "s"},
                "nodeStageSecretRef": {"name": "azure-storage-account-a-secret", "namespace": "n"}}}),
        ),
        (
            "11 azure file, the secret in the claim's namespace",
            json!({"azureFile": {"shareName": "s", "secretName": "own", "readOnly": true}, "claimRef": {"namespace": "c"}}),
            json!({"claimRef": {"namespace": "c"}, "csi": {"driver": "file.csi.azure.com", "volumeHandle": "#own#s#pv#c",
                "readOnly": true, "volumeAttributes": {"sharename": "s"}, "nodeStageSecretRef": {"name": "own", "namespace": "c"}}}),
        ),
        (
            "12 azure file, no namespace",
            json!({"azureFile": {"shareName": "s", "secretName": "own"}}),
            Value::Null,
        ),
        (
            "13 cinder",
            json!({"cinder": {"volumeID": "v", "fsType": "ext4", "readOnly": false}}),
            json!({"csi": {"driver": "cinder.csi.openstack.org", "volumeHandle": "v", "fsType": "ext4", "readOnly": false}}),
        ),
        (
            "14 vsphere",
            json!({"vsphereVolume": {"volumePath": "[ds] a/b.vmdk", "fsType": "ext4", "storagePolicyName": "gold"}}),
            json!({"csi": {"driver": "csi.vsphere.vmware.com", "volumeHandle": "[ds] a/b.vmdk", "fsType": "ext4",
                "volumeAttributes": {"storagepolicyname": "gold"}}}),
        ),
        (
            "15 portworx",
            json!({"portworxVolume": {"volumeID": "v", "fsType": "ext4"}}),
            json!({"csi": {"driver": "pxd.portworx.com", "volumeHandle": "v", "fsType": "ext4"}}),
        ),
    ] {
        assert_spec(case, to_csi(&volume(source, json!({}))), want);
    }
    let secured = json!({"metadata": {"annotations": {
        "openstorage.io/auth-secret-name": "s", "openstorage.io/auth-secret-namespace": "n"}}});
    let secured = show(to_csi(&volume(json!({"portworxVolume": {"volumeID": "v"}}), secured)));
    for role in ["controllerPublish", "nodeStage", "nodePublish", "controllerExpand", "nodeExpand"] {
        let secret = &secured["spec"]["csi"][format!("{role}SecretRef")];
        assert_eq!(secret, &json!({"name": "s", "namespace": "n"}), "{role}");
    }
    let group = json!({"metadata": {"annotations": {"kubernetes.io/azure-file-resource-group": "rg"}}});
    let share = json!({"azureFile": {"shareName": "s", "secretName": "x", "secretNamespace": "n"}});
    assert_eq!(show(to_csi(&volume(share, group)))["spec"]["csi"]["volumeHandle"], "rg#x#s#pv#n");
}

#[test]
fn inline_volumes_translate_to_csi() {
    for (case, source, name, mode, want) in [
        (
            "1 ebs",
            json!({"awsElasticBlockStore": {"volumeID": "aws://z/vol-1", "readOnly": true}}),
            "ebs.csi.aws.com-vol-1",
            "ReadWriteOnce",
            json!({"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "readOnly": true, "volumeAttributes": {"partition": "0"}}),
        ),
        (
            "2 gce, reading",
            json!({"gcePersistentDisk": {"pdName": "d", "readOnly": true}}),
            "pd.csi.storage.gke.io-d",
            "ReadOnlyMany",
            json!({"driver": "pd.csi.storage.gke.io", "readOnly": true, "volumeAttributes": {"partition": ""},
                "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"}),
        ),
        (
            "3 azure disk",
            json!({"azureDisk": {"diskName": "d", "diskURI": "/u/d", "cachingMode": ""}}),
            "/u/d",
            "ReadWriteOnce",
            json!({"driver": "disk.csi.azure.com", "volumeHandle": "/u/d", "volumeAttributes": {"kind": "Managed"}}),
        ),
        (
            "4 azure file",
            json!({"azureFile": {"shareName": "s", "secretName": "x"}}),
            "#x#s#v#n",
            "ReadWriteMany",
            json!({"driver": "file.csi.azure.com", "volumeHandle": "#x#s#v#n", "volumeAttributes": {"sharename": "s"},
                "nodeStageSecretRef": {"name": "x", "namespace": "n"}}),
        ),
        (
            "5 cinder",
            json!({"cinder": {"volumeID": "c", "fsType": "ext4"}}),
            "cinder.csi.openstack.org-c",
            "ReadWriteOnce",
            json!({"driver": "cinder.csi.openstack.org", "volumeHandle": "c", "fsType": "ext4"}),
        ),
        (
            "6 vsphere",
            json!({"vsphereVolume": {"volumePath": "p", "storagePolicyName": "gold"}}),
            "csi.vsphere.vmware.com-p",
            "ReadWriteOnce",
            json!({"driver": "csi.vsphere.vmware.com", "volumeHandle": "p", "volumeAttributes": {"storagepolicyname": "gold"}}),
        ),
        (
            "7 portworx, reading",
            json!({"portworxVolume": {"volumeID": "w", "readOnly": true}}),
            "pxd.portworx.com-w",
            "ReadOnlyMany",
            json!({"driver": "pxd.portworx.com", "volumeHandle": "w"}),
        ),
    ] {
        let mut inline = json!({"name": "v"});
        merge(&mut inline, source);
        let got = inline_to_csi(&serde_json::from_value(inline).unwrap(), "n");
        assert_eq!(got.as_ref().and_then(|got| got.metadata.name.as_deref()), Some(name), "{case}");
        assert_spec(case, got, json!({"accessModes": [mode], "csi": want, "volumeMode": "Filesystem"}));
    }
    for other in [
        json!({"name": "v", "emptyDir": {}}),
        json!({"name": "v", "awsElasticBlockStore": {"volumeID": "aws://"}}),
    ] {
        let other: Volume = serde_json::from_value(other).unwrap();
        assert!(inline_to_csi(&other, "n").is_none(), "{other:?}");
    }
}

#[test]
fn csi_volumes_translate_back_to_in_tree() {
    let azure = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d";
    for (case, csi, want) in [
        (
            "1 ebs",
            json!({"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4", "volumeAttributes": {"partition": "3"}}),
            json!({"awsElasticBlockStore": {"volumeID": "vol-1", "fsType": "ext4", "partition": 3}}),
        ),
        (
            "2 ebs, no number",
            json!({"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "volumeAttributes": {"partition": "x"}}),
            Value::Null,
        ),
        (
            "3 gce",
            json!({"driver": "pd.csi.storage.gke.io", "volumeHandle": "projects/p/zones/z/disks/d", "readOnly": true,
                "volumeAttributes": {"partition": ""}}),
            json!({"gcePersistentDisk": {"pdName": "d", "readOnly": true}}),
        ),
        (
            "4 gce, without its own handle",
            json!({"driver": "pd.csi.storage.gke.io", "volumeHandle": "d"}),
            Value::Null,
        ),
        (
            "5 azure disk",
            json!({"driver": "disk.csi.azure.com", "volumeHandle": azure, "volumeAttributes": {"cachingMode": "None", "fsType": "xfs"}}),
            json!({"azureDisk": {"diskName": "d", "diskURI": azure, "kind": "Managed", "cachingMode": "None", "fsType": "xfs",
                "readOnly": false}}),
        ),
        (
            "6 azure disk in a blob",
            json!({"driver": "disk.csi.azure.com", "volumeHandle": "https://a/vhds/d.vhd"}),
            json!({"azureDisk": {"diskName": "d.vhd", "diskURI": "https://a/vhds/d.vhd", "kind": "Managed", "fsType": "",
                "readOnly": false}}),
        ),
        (
            "7 azure disk, no name",
            json!({"driver": "disk.csi.azure.com", "volumeHandle": "/disks/d"}),
            Value::Null,
        ),
        (
            "8 azure file",
            json!({"driver": "file.csi.azure.com", "volumeHandle": "x", "volumeAttributes": {"shareName": "s"},
                "nodeStageSecretRef": {"name": "x", "namespace": "n"}}),
            json!({"azureFile": {"shareName": "s", "secretName": "x", "secretNamespace": "n"}}),
        ),
        (
            "9 azure file, by its handle",
            json!({"driver": "file.csi.azure.com", "volumeHandle": "rg#a#s#"}),
            json!({"azureFile": {"shareName": "s", "secretName": "azure-storage-account-a-secret", "secretNamespace": "default"}}),
        ),
        (
            "10 azure file, by nothing",
            json!({"driver": "file.csi.azure.com", "volumeHandle": "x"}),
            Value::Null,
        ),
        (
            "11 cinder",
            json!({"driver": "cinder.csi.openstack.org", "volumeHandle": "v", "fsType": "ext4"}),
            json!({"cinder": {"volumeID": "v", "fsType": "ext4"}}),
        ),
        (
            "12 vsphere",
            json!({"driver": "csi.vsphere.vmware.com", "volumeHandle": "id", "volumeAttributes": {"initialvolumefilepath": "[d] p"}}),
            json!({"vsphereVolume": {"volumePath": "[d] p"}}),
        ),
        (
            "13 portworx",
            json!({"driver": "pxd.portworx.com", "volumeHandle": "v", "readOnly": true}),
            json!({"portworxVolume": {"volumeID": "v", "readOnly": true}}),
        ),
    ] {
        assert_spec(case, from_csi(&volume(json!({"csi": csi}), json!({}))), want);
    }
    let shared =
        volume(json!({"csi": {"driver": "file.csi.azure.com", "volumeHandle": "rg#a#s#"}}), json!({}));
    let annotations = &show(from_csi(&shared))["metadata"]["annotations"];
    assert_eq!(annotations, &json!({"kubernetes.io/azure-file-resource-group": "rg"}));
}

#[test]
fn class_parameters_and_topologies_translate() {
    let topologies =
        |key: &str, values: &[&str]| json!([{"matchLabelExpressions": [{"key": key, "values": values}]}]);
    for (case, class, want) in [
        (
            "1 file systems and zones",
            json!({"provisioner": "kubernetes.io/aws-ebs", "parameters": {"fsType": "xfs", "type": "gp2", "zones": "a,b"}}),
            json!({"provisioner": "kubernetes.io/aws-ebs", "parameters": {"csi.storage.k8s.io/fstype": "xfs", "type": "gp2"},
                "allowedTopologies": topologies("topology.ebs.csi.aws.com/zone", &["a", "b"])}),
        ),
        (
            "2 speed",
            json!({"provisioner": "kubernetes.io/aws-ebs", "parameters": {"iopsPerGB": "10"}}),
            json!({"provisioner": "kubernetes.io/aws-ebs", "parameters": {"iopsPerGB": "10", "allowautoiopspergbincrease": "true"}}),
        ),
        (
            "3 topologies",
            json!({"provisioner": "kubernetes.io/gce-pd", "allowedTopologies": topologies(BETA_ZONE, &["a"])}),
            json!({"provisioner": "kubernetes.io/gce-pd", "allowedTopologies": topologies("topology.gke.io/zone", &["a"])}),
        ),
        (
            "4 topologies of other keys",
            json!({"provisioner": "kubernetes.io/cinder", "parameters": {"availability": "nova"}, "allowedTopologies": topologies("x", &["a"])}),
            json!({"provisioner": "kubernetes.io/cinder", "parameters": {"availability": "nova"}, "allowedTopologies": topologies("x", &["a"])}),
        ),
        (
            "5 zones of two sorts",
            json!({"provisioner": "kubernetes.io/gce-pd", "parameters": {"zone": "a"}, "allowedTopologies": topologies(ZONE, &["a"])}),
            Value::Null,
        ),
        (
            "6 failure domains are no zones",
            json!({"provisioner": "kubernetes.io/azure-disk", "parameters": {"fsType": "xfs"}, "allowedTopologies": topologies(ZONE, &["0", "westus-1"])}),
            json!({"provisioner": "kubernetes.io/azure-disk", "parameters": {"fsType": "xfs"},
                "allowedTopologies": topologies("topology.disk.csi.azure.com/zone", &["", "westus-1"])}),
        ),
        (
            "7 azure file",
            json!({"provisioner": "kubernetes.io/azure-file", "parameters": {"skuName": "x"}}),
            json!({"provisioner": "kubernetes.io/azure-file", "parameters": {"skuName": "x"}}),
        ),
        (
            "8 vsphere",
            json!({"provisioner": "kubernetes.io/vsphere-volume", "parameters": {"diskFormat": "thin", "fstype": "ext4", "StoragePolicyName": "gold", "odd": "x"},
                "allowedTopologies": topologies(ZONE, &["a"])}),
            json!({"provisioner": "kubernetes.io/vsphere-volume", "parameters": {"diskformat-migrationparam": "thin",
                "csi.storage.k8s.io/fstype": "ext4", "storagepolicyname": "gold", "csimigration": "true"},
                "allowedTopologies": topologies("topology.csi.vmware.com/zone", &["a"])}),
        ),
        ("9 not migrated", json!({"provisioner": "kubernetes.io/rbd"}), Value::Null),
    ] {
        let mut got = show(class_to_csi(&serde_json::from_value(class).unwrap()));
        if let Some(got) = got.as_object_mut() {
            got.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
        }
        assert_eq!(got, want, "{case}");
    }
    let secured = json!({"provisioner": "kubernetes.io/portworx-volume", "parameters": {
        "repl": "2", "openstorage.io/auth-secret-name": "s", "openstorage.io/auth-secret-namespace": "n"}});
    let class = class_to_csi(&serde_json::from_value(secured).unwrap()).unwrap();
    assert_eq!(class.provisioner, "pxd.portworx.com");
    let parameters = class.parameters.unwrap();
    assert_eq!(parameters.len(), 13);
    assert_eq!(parameters["csi.storage.k8s.io/node-stage-secret-name"], "s");
    assert_eq!(parameters["csi.storage.k8s.io/controller-expand-secret-namespace"], "n");
}
