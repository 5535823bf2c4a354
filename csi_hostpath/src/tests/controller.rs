//! Tests of volumes: create, delete, publish and unpublish, lists, capacity and expansion.

use super::*;

#[tokio::test]
async fn create_volume_is_idempotent_by_name() {
    let driver = Running::start(|_| {}).await;
    let first = driver.create(wanted("a")).await.unwrap();
    assert_eq!(first.capacity_bytes, 1 << 20);
    assert_eq!(driver.create(wanted("a")).await.unwrap(), first);
    let larger = v1::CreateVolumeRequest { capacity_range: range(2 << 20, 0), ..wanted("a") };
    assert_eq!(code(driver.create(larger).await), Code::AlreadyExists);
    let smaller = v1::CreateVolumeRequest { capacity_range: range(1, 1 << 19), ..wanted("a") };
    assert_eq!(code(driver.create(smaller).await), Code::AlreadyExists);
    let other_form = v1::CreateVolumeRequest { volume_capabilities: vec![block()], ..wanted("a") };
    assert_eq!(code(driver.create(other_form).await), Code::AlreadyExists);
    let driver = driver.restart(|_| {}).await;
    assert_eq!(driver.create(wanted("a")).await.unwrap(), first, "remembered");
    let delete = v1::DeleteVolumeRequest { volume_id: first.volume_id.clone(), ..Default::default() };
    driver.controller().delete_volume(delete.clone()).await.unwrap();
    driver.controller().delete_volume(delete).await.expect("it is gone already, which is what was wanted");
    assert!(driver.volumes().await.is_empty());
    assert!(!driver.dir.path().join("data/volumes").join(&first.volume_id).exists());
}

#[tokio::test]
async fn invalid_create_requests_are_rejected() {
    let driver = Running::start(|options| options.max_volume_bytes = 1 << 30).await;
    let with = |change: fn(&mut v1::CreateVolumeRequest)| {
        let mut request = wanted("a");
        change(&mut request);
        request
    };
    for (case, request, want) in [
        ("no name", with(|r| r.name.clear()), Code::InvalidArgument),
        ("no capabilities", with(|r| r.volume_capabilities.clear()), Code::InvalidArgument),
        ("no access type", with(|r| r.volume_capabilities[0].access_type = None), Code::InvalidArgument),
        ("no access mode", with(|r| r.volume_capabilities[0].access_mode = None), Code::InvalidArgument),
        ("block and mount", with(|r| r.volume_capabilities.push(block())), Code::InvalidArgument),
        ("limit below", with(|r| r.capacity_range = range(10, 5)), Code::InvalidArgument),
        ("negative", with(|r| r.capacity_range = range(-1, 0)), Code::InvalidArgument),
        ("too large", with(|r| r.capacity_range = range(2 << 30, 0)), Code::OutOfRange),
        (
            "unknown parameter",
            with(|r| r.parameters = parameters(&[("speed", "fast")])),
            Code::InvalidArgument,
        ),
        ("unknown form", with(|r| r.parameters = parameters(&[("form", "tape")])), Code::InvalidArgument),
        (
            "metadata of claims",
            with(|r| r.parameters = parameters(&[("csi.storage.k8s.io/pv/name", "x")])),
            Code::Ok,
        ),
    ] {
        assert_eq!(code(driver.create(request).await), want, "{case}");
    }
}

#[tokio::test]
async fn capacity_is_limited_and_reported() {
    let driver = Running::start(|options| options.capacity = Some(3 << 20)).await;
    let capacity = async || {
        let request = v1::GetCapacityRequest::default();
        driver.controller().get_capacity(request).await.unwrap().into_inner().available_capacity
    };
    assert_eq!(capacity().await, 3 << 20);
    let two = v1::CreateVolumeRequest { capacity_range: range(2 << 20, 0), ..wanted("two") };
    let two = driver.create(two).await.unwrap();
    assert_eq!(capacity().await, 1 << 20);
    let more = v1::CreateVolumeRequest { capacity_range: range((1 << 20) + 1, 0), ..wanted("more") };
    assert_eq!(code(driver.create(more).await), Code::ResourceExhausted);
    let expand = |bytes| v1::ControllerExpandVolumeRequest {
        volume_id: two.volume_id.clone(),
        capacity_range: range(bytes, 0),
        ..Default::default()
    };
    assert_eq!(code(driver.controller().controller_expand_volume(expand(4 << 20)).await), Code::OutOfRange);
    let grown = driver.controller().controller_expand_volume(expand(3 << 20)).await.unwrap().into_inner();
    assert_eq!((grown.capacity_bytes, grown.node_expansion_required), (3 << 20, false));
    let again = driver.controller().controller_expand_volume(expand(1 << 20)).await.unwrap().into_inner();
    assert_eq!(again.capacity_bytes, 3 << 20, "a volume never shrinks");
    assert_eq!(capacity().await, 0);
}

