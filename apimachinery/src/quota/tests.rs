//! Tests of quota usage and quota scopes.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ModifyVolumeStatus, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus, PodSpec,
    PodStatus, ResourceQuotaSpec, ResourceRequirements, ScopeSelector, ScopedResourceSelectorRequirement,
    ServicePort, ServiceSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::*;

fn list(pairs: &[(&str, &str)]) -> Option<BTreeMap<String, Text>> {
    Some(pairs.iter().map(|(name, amount)| ((*name).to_owned(), Text((*amount).to_owned()))).collect())
}

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

fn claim(size: &str, class: &str) -> PersistentVolumeClaim {
    let resources = Some(VolumeResourceRequirements { requests: list(&[("storage", size)]), limits: None });
    let class = (!class.is_empty()).then(|| class.to_owned());
    let spec = PersistentVolumeClaimSpec { resources, storage_class_name: class, ..Default::default() };
    PersistentVolumeClaim { spec: Some(spec), ..Default::default() }
}

fn container(name: &str, requests: &[(&str, &str)], limits: &[(&str, &str)]) -> Container {
    let resources = ResourceRequirements { requests: list(requests), limits: list(limits), claims: None };
    Container { name: name.to_owned(), resources: Some(resources), ..Default::default() }
}

fn pod(containers: Vec<Container>) -> Pod {
    Pod { spec: Some(PodSpec { containers, ..Default::default() }), ..Default::default() }
}

fn shown(resource: (&str, &str), item: Item<'_>) -> String {
    amounts::show(&Resource::new(resource.0, resource.1).usage(item, now()))
}

#[test]
fn claim_usage() {
    let resource = ("", "persistentvolumeclaims");
    assert_eq!(
        shown(resource, Item::Claim(&claim("5Gi", ""))),
        "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=5Gi"
    );
    assert_eq!(
        shown(resource, Item::Claim(&claim("1500m", "gold"))),
        "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
         gold.storageclass.storage.k8s.io/requests.storage=2,persistentvolumeclaims=1,requests.storage=2"
    );
    let mut old = claim("1Gi", "gold");
    old.metadata.annotations = Some([(ANN_BETA_STORAGE_CLASS.to_owned(), "iron".to_owned())].into());
    assert!(shown(resource, Item::Claim(&old)).contains("iron.storageclass"), "the old place wins");
    let mut given = claim("1Gi", "");
    let allocated_resources = list(&[("storage", "3Gi")]);
    given.status = Some(PersistentVolumeClaimStatus { allocated_resources, ..Default::default() });
    assert!(shown(resource, Item::Claim(&given)).ends_with("requests.storage=3Gi"), "a growth taken back");
    assert!(claim_status_counts(&claim("1Gi", ""), &given));
    assert!(!claim_status_counts(&claim("3Gi", ""), &given), "given as much as was asked");
}

#[test]
fn service_usage() {
    let service = |ty: &str, ports: &[i32], own: Option<bool>| Service {
        spec: Some(ServiceSpec {
            type_: Some(ty.to_owned()),
            ports: Some(
                ports
                    .iter()
                    .map(|port| ServicePort { node_port: Some(*port), ..Default::default() })
                    .collect(),
            ),
            allocate_load_balancer_node_ports: own,
            ..Default::default()
        }),
        ..Default::default()
    };
    for (case, service, want) in [
        ("inside", service("ClusterIP", &[0], None), (0, 0)),
        ("ports", service("NodePort", &[0, 0], None), (0, 2)),
        ("balanced", service("LoadBalancer", &[0, 0], None), (1, 2)),
        ("balanced without ports", service("LoadBalancer", &[0, 30000], Some(false)), (1, 1)),
    ] {
        let want = format!(
            "count/services=1,services=1,services.loadbalancers={},services.nodeports={}",
            want.0, want.1
        );
        assert_eq!(shown(("", "services"), Item::Service(&service)), want, "{case}");
    }
}

#[test]
fn usage_of_other_objects() {
    for (resource, want) in [
        (("", "configmaps"), "configmaps=1,count/configmaps=1"),
        (("", "resourcequotas"), "count/resourcequotas=1,resourcequotas=1"),
        (("", "serviceaccounts"), "count/serviceaccounts=1"),
        (("apps", "deployments"), "count/deployments.apps=1"),
        (("apps", "secrets"), "count/secrets.apps=1"),
    ] {
        assert_eq!(shown(resource, Item::Other), want, "{resource:?}");
    }
}

