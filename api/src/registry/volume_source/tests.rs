//! Tests of the sources of volumes.

use serde_json::json;

use super::*;

fn errors(spec: &Value, name: &str, has_node_affinity: bool) -> Vec<String> {
    let mut errors = FieldErrors::new();
    validate(spec, &Path::new("spec"), name, has_node_affinity, &mut errors);
    errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn sources_are_defaulted() {
    for (given, want) in [
        (json!({"hostPath": {"path": "/x"}}), json!({"hostPath": {"path": "/x", "type": ""}})),
        (json!({"hostPath": {"type": "File"}}), json!({"hostPath": {"type": "File"}})),
        (json!({"iscsi": {"lun": 0}}), json!({"iscsi": {"lun": 0, "iscsiInterface": "default"}})),
        (
            json!({"rbd": {}}),
            json!({"rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}}),
        ),
        (
            json!({"azureDisk": {"readOnly": true}}),
            json!({"azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": true}}),
        ),
        (json!({"scaleIO": {}}), json!({"scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"}})),
        (json!({"csi": {"driver": "d"}}), json!({"csi": {"driver": "d"}})),
    ] {
        let mut spec = given.as_object().cloned().expect("an object");
        defaults(&mut spec);
        assert_eq!(Value::Object(spec), want, "{given}");
    }
}

#[test]
fn exactly_one_source_is_required() {
    let csi = json!({"driver": "d", "volumeHandle": "h"});
    for (case, spec, want) in [
        ("1 none", json!({}), vec!["spec: Required value: must specify a volume type"]),
        (
            "2 two: the later one is refused, and not looked at",
            json!({"csi": {}, "hostPath": {"path": "/x"}}),
            vec!["spec.csi: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            "3 upstream's name for a second cephfs",
            json!({"hostPath": {"path": "/x"}, "cephfs": {}}),
            vec!["spec.cephFS: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            "4 upstream never refuses flexVolume, but what follows it",
            json!({"hostPath": {"path": "/x"}, "flexVolume": {"driver": "d"}, "csi": csi}),
            vec!["spec.csi: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            "5 local without nodes",
            json!({"local": {"path": "/x"}}),
            vec!["spec.nodeAffinity: Required value: Local volume requires node affinity"],
        ),
    ] {
        assert_eq!(errors(&spec, "v", false), want, "{case}");
    }
    assert!(errors(&json!({"local": {"path": "/x"}}), "v", true).is_empty());
}

#[test]
fn csi_sources_are_validated() {
    let subdomain = crate::registry::volume_testing::SUBDOMAIN;
    let secret =
        |field: &str, secret: Value| json!({"csi": {"driver": "d", "volumeHandle": "h", field: secret}});
    for (case, spec, want) in [
        (
            "1 nothing",
            json!({"csi": {}}),
            vec![
                "spec.csi.driver: Required value".to_owned(),
                "spec.csi.volumeHandle: Required value".to_owned(),
            ],
        ),
        ("2 capitals", json!({"csi": {"driver": "A.b", "volumeHandle": "h"}}), vec![]),
        (
            "3 a bad driver",
            json!({"csi": {"driver": "a_b", "volumeHandle": "h"}}),
            vec![format!("spec.csi.driver: Invalid value: \"a_b\": {subdomain}")],
        ),
        (
            "4 a long driver",
            json!({"csi": {"driver": "d".repeat(64), "volumeHandle": "h"}}),
            vec!["spec.csi.driver: Too long: may not be more than 63 bytes".to_owned()],
        ),
        (
            "5 a secret",
            secret("controllerPublishSecretRef", json!({})),
            vec![
                "spec.csi.controllerPublishSecretRef.name: Required value".to_owned(),
                "spec.csi.controllerPublishSecretRef.namespace: Required value".to_owned(),
            ],
        ),
        (
            "6 the name of a secret",
            secret("nodeExpandSecretRef", json!({"name": "A", "namespace": "n"})),
            vec![format!("spec.csi.nodeExpandSecretRef.name: Invalid value: \"A\": {subdomain}")],
        ),
        ("7 the unused secret", secret("nodeStageSecretRef", json!({})), vec![]),
    ] {
        assert_eq!(errors(&spec, "v", false), want, "{case}");
    }
}

#[test]
fn paths_are_validated() {
    for (case, spec, want) in [
        ("1 no path", json!({"hostPath": {}}), vec!["spec.hostPath.path: Required value"]),
        (
            "2 steps back",
            json!({"hostPath": {"path": "/a/../../b"}}),
            vec!["spec.hostPath.path: Invalid value: \"/a/../../b\": must not contain '..'"],
        ),
        ("3 dots in a name", json!({"hostPath": {"path": "/a..b", "type": ""}}), vec![]),
        (
            "4 type",
            json!({"hostPath": {"path": "/a", "type": "Disk"}}),
            vec![
                "spec.hostPath.type: Unsupported value: \"Disk\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
            ],
        ),
        ("5 local without a path", json!({"local": {}}), vec!["spec.local.path: Required value"]),
        (
            "6 local with steps back",
            json!({"local": {"path": "../a"}}),
            vec!["spec.local.path: Invalid value: \"../a\": must not contain '..'"],
        ),
        (
            "7 nfs",
            json!({"nfs": {}}),
            vec![
                "spec.nfs.server: Required value",
                "spec.nfs.path: Required value",
                "spec.nfs.path: Invalid value: \"\": must be an absolute path",
            ],
        ),
        (
            "8 nfs, relative",
            json!({"nfs": {"server": "s", "path": "x"}}),
            vec!["spec.nfs.path: Invalid value: \"x\": must be an absolute path"],
        ),
    ] {
        assert_eq!(errors(&spec, "v", true), want, "{case}");
    }
}

#[test]
fn iscsi_sources_are_validated() {
    let iqn = "iqn.2001-04.com.example:storage.kube.sys1.xyz";
    let with = |patch: Value| {
        let mut source = json!({"targetPortal": "127.0.0.1", "iqn": iqn, "lun": 1});
        json_patch::merge(&mut source, &patch);
        json!({"iscsi": source})
    };
    for (case, patch, want) in [
        ("1 good", json!({}), vec![]),
        (
            "2 no portal, no name",
            json!({"targetPortal": null, "iqn": null}),
            vec!["spec.iscsi.targetPortal: Required value", "spec.iscsi.iqn: Required value"],
        ),
        (
            "3 no such kind of name",
            json!({"iqn": "abc"}),
            vec![
                "spec.iscsi.iqn: Invalid value: \"abc\": must be valid format starting with iqn, eui, or naa",
            ],
        ),
        (
            "4 no date",
            json!({"iqn": "iqn.com.example:x"}),
            vec!["spec.iscsi.iqn: Invalid value: \"iqn.com.example:x\": must be valid format"],
        ),
        ("5 eui", json!({"iqn": "eui.0123456789ABCDEF"}), vec![]),
        (
            "6 a short eui",
            json!({"iqn": "eui.0123456789ABCDE"}),
            vec!["spec.iscsi.iqn: Invalid value: \"eui.0123456789ABCDE\": must be valid format"],
        ),
        ("7 naa", json!({"iqn": "naa.62004567BA64678D0123456789ABCDEF"}), vec![]),
        (
            "8 lun",
            json!({"lun": 256}),
            vec!["spec.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive"],
        ),
        ("9 secret needed", json!({"chapAuthSession": true}), vec!["spec.iscsi.secretRef: Required value"]),
        (
            "10 secret without a name",
            json!({"secretRef": {}}),
            vec!["spec.iscsi.secretRef.name: Required value"],
        ),
        (
            "11 initiator",
            json!({"initiatorName": "nope"}),
            vec![
                "spec.iscsi.initiatorname: Invalid value: \"nope\": must be valid format starting with iqn, eui, or naa",
            ],
        ),
    ] {
        assert_eq!(errors(&with(patch), "v", false), want, "{case}");
    }
    let long = "v".repeat(60);
    let got = errors(&with(json!({"initiatorName": iqn})), &long, false);
    assert_eq!(got.len(), 1, "{got:?}");
    assert!(
        got[0].starts_with("spec.iscsi.targetportal: Invalid value: \"127.0.0.1\": Total length of"),
        "{got:?}"
    );
}

#[test]
fn other_sources_are_validated() {
    for (case, spec, want) in [
        (
            "1 fc",
            json!({"fc": {}}),
            vec!["spec.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"],
        ),
        (
            "2 fc with both",
            json!({"fc": {"targetWWNs": ["a"], "wwids": ["b"]}}),
            vec![
                "spec.fc.targetWWNs: Invalid value: [\"a\"]: targetWWNs and wwids can not be specified simultaneously",
                "spec.fc.lun: Required value: lun is required if targetWWNs is specified",
            ],
        ),
        (
            "3 fc lun",
            json!({"fc": {"targetWWNs": ["a"], "lun": 256}}),
            vec!["spec.fc.lun: Invalid value: 256: must be between 0 and 255, inclusive"],
        ),
        (
            "4 gce",
            json!({"gcePersistentDisk": {"partition": 300}}),
            vec![
                "spec.persistentDisk.pdName: Required value",
                "spec.persistentDisk.partition: Invalid value: 300: must be between 1 and 255, inclusive",
            ],
        ),
        (
            "5 aws",
            json!({"awsElasticBlockStore": {}}),
            vec!["spec.awsElasticBlockStore.volumeID: Required value"],
        ),
        (
            "6 glusterfs",
            json!({"glusterfs": {"endpointsNamespace": ""}}),
            vec![
                "spec.glusterfs.endpoints: Required value",
                "spec.glusterfs.path: Required value",
                "spec.glusterfs.endpointsNamespace: Invalid value: \"\": if the endpointnamespace is set, it must be a valid namespace name",
            ],
        ),
        (
            "7 flocker",
            json!({"flocker": {}}),
            vec!["spec.flocker: Required value: one of datasetName and datasetUUID is required"],
        ),
        (
            "8 flocker with both",
            json!({"flocker": {"datasetName": "a/b", "datasetUUID": "c"}}),
            vec![
                "spec.flocker: Invalid value: \"resource\": datasetName and datasetUUID can not be specified simultaneously",
                "spec.flocker.datasetName: Invalid value: \"a/b\": must not contain '/'",
            ],
        ),
        (
            "9 rbd",
            json!({"rbd": {}}),
            vec!["spec.rbd.monitors: Required value", "spec.rbd.image: Required value"],
        ),
        ("10 cephfs", json!({"cephfs": {}}), vec!["spec.cephfs.monitors: Required value"]),
        (
            "11 quobyte",
            json!({"quobyte": {"registry": "a:1,b"}}),
            vec![
                "spec.quobyte.registry: Invalid value: \"a:1,b\": must be a host:port pair or multiple pairs separated by commas",
                "spec.quobyte.volume: Required value",
            ],
        ),
        (
            "12 cinder",
            json!({"cinder": {"secretRef": {}}}),
            vec![
                "spec.cinder.volumeID: Required value",
                "spec.cinder.secretRef.name: Required value",
                "spec.cinder.secretRef.namespace: Required value",
            ],
        ),
        (
            "13 flex",
            json!({"flexVolume": {"options": {"x.Kubernetes.io/a": "b", "mykubernetes.io/a": "b"}}}),
            vec![
                "spec.flexVolume.driver: Required value",
                "spec.flexVolume.options[x.Kubernetes.io/a]: Invalid value: \"x.Kubernetes.io/a\": kubernetes.io and k8s.io namespaces are reserved",
            ],
        ),
        (
            "14 azure file",
            json!({"azureFile": {"secretNamespace": ""}}),
            vec![
                "spec.azureFile.secretName: Required value",
                "spec.azureFile.shareName: Required value",
                "spec.azureFile.secretNamespace: Required value",
            ],
        ),
        (
            "15 azure disk",
            json!({"azureDisk": {"diskName": "d", "diskURI": "x", "kind": "Managed", "cachingMode": "All"}}),
            vec![
                "spec.azureDisk.cachingMode: Unsupported value: \"All\": supported values: \"None\", \"ReadOnly\", \"ReadWrite\"",
                "spec.azureDisk.diskURI: Unsupported value: \"x\": supported values: \"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}\"",
            ],
        ),
        ("16 vsphere", json!({"vsphereVolume": {}}), vec!["spec.vsphereVolume.volumePath: Required value"]),
        (
            "17 photon",
            json!({"photonPersistentDisk": {}}),
            vec!["spec.photonPersistentDisk.pdID: Required value"],
        ),
        ("18 portworx", json!({"portworxVolume": {}}), vec!["spec.portworxVolume.volumeID: Required value"]),
        (
            "19 scaleIO",
            json!({"scaleIO": {}}),
            vec![
                "spec.scaleIO.gateway: Required value",
                "spec.scaleIO.system: Required value",
                "spec.scaleIO.volumeName: Required value",
            ],
        ),
        ("20 storageos", json!({"storageos": {}}), vec!["spec.storageos.volumeName: Required value"]),
    ] {
        assert_eq!(errors(&spec, "v", false), want, "{case}");
    }
}

#[test]
fn hosts_with_ports_are_validated() {
    for (text, want) in
        [("a:1", true), ("[::1]:1", true), ("a", false), ("a:b:1", false), ("::1", false), ("[::1]", false)]
    {
        let spec = json!({"quobyte": {"registry": text, "volume": "v"}});
        assert_eq!(errors(&spec, "v", false).is_empty(), want, "{text}");
    }
}