#[tokio::test]
async fn topology_requirements_select_the_node() {
    let key = "topology.hostpath.csi.orlop.dev/node";
    let at = |nodes: &[&str]| -> Vec<v1::Topology> {
        nodes.iter().map(|node| v1::Topology { segments: parameters(&[(key, node)]) }).collect()
    };
    let driver = Running::start(|options| {
        options.topology = true;
        options.other_nodes = ["n2".to_owned(), "n3".to_owned()].into();
        options.capacity = Some(1 << 20);
    })
    .await;
    let mut place = {
        let mut n = 0;
        let driver = &driver;
        async move |requisite: &[&str], preferred: &[&str]| {
            n += 1;
            let requirement = v1::TopologyRequirement { requisite: at(requisite), preferred: at(preferred) };
            let request = v1::CreateVolumeRequest {
                accessibility_requirements: Some(requirement),
                ..wanted(&format!("v{n}"))
            };
            let volume = driver.create(request).await.map_err(|status| status.code())?;
            Ok(volume.accessible_topology[0].segments[key].clone())
        }
    };
    assert_eq!(place(&["n1", "n2"], &["n2", "n1"]).await, Ok("n2".to_owned()), "the preferred");
    assert_eq!(place(&["n1", "n2"], &["n2", "n1"]).await, Ok("n1".to_owned()), "n2 is full");
    assert_eq!(place(&["n1", "n2"], &["n2", "n1"]).await, Err(Code::ResourceExhausted), "both are full");
    assert_eq!(place(&["elsewhere"], &[]).await, Err(Code::ResourceExhausted), "not a node of this driver");
    assert_eq!(place(&[], &["n3"]).await, Ok("n3".to_owned()));
}

#[tokio::test]
async fn publish_respects_access_modes_and_limits() {
    let driver = Running::start(|options| {
        options.other_nodes = ["n2".to_owned()].into();
        options.max_volumes_per_node = 1;
    })
    .await;
    let one = driver.create(wanted("one")).await.unwrap().volume_id;
    let two = driver.create(wanted("two")).await.unwrap().volume_id;
    let publish = async |id: &str, node: &str, mode: Mode, readonly: bool| {
        let request = v1::ControllerPublishVolumeRequest {
            volume_id: id.to_owned(),
            node_id: node.to_owned(),
            volume_capability: Some(mounted(mode)),
            readonly,
            ..Default::default()
        };
        code(driver.controller().controller_publish_volume(request).await)
    };
    let unpublish = async |id: &str, node: &str| {
        let (volume_id, node_id) = (id.to_owned(), node.to_owned());
        let request = v1::ControllerUnpublishVolumeRequest { volume_id, node_id, ..Default::default() };
        code(driver.controller().controller_unpublish_volume(request).await)
    };
    let writer = Mode::SingleNodeWriter;
    for (case, id, node, mode, readonly, want) in [
        ("no volume named", "", "n1", writer, false, Code::InvalidArgument),
        ("no node named", &*one, "", writer, false, Code::InvalidArgument),
        ("no mode", &one, "n1", Mode::Unknown, false, Code::InvalidArgument),
        ("unknown volume", "x", "n1", writer, false, Code::NotFound),
        ("unknown node", &one, "n9", writer, false, Code::NotFound),
        ("published", &one, "n1", writer, false, Code::Ok),
        ("again", &one, "n1", writer, false, Code::Ok),
        ("otherwise", &one, "n1", writer, true, Code::AlreadyExists),
        ("elsewhere", &one, "n2", writer, false, Code::FailedPrecondition),
        ("elsewhere by many", &one, "n2", Mode::MultiNodeMultiWriter, false, Code::Ok),
        ("beyond the limit", &two, "n1", writer, false, Code::ResourceExhausted),
    ] {
        assert_eq!(publish(id, node, mode, readonly).await, want, "{case}");
    }
    let delete = v1::DeleteVolumeRequest { volume_id: one.clone(), ..Default::default() };
    assert_eq!(code(driver.controller().delete_volume(delete).await), Code::FailedPrecondition, "in use");
    let driver_nodes = async || {
        let request = v1::ControllerGetVolumeRequest { volume_id: one.clone() };
        let answer = driver.controller().controller_get_volume(request).await.unwrap().into_inner();
        answer.status.unwrap().published_node_ids
    };
    assert_eq!(driver_nodes().await, ["n1", "n2"]);
    assert_eq!(unpublish(&one, "n1").await, Code::Ok);
    assert_eq!(unpublish(&one, "n1").await, Code::Ok, "it is not there, which is what was wanted");
    assert_eq!(driver_nodes().await, ["n2"]);
    assert_eq!(unpublish(&one, "").await, Code::Ok, "from all nodes");
    assert!(driver_nodes().await.is_empty());
    assert_eq!(unpublish("x", "n1").await, Code::Ok, "a volume that is gone is on no node");
    assert_eq!(publish(&two, "n1", writer, false).await, Code::Ok);
}

