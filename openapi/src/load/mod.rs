//! Builder of the type arena, from the JSON schemas of `k8s-openapi` and the tables of facts.

use std::sync::LazyLock;

use k8s_openapi::api::{
    admissionregistration::v1 as admissionregistration, apps::v1 as apps,
    authentication::v1 as authentication, authorization::v1 as authorization, autoscaling::v1 as autoscaling,
    autoscaling::v2 as autoscaling_v2, batch::v1 as batch, certificates::v1 as certificates,
    coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery, events::v1 as events,
    flowcontrol::v1 as flowcontrol, networking::v1 as networking, node::v1 as node, policy::v1 as policy,
    rbac::v1 as rbac, resource::v1 as resource, scheduling::v1 as scheduling, storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::facts::{self, FieldFacts, TypeFacts};
use crate::shape::{
    ByName, ByNumber, Field, ListType, Merge, Numbered, Presence, Scalar, Shape, Strategic, StructType,
    TypeId, Types,
};

/// The type of objects with only the metadata known: those of custom kinds.
pub const OPEN_OBJECT: &str = "orlop.OpenObject";

/// The arena of all types that the server knows, built on first use.
pub fn types() -> &'static Types {
    static TYPES: LazyLock<Types> = LazyLock::new(build);
    &TYPES
}

/// The schemas of the kinds and of every type they use, by schema name.
fn definitions() -> serde_json::Map<String, Value> {
    macro_rules! roots {
        ($generator:expr, $($root:ty),+ $(,)?) => { $($generator.subschema_for::<$root>();)+ };
    }
    let mut generator = SchemaGenerator::new(SchemaSettings::draft2020_12());
    roots!(
        generator,
        admissionregistration::MutatingAdmissionPolicy,
        admissionregistration::MutatingAdmissionPolicyBinding,
        admissionregistration::MutatingWebhookConfiguration,
        admissionregistration::ValidatingAdmissionPolicy,
        admissionregistration::ValidatingAdmissionPolicyBinding,
        admissionregistration::ValidatingWebhookConfiguration,
        core::Binding,
        core::ComponentStatus,
        core::ConfigMap,
        core::Endpoints,
        core::Event,
        core::LimitRange,
        core::Namespace,
        core::Node,
        core::PersistentVolume,
        core::PersistentVolumeClaim,
        core::Pod,
        core::PodTemplate,
        core::ReplicationController,
        core::ResourceQuota,
        core::Secret,
        core::Service,
        core::ServiceAccount,
        apiextensions::CustomResourceDefinition,
        apiregistration::APIService,
        apps::ControllerRevision,
        apps::DaemonSet,
        apps::Deployment,
        apps::ReplicaSet,
        apps::StatefulSet,
        authentication::SelfSubjectReview,
        authentication::TokenRequest,
        authentication::TokenReview,
        authorization::LocalSubjectAccessReview,
        authorization::SelfSubjectAccessReview,
        authorization::SelfSubjectRulesReview,
        authorization::SubjectAccessReview,
        autoscaling::HorizontalPodAutoscaler,
        autoscaling::Scale,
        autoscaling_v2::HorizontalPodAutoscaler,
        batch::CronJob,
        batch::Job,
        certificates::CertificateSigningRequest,
        coordination::Lease,
        discovery::EndpointSlice,
        events::Event,
        flowcontrol::FlowSchema,
        flowcontrol::PriorityLevelConfiguration,
        networking::IPAddress,
        networking::Ingress,
        networking::IngressClass,
        networking::NetworkPolicy,
        networking::ServiceCIDR,
        node::RuntimeClass,
        policy::Eviction,
        policy::PodDisruptionBudget,
        rbac::ClusterRole,
        rbac::ClusterRoleBinding,
        rbac::Role,
        rbac::RoleBinding,
        resource::DeviceClass,
        resource::ResourceClaim,
        resource::ResourceClaimTemplate,
        resource::ResourceSlice,
        scheduling::PriorityClass,
        storage::CSIDriver,
        storage::CSINode,
        storage::CSIStorageCapacity,
        storage::StorageClass,
        storage::VolumeAttachment,
        storage::VolumeAttributesClass,
        meta::APIGroupList,
        meta::APIResourceList,
        meta::APIVersions,
        meta::DeleteOptions,
        meta::ListMeta,
        meta::Status,
    );
    generator.take_definitions(true)
}

fn build() -> Types {
    let definitions = definitions();
    let facts = facts::load();
    let mut types = Types::default();
    let structs = definitions.iter().filter(|(name, schema)| is_struct(name, schema));
    for (index, (name, _)) in structs.clone().enumerate() {
        let id = u32::try_from(index).expect("there are a few hundred types");
        types.by_name.insert(name.clone(), TypeId(id));
    }
    let loader = Loader { by_name: &types.by_name, none: FieldFacts::default() };
    let mut arena: Vec<StructType> =
        structs.map(|(name, schema)| loader.struct_type(name, schema, facts.get(name))).collect();
    let open = loader.open_object();
    let id = u32::try_from(arena.len()).expect("there are a few hundred types");
    arena.push(open);
    types.arena = arena;
    types.by_name.insert(OPEN_OBJECT.to_owned(), TypeId(id));
    types
}

/// Whether a definition is a struct: it has properties, or is an object without any (some sources
/// have no fields) and not one of the free-form objects.
fn is_struct(name: &str, schema: &Value) -> bool {
    named_shape(name).is_none() && schema["type"] == "object"
}

