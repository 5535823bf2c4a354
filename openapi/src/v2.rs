//! The OpenAPI v2 document, with which kubectl before 1.27 validates and explains.

use serde_json::{Map, Value, json};

use crate::endpoints::version_info;
use crate::facts::values;
use crate::gnostic;
use crate::head::{BEARER_TOKEN, info, security_schemes};
use crate::operations;
use crate::operations::discovery::{self, API_GROUP_LIST, API_VERSIONS, VERSION_INFO};
use crate::parts::Parts;
use crate::resource::{GVK, ResourceDoc, SELECTABLE, groups, versions};
use crate::schemas::{
    LIST_META, NAMED_SCALARS, PATCH, RAW_EXTENSION, WATCH_EVENT, kinds_of_schemas, merge_extensions,
    own_schema, reachable, reachable_from, scalar_schema, type_and_format,
};
use crate::shape::{Field, Shape, StructType};
use crate::types;

/// Builds the document as JSON.
pub(crate) fn json(resources: &[ResourceDoc]) -> serde_json::Result<Vec<u8>> {
    let (mut paths, mut definitions) = (Parts::default(), Parts::default());
    self::paths(resources).try_for_each(|(path, item)| paths.insert(path, &item))?;
    self::definitions(resources).try_for_each(|(name, schema)| definitions.insert(name, &schema))?;
    let mut document = Parts::default();
    document.insert_all(&head())?;
    document.insert("paths", &paths)?;
    document.insert("definitions", &definitions)?;
    document.to_json()
}

/// Builds the document in protobuf.
pub(crate) fn protobuf(resources: &[ResourceDoc]) -> Vec<u8> {
    let mut encoder = gnostic::v2::Encoder::default();
    paths(resources).for_each(|(path, item)| encoder.path(path, &item));
    definitions(resources).for_each(|(name, schema)| encoder.definition(name, &schema));
    encoder.finish(&head())
}

/// The document without paths and definitions.
fn head() -> Value {
    json!({
        "swagger": "2.0",
        "info": info(),
        "parameters": operations::v2::shared_parameters(),
        "security": [{BEARER_TOKEN: []}],
        "securityDefinitions": security_schemes(),
    })
}

fn paths(resources: &[ResourceDoc]) -> impl Iterator<Item = (String, Value)> {
    let mut general = vec![
        discovery::core_versions(),
        discovery::groups(),
        discovery::version(),
        discovery::issuer(),
        discovery::keys(),
    ];
    general.extend(groups(resources).into_iter().map(discovery::group));
    general
        .extend(versions(resources).into_iter().map(|(group, version)| discovery::resources(group, version)));
    let of_resources =
        resources.iter().flat_map(|resource| operations::v2::paths(&operations::routes(resource)));
    operations::v2::paths(&general).into_iter().chain(of_resources)
}

/// The definitions. A later one replaces an earlier one with the same name.
fn definitions(resources: &[ResourceDoc]) -> impl Iterator<Item = (String, Value)> {
    let kinds = kinds_of_schemas(resources.iter());
    let mut names = reachable(resources.iter());
    names.extend(reachable_from(vec![API_VERSIONS, API_GROUP_LIST]));
    let structs = names.into_iter().filter_map(|name| {
        let id = types().named(name)?;
        Some((name.to_owned(), structure(types().get(id))))
    });
    let own = resources.iter().filter_map(|resource| {
        let mut schema = own_schema(resource, |name, _| reference(name), Some(only_v2))?;
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            // Clients that read this document would reject fields that a declared property does not list.
            schema = json!({"type": "object"});
        }
        Some((resource.schema.to_owned(), schema))
    });
    let lists = resources.iter().filter(|resource| resource.has_list()).map(list);
    let scalars = NAMED_SCALARS.iter().filter_map(|(scalar, description)| {
        let (kind, format) = type_and_format(*scalar);
        Some((scalar_schema(*scalar)?.to_owned(), typed(kind, format, description)))
    });
    let all = structs.chain(own).chain(lists).chain(scalars).chain(free_forms());
    all.map(move |(name, mut definition)| {
        remove_defaults(&mut definition);
        if let Some(kinds) = kinds.get(&name) {
            definition[GVK] = kinds.clone().into();
        }
        (name, definition)
    })
}

fn list(resource: &ResourceDoc) -> (String, Value) {
    let mut list = json!({
        "description": format!("{} is a list of objects of kind {}.", resource.list_kind, resource.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": reference(LIST_META),
            "items": { "type": "array", "items": reference(resource.schema) },
        },
    });
    if let Some(fields) = resource.selectable_fields() {
        list[SELECTABLE] = fields;
    }
    (resource.list_schema(), list)
}

