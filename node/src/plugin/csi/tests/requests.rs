//! Requests to drivers.

use orlop_csi::v1::volume_capability::AccessType;
use orlop_csi::v1::{NodeExpandVolumeRequest, NodePublishVolumeRequest, NodeStageVolumeRequest};

use super::context::TOKENS;
use super::*;
use crate::plugin::Outcome;

fn secret(namespace: &str, name: &str, value: &str) -> Value {
    json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace},
        "data": {"key": value}})
}

#[tokio::test]
async fn persistent_volume_requests_have_all_fields() {
    let rig = Fixture::new(json!({"podInfoOnMount": true})).await;
    rig.double.state().node_rpcs.push(NodeRpc::VolumeMountGroup);
    rig.api.seed(secret("infra", "stage", "c3Q="));
    rig.api.seed(secret("infra", "publish", "cHU="));
    let reference = |name: &str| json!({"name": name, "namespace": "infra"});
    let mut volume = persistent(
        "pv",
        json!({"accessModes": ["ReadWriteMany"], "mountOptions": ["noatime"],
            "csi": {"driver": DRIVER, "volumeHandle": "h", "fsType": "xfs", "volumeAttributes": {"a": "b"},
                "nodeStageSecretRef": reference("stage"), "nodePublishSecretRef": reference("publish"),
                "nodeExpandSecretRef": reference("stage")}}),
        false,
    );
    Arc::make_mut(&mut volume.spec).read_only = true;
    for step in [Step::MountDevice, Step::SetUp, Step::Expand] {
        take(&rig.plugin, &rig.host, &volume, step).await.unwrap();
    }
    let staging = rig.host.paths.csi_global(DRIVER, "h").join("globalmount").display().to_string();
    let stage = rig.double.requests::<NodeStageVolumeRequest>().remove(0);
    assert_eq!((stage.volume_id.as_str(), &stage.staging_target_path), ("h", &staging));
    assert_eq!(stage.publish_context["disk"], "sdx");
    assert_eq!((stage.volume_context.len(), stage.secrets["key"].as_str()), (1, "st"));
    let publish = rig.double.requests::<NodePublishVolumeRequest>().remove(0);
    assert_eq!(publish.staging_target_path, staging);
    assert_eq!(publish.target_path, rig.plugin.path(&rig.host, &place_of(&volume)).display().to_string());
    assert!(publish.readonly);
    assert_eq!((publish.publish_context["disk"].as_str(), publish.secrets["key"].as_str()), ("sdx", "pu"));
    let mut context: Vec<(&str, &str)> =
        publish.volume_context.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    context.sort_unstable();
    let pod = [
        ("a", "b"),
        ("csi.storage.k8s.io/ephemeral", "false"),
        ("csi.storage.k8s.io/pod.name", "p"),
        ("csi.storage.k8s.io/pod.namespace", "ns"),
        ("csi.storage.k8s.io/pod.uid", "u1"),
        ("csi.storage.k8s.io/serviceAccount.name", "robot"),
    ];
    assert_eq!(context, pod);
    for capability in [stage.volume_capability, publish.volume_capability] {
        let Some(AccessType::Mount(mount)) = capability.unwrap().access_type else { panic!("a mount") };
        assert_eq!((mount.fs_type.as_str(), mount.volume_mount_group.as_str()), ("xfs", "7"));
        assert_eq!(mount.mount_flags, ["noatime"]);
    }
    assert!(!rig.plugin.abilities(&rig.host, &volume.spec).owned, "the driver sets the group");
    // The in-memory driver mounts nothing for the pod, so the volume grows at its staging path.
    let expand = rig.double.requests::<NodeExpandVolumeRequest>().remove(0);
    assert_eq!((expand.volume_path, expand.staging_target_path), (staging.clone(), staging));
    assert_eq!((expand.capacity_range.unwrap().required_bytes, expand.secrets["key"].as_str()), (5, "st"));
    let record =
        std::fs::read_to_string(Path::new(&publish.target_path).with_file_name("vol_data.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(
        record,
        json!({"driverName": DRIVER, "volumeHandle": "h", "specVolID": "pv", "nodeName": "n1",
            "attachmentID": attachment::name(DRIVER, "h", "n1"), "volumeLifecycleMode": "Persistent"})
    );
}

#[tokio::test]
async fn inline_volume_request_includes_tokens() {
    for hidden in [false, true] {
        let spec = json!({"volumeLifecycleModes": ["Ephemeral"], "requiresRepublish": true,
            "serviceAccountTokenInSecrets": hidden, "podInfoOnMount": true,
            "tokenRequests": [{"audience": ""}, {"audience": "vault", "expirationSeconds": 600}]});
        let rig = Fixture::new(spec).await;
        rig.api.seed(secret("ns", "own", "cHU="));
        rig.api.seed(json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": "ns", "name": "robot"}}));
        let volume =
            inline(json!({"driver": DRIVER, "fsType": "ext4", "nodePublishSecretRef": {"name": "own"}}));
        for _ in 0..2 {
            take(&rig.plugin, &rig.host, &volume, Step::SetUp).await.unwrap();
        }
        let publish = rig.double.requests::<NodePublishVolumeRequest>();
        assert!(publish.len() == 2 && publish[0] == publish[1], "tokens are kept for a while");
        let handle = CsiSource::of(&volume.spec).unwrap().handle("u1", "v");
        assert_eq!((&publish[0].volume_id, publish[0].staging_target_path.as_str()), (&handle, ""));
        assert_eq!(publish[0].volume_context["csi.storage.k8s.io/ephemeral"], "true");
        assert_eq!(publish[0].secrets["key"], "pu");
        let (with_tokens, without) = match hidden {
            true => (&publish[0].secrets, &publish[0].volume_context),
            false => (&publish[0].volume_context, &publish[0].secrets),
        };
        assert!(!without.contains_key(TOKENS));
        let tokens: Value = serde_json::from_str(&with_tokens[TOKENS]).unwrap();
        assert!(tokens[""]["token"].as_str().unwrap().starts_with("robot::"), "{tokens}");
        assert!(tokens["vault"]["token"].as_str().unwrap().starts_with("robot:vault:"), "{tokens}");
        assert!(tokens["vault"]["expirationTimestamp"].is_string(), "{tokens}");
        let asked = rig.api.take_writes();
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[0].key, "ns/robot");
        assert_eq!(
            asked[1].body["spec"],
            json!({"audiences": ["vault"], "expirationSeconds": 600,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1"}})
        );
        let abilities = rig.plugin.abilities(&rig.host, &volume.spec);
        let expected = VolumeCapabilities {
            refreshed: true,
            repeated: true,
            owned: true,
            ..VolumeCapabilities::default()
        };
        assert_eq!(abilities, expected);
        assert_eq!(rig.plugin.found(&rig.host, &place_of(&volume)).await.unwrap(), None, "the pod's alone");
        assert_eq!(rig.plugin.devices(&rig.host).await.unwrap(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn block_volume_requests_have_all_fields() {
    let rig = Fixture::new(json!({"podInfoOnMount": true})).await;
    let volume = volume(Form::Block);
    for step in [Step::MountDevice, Step::SetUp, Step::Expand] {
        take(&rig.plugin, &rig.host, &volume, step).await.unwrap();
    }
    let devices = rig.host.paths.csi_devices();
    let stage = rig.double.requests::<NodeStageVolumeRequest>().remove(0);
    assert_eq!(stage.staging_target_path, devices.join("staging/pvb").display().to_string());
    let publish = rig.double.requests::<NodePublishVolumeRequest>().remove(0);
    assert_eq!(publish.target_path, devices.join("publish/pvb/u1").display().to_string());
    assert_eq!(publish.volume_context.len(), 1, "device calls do not include the pod");
    assert!(matches!(publish.volume_capability.unwrap().access_type, Some(AccessType::Block(_))));
    let expand = rig.double.requests::<NodeExpandVolumeRequest>().remove(0);
    assert_eq!(expand.volume_path, publish.target_path);
    let link = rig.plugin.path(&rig.host, &place_of(&volume));
    assert_eq!(std::fs::read_link(link).unwrap(), Path::new(&publish.target_path));
    assert!(rig.mounts.0.lock().contains(&devices.join("pvb/dev/u1")));
    let abilities = VolumeCapabilities {
        attach: true,
        device: true,
        mount_options: true,
        block: true,
        ..VolumeCapabilities::default()
    };
    assert_eq!(rig.plugin.abilities(&rig.host, &volume.spec), abilities);
}

#[tokio::test]
async fn driver_without_attach_stage_and_expand_is_only_asked_to_publish() {
    let rig = Fixture::new(json!({"attachRequired": false})).await;
    rig.double.state().node_rpcs.clear();
    for form in [Form::Files, Form::Block] {
        let volume = volume(form);
        rig.api.delete("volumeattachments", &attachment::name(DRIVER, "h", "n1"));
        for step in [Step::MountDevice, Step::SetUp] {
            take(&rig.plugin, &rig.host, &volume, step).await.unwrap();
        }
        let name = rig.plugin.volume_name(&volume.spec).unwrap();
        assert_eq!(rig.plugin.devices(&rig.host).await.unwrap(), [name]);
        assert_eq!(rig.plugin.expand(&rig.host, &volume, 5).await.unwrap(), ExpandOutcome::NotNeeded);
        assert!(!rig.plugin.abilities(&rig.host, &volume.spec).attach);
        for step in [Step::TearDown, Step::UnmountDevice] {
            take(&rig.plugin, &rig.host, &volume, step).await.unwrap();
        }
        assert_eq!(rig.left(), Vec::<PathBuf>::new());
    }
    assert!(rig.double.requests::<NodeStageVolumeRequest>().is_empty());
    let publish = rig.double.requests::<NodePublishVolumeRequest>();
    assert!(
        publish.iter().all(|asked| asked.staging_target_path.is_empty() && asked.publish_context.is_empty())
    );
}

#[tokio::test]
async fn missing_prerequisites_are_reported() {
    let rig = Fixture::new(json!({})).await;
    let files = volume(Form::Files);
    let name = attachment::name(DRIVER, "h", "n1");
    let refused = async |volume: &PodVolume, step: Step| {
        let error = take(&rig.plugin, &rig.host, volume, step).await.unwrap_err();
        assert_eq!((error.outcome, rig.left()), (Outcome::Final, Vec::new()), "{error}");
        error.to_string()
    };
    rig.api.patch("volumeattachments", &name, "status", json!({"status": {"attached": false}}));
    assert!(refused(&files, Step::MountDevice).await.contains("is not attached yet"));
    let doubts = rig.known.doubts();
    for (code, doubt) in [(13, false), (8, true)] {
        let error = json!({"message": "no slot", "errorCode": code});
        rig.api.patch("volumeattachments", &name, "status", json!({"status": {"attachError": error}}));
        assert_eq!(refused(&files, Step::MountDevice).await, "no slot");
        assert_eq!(
            doubts.has_changed().unwrap(),
            doubt,
            "how many volumes the node takes is asked for again"
        );
    }
    rig.api.delete("volumeattachments", &name);
    let missing = refused(&files, Step::MountDevice).await;
    let expected = format!("volume h has GET error for volume attachment {name}: ");
    assert!(missing.starts_with(&expected) && missing.contains("not found"), "{missing}");
    let inline = volume(Form::Inline);
    let unsupported = refused(&inline, Step::SetUp).await;
    assert_eq!(
        unsupported,
        "volume mode \"Ephemeral\" not supported by driver d.example (only supports [\"Persistent\"])"
    );
    let unsynced = CsiPlugin::new(DriverRegistry::new(Informer::new()));
    let error = unsynced.mount_device(&rig.host, &files.spec).await.unwrap_err().to_string();
    assert_eq!(error, "kubernetes.io/csi: CSIDrivers has not been synced yet");
    let nameless = rig.plugin.unmount_device(&rig.host, "no-volume").await.unwrap_err().to_string();
    assert!(nameless.contains("is no name of a CSI volume"), "{nameless}");
    assert_eq!(rig.double.calls().iter().filter(|call| *call != "NodeGetCapabilities").count(), 0);
}

#[tokio::test]
async fn missing_secret_is_reported() {
    let rig = Fixture::new(json!({})).await;
    let csi = json!({"driver": DRIVER, "volumeHandle": "h", "nodeStageSecretRef": {"name": "s", "namespace": "infra"}});
    let volume = persistent("pv", json!({"csi": csi}), false);
    let error = take(&rig.plugin, &rig.host, &volume, Step::MountDevice).await.unwrap_err().to_string();
    assert!(
        error.starts_with("fetching NodeStageSecretRef infra/s failed: ") && error.contains("not found"),
        "{error}"
    );
}

#[tokio::test]
async fn refused_expansion_reports_the_reason() {
    use orlop_csi::error::Code;
    use orlop_test_support::Failing;
    let rig = Fixture::new(json!({})).await;
    let volume = volume(Form::Files);
    take(&rig.plugin, &rig.host, &volume, Step::MountDevice).await.unwrap();
    rig.double.fail("NodeExpandVolume", 0, Failing::Refuses(Code::FailedPrecondition, "in use"));
    let error = take(&rig.plugin, &rig.host, &volume, Step::Expand).await.unwrap_err();
    assert_eq!(error.call().unwrap().code, Code::FailedPrecondition);
    assert_eq!(
        error.to_string(),
        "Expander.NodeExpand failed to expand the volume : rpc error: code = FailedPrecondition desc = in use"
    );
}