#[test]
fn pod_usage() {
    let resource = ("", "pods");
    let two = pod(vec![
        container("a", &[("cpu", "100m"), ("memory", "1Gi")], &[("cpu", "1")]),
        container(
            "b",
            &[("cpu", "200m"), ("example.com/gpu", "2"), ("hugepages-2Mi", "4Mi")],
            &[("cpu", "500m")],
        ),
    ]);
    assert_eq!(
        shown(resource, Item::Pod(&two)),
        "count/pods=1,cpu=300m,hugepages-2Mi=4Mi,limits.cpu=1500m,memory=1Gi,pods=1,requests.cpu=300m,\
         requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi,requests.memory=1Gi"
    );
    let cpu = |pod: &Pod| {
        Resource::new("", "pods").usage(Item::Pod(pod), now()).get("cpu").map(Quantity::to_string)
    };
    let mut first = pod(vec![container("a", &[("cpu", "1")], &[])]);
    let mut staying = container("s", &[("cpu", "500m")], &[]);
    staying.restart_policy = Some("Always".to_owned());
    let inits = vec![staying, container("i", &[("cpu", "3")], &[])];
    first.spec.as_mut().unwrap().init_containers = Some(inits);
    assert_eq!(cpu(&first).as_deref(), Some("3500m"), "the large one beside the one that stays");
    first.spec.as_mut().unwrap().overhead = list(&[("cpu", "10m")]);
    assert_eq!(cpu(&first).as_deref(), Some("3510m"), "what running it takes");
    let whole = ResourceRequirements { requests: list(&[("cpu", "7")]), limits: None, claims: None };
    first.spec.as_mut().unwrap().resources = Some(whole);
    assert_eq!(cpu(&first).as_deref(), Some("7010m"), "the pod as a whole");
    for (phase, counts) in [("Running", true), ("Succeeded", false), ("Failed", false)] {
        first.status = Some(PodStatus { phase: Some(phase.to_owned()), ..Default::default() });
        assert_eq!(cpu(&first).is_some(), counts, "{phase}");
        assert!(shown(resource, Item::Pod(&first)).starts_with("count/pods=1"), "{phase} is there");
    }
    let ending = |at: &str| {
        let mut pod = pod(vec![container("a", &[("cpu", "1")], &[])]);
        let deletion_timestamp = Some(Time(at.parse().unwrap()));
        pod.metadata =
            ObjectMeta { deletion_timestamp, deletion_grace_period_seconds: Some(30), ..Default::default() };
        cpu(&pod).is_some()
    };
    assert!(ending("2026-01-01T00:00:30Z") && !ending("2026-01-01T00:00:29Z"), "stuck in its end");
}

#[test]
fn containers_must_specify_quota_resources() {
    let names = ["limits.cpu", "requests.memory", "pods", "requests.ephemeral-storage"];
    let unsaid = |pod: &Pod| pods::unsaid(pod, names.into_iter());
    let full = container("a", &[("memory", "1Gi")], &[("cpu", "1")]);
    assert_eq!(unsaid(&pod(vec![full.clone()])), None);
    let want = "must specify limits.cpu for: b,c; requests.memory for: b";
    let some = vec![full, container("c", &[("memory", "1Gi")], &[]), container("b", &[], &[])];
    assert_eq!(unsaid(&pod(some)).as_deref(), Some(want));
}

#[test]
fn quota_names_map_to_resources() {
    let pods = Resource::new("", "pods");
    let claims = Resource::new("", "persistentvolumeclaims");
    let maps = Resource::new("", "configmaps");
    for (name, wanted) in [
        ("pods", Some(pods)),
        ("count/pods", Some(pods)),
        ("limits.ephemeral-storage", Some(pods)),
        ("requests.example.com/gpu", Some(pods)),
        ("requests.hugepages-1Gi", Some(pods)),
        ("requests.storage", Some(claims)),
        ("gold.storageclass.storage.k8s.io/requests.storage", Some(claims)),
        ("requests.gold.storageclass.storage.k8s.io/persistentvolumeclaims", Some(claims)),
        ("count/persistentvolumeclaims", Some(claims)),
        ("configmaps", Some(maps)),
        ("count/configmaps", Some(maps)),
        ("count/configmaps.example.com", None),
        ("services.nodeports", Some(Resource::new("", "services"))),
        ("beans", None),
    ] {
        let all = [claims, pods, maps, Resource::new("", "services"), Resource::new("apps", "deployments")];
        let found = all.into_iter().find(|resource| resource.counts_as(name));
        assert_eq!(found, wanted, "{name}");
        if let Some(wanted) = wanted {
            assert!(Resource::all_of(name).contains(&wanted), "{name}");
        }
    }
    assert_eq!(Resource::all_of("beans"), vec![]);
    assert_eq!(Resource::of_count("count/deployments.apps"), Some(Resource::new("apps", "deployments")));
    assert_eq!(Resource::of_count("pods"), None);
}

