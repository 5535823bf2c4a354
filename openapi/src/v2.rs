//! The OpenAPI v2 document, with which kubectl before 1.27 validates and explains.
//!
//! Those clients read the definitions, and of the paths only the properties of PATCH, so the document
//! contains nothing else.

use serde_json::{Map, Value, json};

use crate::facts::{document_default, values};
use crate::resource::{GVK, ResourceDoc};
use crate::schemas::{
    LIST_META, NAMED_SCALARS, kinds_of_schemas, merge_extensions, own_schema, reachable, scalar_schema,
    type_and_format,
};
use crate::shape::{Field, Shape, StructType};
use crate::types;

/// Builds the document.
pub(crate) fn document(resources: &[ResourceDoc]) -> Value {
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": "v1.36.0" },
        "paths": paths(resources),
        "definitions": definitions(resources),
    })
}

/// One entry per resource that can be patched.
fn paths(resources: &[ResourceDoc]) -> Map<String, Value> {
    let can_patch = resources.iter().filter(|resource| resource.verbs.contains(&"patch"));
    can_patch
        .map(|resource| {
            let query = |name: &str| json!({ "in": "query", "name": name, "type": "string" });
            let operation = json!({
                "parameters": [query("dryRun"), query("fieldManager"), query("fieldValidation")],
                "responses": { "200": { "description": "OK" } },
                GVK: resource.gvk(),
            });
            (format!("{}/{{name}}", resource.collection_path()), json!({ "patch": operation }))
        })
        .collect()
}

fn definitions(resources: &[ResourceDoc]) -> Map<String, Value> {
    let kinds = kinds_of_schemas(resources.iter());
    let mut definitions = Map::new();
    for name in reachable(resources.iter()) {
        if let Some(id) = types().named(name) {
            definitions.insert(name.to_owned(), structure(types().get(id)));
        }
    }
    for resource in resources {
        if let Some(mut schema) = own_schema(resource, |name, _| reference(name)) {
            if schema["x-kubernetes-preserve-unknown-fields"] == true {
                // Clients that read this document would reject fields that a declared property does not list.
                schema = json!({"type": "object"});
            }
            only_v2(&mut schema);
            definitions.insert(resource.schema.to_owned(), schema);
        }
    }
    for resource in resources {
        let list = json!({
            "description": format!("{}List is a list of objects of kind {0}.", resource.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": { "type": "string" },
                "kind": { "type": "string" },
                "metadata": reference(LIST_META),
                "items": { "type": "array", "items": reference(resource.schema) },
            },
        });
        definitions.insert(format!("{}List", resource.schema), list);
    }
    for (scalar, description) in NAMED_SCALARS {
        if let Some(name) = scalar_schema(*scalar) {
            let (kind, format) = type_and_format(*scalar);
            definitions.insert(name.to_owned(), typed(kind, format, description));
        }
    }
    for (name, kinds) in kinds {
        if let Some(definition) = definitions.get_mut(&name) {
            definition[GVK] = kinds.into();
        }
    }
    definitions
}

/// Removes what v2 schemas do not support.
fn only_v2(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    for name in ["nullable", "oneOf", "anyOf", "allOf", "not", "x-kubernetes-validations"] {
        map.remove(name);
    }
    if map.get("x-kubernetes-int-or-string").is_some_and(|flag| flag == true) {
        map.remove("type");
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(name) {
            only_v2(inner);
        }
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(only_v2);
    }
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
    if let Some(default) = document_default(ty, field) {
        schema["default"] = default;
    }
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
