use std::collections::HashMap;

use super::*;

fn field(ty: &str, name: &str) -> &'static Field {
    let types = types();
    let id = types.named(ty).unwrap_or_else(|| panic!("no type {ty}"));
    types.get(id).field(name).unwrap_or_else(|| panic!("no field {ty}.{name}"))
}

const CORE: &str = "io.k8s.api.core.v1.";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

#[test]
fn every_fact_belongs_to_a_field() {
    let mut strays = Vec::new();
    for (name, facts) in facts::load() {
        let Some(id) = types().named(&name) else {
            strays.push(name);
            continue;
        };
        let known = types().get(id);
        strays
            .extend(facts.fields.keys().filter(|f| known.field(f).is_none()).map(|f| format!("{name}.{f}")));
    }
    strays.sort_unstable();
    assert_eq!(strays, Vec::<String>::new());
}

#[test]
fn every_field_has_a_fact() {
    let facts = facts::load();
    let mut missing = Vec::new();
    for ty in types().iter().filter(|ty| !ty.open) {
        for name in &ty.order {
            let is_type_meta = name == "kind" || name == "apiVersion";
            let known = facts.get(&ty.name).is_some_and(|f| f.fields.contains_key(name.as_str()));
            if !known && !is_type_meta {
                missing.push(format!("{}.{name}", ty.name));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn protobuf_numbers_are_unique() {
    for (name, facts) in facts::load() {
        let mut seen = HashMap::new();
        for (field, facts) in &facts.fields {
            let other = seen.insert((facts.outer.clone(), facts.number), field);
            assert_eq!(other, None, "{name}.{field}");
        }
    }
}

#[test]
fn shapes_match_the_schemas() {
    let cases = [
        (CORE, "Pod", "spec", "Struct(PodSpec)"),
        (CORE, "PodSpec", "containers", "List(Struct(Container))"),
        (CORE, "PodSpec", "terminationGracePeriodSeconds", "Int64"),
        (CORE, "PodSpec", "nodeSelector", "Map(String)"),
        (CORE, "ResourceRequirements", "limits", "Map(Quantity)"),
        (CORE, "Secret", "data", "Map(Bytes)"),
        (CORE, "HTTPGetAction", "port", "IntOrString"),
        (CORE, "DaemonEndpoint", "Port", "Int32"),
        (CORE, "Event", "eventTime", "MicroTime"),
        (CORE, "Event", "firstTimestamp", "Time"),
        (META, "ObjectMeta", "creationTimestamp", "Time"),
        (EXTENSIONS, "JSONSchemaProps", "items", "Either(JSONSchemaProps)"),
        (EXTENSIONS, "JSONSchemaProps", "not", "Struct(JSONSchemaProps)"),
        (EXTENSIONS, "JSONSchemaProps", "default", "Json"),
        (META, "ManagedFieldsEntry", "fieldsV1", "Json"),
        ("io.k8s.api.apps.v1.", "ControllerRevision", "data", "Json"),
        ("io.k8s.api.authentication.v1.", "UserInfo", "extra", "Map(List(String))"),
        ("io.k8s.api.storage.v1.", "StorageClass", "allowVolumeExpansion", "Bool"),
    ];
    for (prefix, ty, name, want) in cases {
        assert_eq!(shape_text(&field(&format!("{prefix}{ty}"), name).shape), want, "{ty}.{name}");
    }
}

fn shape_text(shape: &Shape) -> String {
    match shape {
        Shape::Struct(id) => format!("Struct({})", types().get(*id).short_name),
        Shape::Map(inner) => format!("Map({})", shape_text(inner)),
        Shape::List(inner) => format!("List({})", shape_text(inner)),
        Shape::Scalar(scalar) => format!("{scalar:?}"),
        Shape::Json => "Json".to_owned(),
        Shape::Either(id) => format!("Either({})", types().get(*id).short_name),
        Shape::Inline(ty) => format!("Inline({})", ty.short_name),
        Shape::Deduced => "Deduced".to_owned(),
    }
}

#[test]
fn presence_matches_the_struct_tags() {
    let cases = [
        ("PodSpec", "automountServiceAccountToken", Presence::Pointer, false),
        ("PersistentVolumeClaimSpec", "storageClassName", Presence::Pointer, false),
        ("PersistentVolumeClaimSpec", "resources", Presence::Always, false),
        ("PersistentVolumeSpec", "storageClassName", Presence::OmitEmpty, false),
        ("PodSpec", "containers", Presence::Always, true),
        ("PodSpec", "hostNetwork", Presence::OmitEmpty, false),
        ("Event", "firstTimestamp", Presence::Always, true),
        ("Event", "reportingInstance", Presence::Always, false),
        ("Toleration", "tolerationSeconds", Presence::Pointer, false),
        ("ReplicationControllerStatus", "replicas", Presence::Always, false),
        ("HostPathVolumeSource", "type", Presence::Pointer, false),
    ];
    for (ty, name, presence, nullable) in cases {
        let field = field(&format!("{CORE}{ty}"), name);
        assert_eq!((field.presence, field.nullable), (presence, nullable), "{ty}.{name}");
    }
}

#[test]
fn merge_rules_match_the_struct_tags() {
    let merge = |ty: &str, name: &str| field(&format!("{CORE}{ty}"), name).merge.clone();
    let ports = merge("Container", "ports");
    assert_eq!(ports.strategic, Strategic::MergeBy("containerPort".into()));
    assert_eq!(ports.list_type, Some(ListType::Map(vec!["containerPort".into(), "protocol".into()])));
    let volumes = merge("PodSpec", "volumes");
    assert!(volumes.retain_keys);
    assert_eq!(volumes.strategic, Strategic::MergeBy("name".into()));
    assert_eq!(merge("Container", "args").list_type, Some(ListType::Atomic));
    assert_eq!(merge("Container", "args").strategic, Strategic::Replace);
    assert_eq!(merge("NodeSpec", "podCIDRs").strategic, Strategic::MergeSet);
    assert!(merge("PodSpec", "nodeSelector").atomic_map);
    assert!(merge("PersistentVolumeSpec", "claimRef").granular);
    assert_eq!(merge("PodSpec", "nodeSelector").list_type, None);
    let finalizers = &field(&format!("{META}ObjectMeta"), "finalizers").merge;
    assert_eq!((&finalizers.strategic, &finalizers.list_type), (&Strategic::MergeSet, &Some(ListType::Set)));
    for (name, atomic) in [("LocalObjectReference", true), ("ObjectReference", true), ("Container", false)] {
        let id = types().named(&format!("{CORE}{name}")).expect("a known type");
        assert_eq!(types().get(id).atomic, atomic, "{name}");
    }
}

#[test]
fn inlined_messages_have_field_numbers() {
    let volume = types().get(types().named(&format!("{CORE}Volume")).expect("a known type"));
    let Some(Numbered::Inline(sources)) = volume.numbers.get(&2) else {
        panic!("{:?}", volume.numbers.get(&2))
    };
    assert!(matches!(sources.get(&19), Some(Numbered::Field(name)) if name == "configMap"));
    assert!(matches!(volume.numbers.get(&1), Some(Numbered::Field(name)) if name == "name"));
}