/// The definitions with a free form, that of watch events and that of the version.
fn free_forms() -> [(String, Value); 4] {
    let object = |description: &str| typed("object", None, description);
    let mut event = object("An event of a watch.");
    event["required"] = json!(["type", "object"]);
    event["properties"] = json!({"type": {"type": "string"}, "object": reference(RAW_EXTENSION)});
    let patch = object("A patch, in the format of its media type.");
    [
        (PATCH.to_owned(), patch),
        (RAW_EXTENSION.to_owned(), object("An object of any kind.")),
        (WATCH_EVENT.to_owned(), event),
        (VERSION_INFO.to_owned(), version_info()),
    ]
}

/// Removes what v2 schemas do not support, and what kubectl cannot read: a value that may be `null`, or may have unknown
/// fields, has no type (upstream: apiextensions-apiserver `pkg/controller/openapi/v2`).
fn only_v2(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    for name in ["oneOf", "anyOf", "allOf", "not", "x-kubernetes-validations"] {
        map.remove(name);
    }
    let is_nullable = map.remove("nullable").is_some_and(|flag| flag == true);
    let has = |name: &str| map.get(name).is_some_and(|flag| flag == true);
    let is_open = has("x-kubernetes-preserve-unknown-fields");
    let is_type = |name: &str| map.get("type").is_some_and(|ty| ty == name);
    let is_list_of_anything = is_type("array") && (is_open || !map.contains_key("items"));
    let has_no_type = is_nullable
        || has("x-kubernetes-int-or-string")
        || is_list_of_anything
        || (is_open && is_type("object"));
    if is_nullable || is_open {
        map.remove("items");
        map.remove("properties");
    }
    if has_no_type {
        map.remove("type");
    }
    forget_nullable(map);
    below(map).for_each(only_v2);
}

/// Removes the names of values that may be `null` from the required ones.
fn forget_nullable(map: &mut Map<String, Value>) {
    let nullable = |schema: Option<&Value>| schema.is_some_and(|schema| schema["nullable"] == true);
    if nullable(map.get("additionalProperties")) {
        map.remove("required");
    }
    let Some(Value::Array(required)) = map.get("required") else { return };
    let property = |name: &Value| map.get("properties")?.get(name.as_str()?);
    let left: Vec<Value> = required.iter().filter(|name| !nullable(property(name))).cloned().collect();
    match left.is_empty() {
        true => map.remove("required"),
        false => map.insert("required".to_owned(), left.into()),
    };
}

/// Removes the defaults, which upstream's v2 document does not contain.
fn remove_defaults(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    map.remove("default");
    below(map).for_each(remove_defaults);
}

/// The schemas directly below a schema.
fn below(map: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    map.iter_mut().flat_map(|(name, inner)| match (name.as_str(), inner) {
        ("items" | "additionalProperties", inner) => vec![inner],
        ("properties", Value::Object(properties)) => properties.values_mut().collect(),
        _ => Vec::new(),
    })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{name}") })
}

fn typed(kind: &str, format: Option<&str>, description: &str) -> Value {
    let mut schema = json!({ "type": kind });
    if let Some(format) = format {
        schema["format"] = format.into();
    }
    if !description.is_empty() {
        schema["description"] = description.into();
    }
    schema
}

fn structure(ty: &'static StructType) -> Value {
    let mut schema = typed("object", None, &ty.description);
    let fields = ty.order.iter().filter_map(|name| ty.field(name));
    let properties: Map<String, Value> =
        fields.clone().map(|field| (field.name.clone(), property(ty, field))).collect();
    let required: Vec<&str> =
        fields.filter(|field| field.required).map(|field| field.name.as_str()).collect();
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    if ty.atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    schema
}

fn property(ty: &'static StructType, field: &'static Field) -> Value {
    let mut schema = shape(&field.shape);
    if let Some(values) = values(ty, field).filter(|values| !values.allowed.is_empty()) {
        innermost(&mut schema)["enum"] = json!(values.allowed);
    }
    if !field.description.is_empty() {
        schema["description"] = field.description.as_str().into();
    }
    for (name, value) in merge_extensions(field) {
        schema[name] = value;
    }
    schema
}

/// The schema of the innermost values of a list or a map.
fn innermost(schema: &mut Value) -> &mut Value {
    let name = if schema["items"].is_object() { "items" } else { "additionalProperties" };
    if schema[name].is_object() { innermost(&mut schema[name]) } else { schema }
}

fn shape(shape: &'static Shape) -> Value {
    match shape {
        Shape::Struct(id) => reference(&types().get(*id).name),
        Shape::List(inner) => json!({ "type": "array", "items": self::shape(inner) }),
        Shape::Map(inner) => json!({ "type": "object", "additionalProperties": self::shape(inner) }),
        Shape::Scalar(scalar) => match scalar_schema(*scalar) {
            Some(name) => reference(name),
            None => {
                let (kind, format) = type_and_format(*scalar);
                typed(kind, format, "")
            }
        },
        Shape::Json => json!({ "type": "object" }),
        Shape::Either(_) | Shape::Inline(_) | Shape::Deduced => json!({}),
    }
}