/// The shape of a definition that is not a struct.
fn named_shape(name: &str) -> Option<Shape> {
    Some(match name.rsplit_once('.').map_or(name, |(_, last)| last) {
        "Quantity" => Shape::Scalar(Scalar::Quantity),
        "IntOrString" => Shape::Scalar(Scalar::IntOrString),
        "Time" => Shape::Scalar(Scalar::Time),
        "MicroTime" => Shape::Scalar(Scalar::MicroTime),
        "RawExtension" | "FieldsV1" | "JSON" => Shape::Json,
        _ => return None,
    })
}

/// The struct that is one of several alternatives of a definition, such as `JSONSchemaPropsOrArray`.
fn either(name: &str) -> Option<&str> {
    ["OrArray", "OrBool", "OrStringArray"].iter().find_map(|end| name.strip_suffix(end))
}

struct Loader<'a> {
    by_name: &'a ByName<TypeId>,
    none: FieldFacts,
}

impl Loader<'_> {
    fn open_object(&self) -> StructType {
        let meta = "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        let schema = serde_json::json!({"type": "object", "properties": {"metadata": {"$ref": meta}}});
        StructType { open: true, ..self.struct_type(OPEN_OBJECT, &schema, None) }
    }

    fn struct_type(&self, name: &str, schema: &Value, facts: Option<&TypeFacts>) -> StructType {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut fields = ByName::default();
        let mut order = Vec::new();
        let mut numbers = ByNumber::default();
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            let known = facts.and_then(|facts| facts.fields.get(field.as_str()));
            if let Some(known) = known {
                add_number(&mut numbers, field, known);
            }
            order.push(field.clone());
            // k8s-openapi marks metadata as required wherever its own field is not optional; upstream only that of core
            // events.
            let is_required = required.contains(&field.as_str())
                && (field != "metadata" || name == "io.k8s.api.core.v1.Event");
            fields.insert(field.clone(), self.field(field, schema, known, is_required));
        }
        order.sort_unstable();
        let is_always = |name: &&String| fields[name.as_str()].presence == Presence::Always;
        let always = order.iter().filter(is_always).cloned().collect();
        StructType {
            name: name.to_owned(),
            short_name: name.rsplit_once('.').map_or(name, |(_, last)| last).to_owned(),
            description: text(schema, "description"),
            fields,
            order,
            always,
            atomic: facts.is_some_and(|facts| facts.atomic),
            numbers,
            open: false,
        }
    }

    fn field(&self, name: &str, schema: &Value, known: Option<&FieldFacts>, required: bool) -> Field {
        let shape = self.shape(schema);
        let facts = known.unwrap_or(&self.none);
        let list_type = match shape {
            Shape::List(_) => Some(facts.list_type.clone().unwrap_or(ListType::Atomic)),
            Shape::Struct(_)
            | Shape::Map(_)
            | Shape::Scalar(_)
            | Shape::Json
            | Shape::Either(_)
            | Shape::Inline(_)
            | Shape::Deduced => None,
        };
        Field {
            name: name.to_owned(),
            presence: facts.presence,
            nullable: facts.nullable,
            merge: Merge {
                strategic: facts.strategic.clone(),
                retain_keys: facts.retain_keys,
                list_type,
                atomic_map: facts.atomic == Some(true),
                granular: facts.atomic == Some(false),
            },
            number: known.map(|facts| facts.number),
            description: text(schema, "description"),
            required,
            default: None,
            shape,
        }
    }

    fn shape(&self, schema: &Value) -> Shape {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.strip_prefix("#/$defs/").unwrap_or(reference);
            if let Some(shape) = named_shape(name) {
                return shape;
            }
            if let Some(id) = either(name).and_then(|name| self.by_name.get(name)) {
                return Shape::Either(*id);
            }
            return self.by_name.get(name).map_or(Shape::Json, |id| Shape::Struct(*id));
        }
        let format = schema["format"].as_str().unwrap_or_default();
        match schema["type"].as_str().unwrap_or_default() {
            "array" => Shape::List(Box::new(self.shape(&schema["items"]))),
            "object" if schema["additionalProperties"].is_object() => {
                Shape::Map(Box::new(self.shape(&schema["additionalProperties"])))
            }
            "string" if format == "byte" => Shape::Scalar(Scalar::Bytes),
            "string" => Shape::Scalar(Scalar::String),
            "boolean" => Shape::Scalar(Scalar::Bool),
            "integer" if format == "int64" => Shape::Scalar(Scalar::Int64),
            "integer" => Shape::Scalar(Scalar::Int32),
            "number" => Shape::Scalar(Scalar::Float),
            _ => Shape::Json,
        }
    }
}

fn add_number(numbers: &mut ByNumber<Numbered>, field: &str, facts: &FieldFacts) {
    let mut numbers = numbers;
    for outer in &facts.outer {
        let nested = numbers.entry(*outer).or_insert_with(|| Numbered::Inline(ByNumber::default()));
        let Numbered::Inline(inner) = nested else { return };
        numbers = inner;
    }
    numbers.insert(facts.number, Numbered::Field(field.to_owned()));
}

fn text(schema: &Value, key: &str) -> String {
    schema[key].as_str().unwrap_or_default().to_owned()
}

impl Default for FieldFacts {
    fn default() -> Self {
        FieldFacts {
            number: 0,
            outer: Vec::new(),
            presence: Presence::OmitEmpty,
            nullable: false,
            strategic: Strategic::Replace,
            retain_keys: false,
            list_type: None,
            atomic: None,
        }
    }
}

#[cfg(test)]
mod tests;