#[tokio::test]
async fn capabilities_are_confirmed_only_if_supported() {
    let driver = Running::start(|_| {}).await;
    let id = driver.create(wanted("a")).await.unwrap().volume_id;
    let validate = async |id: &str, capabilities: Vec<v1::VolumeCapability>| {
        let request = v1::ValidateVolumeCapabilitiesRequest {
            volume_id: id.to_owned(),
            volume_capabilities: capabilities,
            ..Default::default()
        };
        driver.controller().validate_volume_capabilities(request).await.map(tonic::Response::into_inner)
    };
    assert!(validate(&id, vec![mounted(Mode::SingleNodeWriter)]).await.unwrap().confirmed.is_some());
    let not = validate(&id, vec![block()]).await.unwrap();
    assert!(not.confirmed.is_none() && !not.message.is_empty());
    assert_eq!(code(validate("x", vec![block()]).await), Code::NotFound);
    assert_eq!(code(validate(&id, Vec::new()).await), Code::InvalidArgument);
}

#[tokio::test]
async fn only_mutable_parameters_can_be_changed() {
    let driver = Running::start(|options| options.mutable_parameters = ["iops".to_owned()].into()).await;
    let id = driver.create(wanted("a")).await.unwrap().volume_id;
    let modify = async |id: &str, pairs: &[(&str, &str)]| {
        let mutable_parameters = parameters(pairs);
        let request = v1::ControllerModifyVolumeRequest {
            volume_id: id.to_owned(),
            mutable_parameters,
            ..Default::default()
        };
        code(driver.controller().controller_modify_volume(request).await)
    };
    assert_eq!(modify(&id, &[("iops", "5")]).await, Code::Ok);
    assert_eq!(modify(&id, &[("colour", "red")]).await, Code::InvalidArgument);
    assert_eq!(modify("x", &[]).await, Code::NotFound);
}

#[tokio::test]
async fn damaged_record_is_named_in_the_error() {
    let driver = Running::start(|_| {}).await;
    let id = driver.create(wanted("a")).await.unwrap().volume_id;
    let record = driver.dir.path().join("data/volumes").join(&id).join("volume.json");
    std::fs::write(&record, "{").unwrap();
    let error = crate::records::Records::open(&driver.dir.path().join("data")).unwrap_err();
    assert!(error.to_string().contains(record.to_str().unwrap()), "{error}");
    std::fs::remove_file(&record).unwrap();
    crate::records::Records::open(&driver.dir.path().join("data")).unwrap();
    assert!(!record.parent().unwrap().exists(), "without a record it is what a crash left");
}

#[tokio::test]
async fn interrupted_delete_continues_and_leftovers_of_ephemeral_volumes_are_removed() {
    let driver = Running::start(|_| {}).await;
    let id = driver.create(wanted("a")).await.unwrap().volume_id;
    let volumes = driver.dir.path().join("data/volumes");
    // An earlier call has removed the record, and failed to remove the directory.
    std::fs::remove_file(volumes.join(&id).join("volume.json")).unwrap();
    let request = || v1::DeleteVolumeRequest { volume_id: id.clone(), ..Default::default() };
    for _ in 0..2 {
        assert_eq!(code(driver.controller().delete_volume(request()).await), Code::Ok);
    }
    assert!(!volumes.join(&id).exists());
    let ephemeral = volumes.join(format!("csi-{}", "0a".repeat(32)));
    std::fs::create_dir_all(ephemeral.join("data")).unwrap();
    crate::records::Records::open(&driver.dir.path().join("data")).unwrap();
    assert!(!ephemeral.exists());
}

#[tokio::test]
async fn foreign_files_are_left_alone() {
    for (case, file) in [
        ("a directory by another name", "volumes/photos/one.jpg"),
        ("a directory with something else in it", "volumes/8c7b2a1e-6f0e-4a3e-9a52-0d7a8f4f1b11/one.jpg"),
        ("a file", "snapshots/notes"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "dear").unwrap();
        let error = crate::records::Records::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("use a separate --data-dir"), "{case}: {error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear", "{case}");
    }
}