#[test]
fn objects_match_their_scopes() {
    let of = |scopes: &[&str]| ResourceQuotaSpec {
        scopes: Some(scopes.iter().map(|scope| (*scope).to_owned()).collect()),
        ..Default::default()
    };
    let chosen = |scope: &str, operator: &str, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let wanted = ScopedResourceSelectorRequirement {
            scope_name: scope.to_owned(),
            operator: operator.to_owned(),
            values: Some(values),
        };
        let scope_selector = Some(ScopeSelector { match_expressions: Some(vec![wanted]) });
        ResourceQuotaSpec { scope_selector, ..Default::default() }
    };
    let idle = pod(vec![container("a", &[("cpu", "0")], &[])]);
    let mut busy = pod(vec![container("a", &[("cpu", "1")], &[])]);
    busy.spec.as_mut().unwrap().active_deadline_seconds = Some(5);
    busy.spec.as_mut().unwrap().priority_class_name = Some("high".to_owned());
    let plain = claim("1Gi", "");
    let mut fast = claim("1Gi", "");
    fast.spec.as_mut().unwrap().volume_attributes_class_name = Some("fast".to_owned());
    let modify_volume_status = Some(ModifyVolumeStatus {
        target_volume_attributes_class_name: Some("faster".to_owned()),
        ..Default::default()
    });
    fast.status = Some(PersistentVolumeClaimStatus { modify_volume_status, ..Default::default() });
    let items = [Item::Pod(&idle), Item::Pod(&busy), Item::Claim(&plain), Item::Claim(&fast), Item::Other];
    let vac = "VolumeAttributesClass";
    for (case, spec, want) in [
        ("none", of(&[]), "ibpfo"),
        ("terminating", of(&["Terminating"]), "b"),
        ("not terminating", of(&["NotTerminating"]), "i"),
        ("best effort", of(&["BestEffort"]), "i"),
        ("both", of(&["NotBestEffort", "Terminating"]), "b"),
        ("priority", of(&["PriorityClass"]), "b"),
        ("priority in", chosen("PriorityClass", "In", &["low", "high"]), "b"),
        ("priority not in", chosen("PriorityClass", "NotIn", &["high"]), "i"),
        ("no priority", chosen("PriorityClass", "DoesNotExist", &[]), "i"),
        ("attributes", of(&[vac]), "f"),
        ("attributes wanted", chosen(vac, "In", &["fast"]), "f"),
        ("attributes on the way", chosen(vac, "In", &["faster"]), "f"),
        ("other attributes", chosen(vac, "In", &["slow"]), ""),
        ("no attributes", chosen(vac, "DoesNotExist", &[]), "p"),
        ("elsewhere", of(&["CrossNamespacePodAffinity"]), ""),
    ] {
        let found: String = items
            .iter()
            .zip("ibpfo".chars())
            .filter(|(item, _)| scopes::is_in(&spec, **item))
            .map(|(_, c)| c)
            .collect();
        assert_eq!(found, want, "{case}");
    }
}

#[test]
fn arithmetic() {
    let of = |pairs: &[(&str, &str)]| amounts::parse(&list(pairs).unwrap());
    let mut sum = of(&[("a", "0"), ("b", "1Gi")]);
    amounts::add(&mut sum, &of(&[("a", "5Gi"), ("c", "100m")]));
    assert_eq!(amounts::show(&sum), "a=5Gi,b=1Gi,c=100m", "nothing takes the form of what is added");
    let grown =
        amounts::growth(&of(&[("a", "5Gi"), ("b", "1"), ("c", "2")]), &of(&[("a", "3Gi"), ("b", "2")]));
    assert_eq!(amounts::show(&grown), "a=2Gi,b=0,c=2");
    let quotient = Quantity::parse("2").unwrap();
    let exceeds = |whole: &str, part: &str| {
        quotient.is_exceeded_by(&Quantity::parse(whole).unwrap(), &Quantity::parse(part).unwrap())
    };
    assert!(exceeds("201m", "100m") && !exceeds("200m", "100m"));
    assert!(exceeds("9E", "4E") && !exceeds("8E", "4E"), "large amounts");
}
