//! OpenAPI v3 documents, one per group and version.
//!
//! They are built from utoipa's types, with two differences, because
//! Kubernetes clients read OpenAPI 3.0: the version, and references, which may have no
//! sibling fields there and are therefore wrapped in an `allOf`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use utoipa::openapi::schema::{
    AdditionalProperties, AllOfBuilder, ArrayBuilder, ComponentsBuilder, Object, ObjectBuilder, OneOfBuilder,
    SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{InfoBuilder, Ref, RefOr, Schema};

use crate::extensions::extensions;
use crate::resource::{GVK, ResourceDoc};
use crate::schemas::{
    LIST_META, NAMED_SCALARS, kinds_of_schemas, merge_extensions, own_schema, reachable, scalar_schema,
    type_and_format,
};
use crate::shape::{Field, Scalar, Shape, StructType};
use crate::{operations, responses, types};

/// The version of OpenAPI that the documents follow.
const VERSION: &str = "3.0.0";

/// Parts of a document, as JSON. A document with thousands of custom kinds would need a hundred times the memory as values.
type Parts = BTreeMap<String, Box<RawValue>>;

/// The document of resources of one group and version, as JSON.
pub(crate) fn document(resources: &[&ResourceDoc]) -> Vec<u8> {
    write(resources).unwrap_or_default()
}

fn write(resources: &[&ResourceDoc]) -> serde_json::Result<Vec<u8>> {
    let mut paths = Parts::new();
    for resource in resources {
        insert_all(&mut paths, &serde_json::to_value(operations::paths(&[resource]))?)?;
    }
    let mut components = serde_json::to_value(components(resources).build())?;
    let mut schemas = Parts::new();
    insert_all(&mut schemas, &components["schemas"].take())?;
    let kinds = kinds_of_schemas(resources.iter().copied());
    for resource in resources {
        let name = format!("{}List", resource.schema);
        let kinds = kinds.get(&name).map(|kinds| (GVK, json!(kinds)));
        schemas.insert(name, text(&serde_json::to_value(list(resource, kinds))?)?);
    }
    for resource in resources {
        let reference = |name: &str| json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]});
        if let Some(schema) = own_schema(resource, reference) {
            schemas.insert(resource.schema.to_owned(), text(&schema)?);
        }
    }
    let mut parts = Parts::new();
    insert_all(&mut parts, &components)?;
    parts.insert("schemas".to_owned(), text(&schemas)?);
    let info = InfoBuilder::new().title("Kubernetes").version("v1.36.0").build();
    let document = Parts::from([
        ("components".to_owned(), text(&parts)?),
        ("info".to_owned(), text(&serde_json::to_value(info)?)?),
        ("openapi".to_owned(), text(&VERSION)?),
        ("paths".to_owned(), text(&paths)?),
    ]);
    serde_json::to_vec(&document)
}

fn text(value: &impl Serialize) -> serde_json::Result<Box<RawValue>> {
    to_raw_value(value)
}

fn insert_all(parts: &mut Parts, members: &Value) -> serde_json::Result<()> {
    for (name, value) in members.as_object().into_iter().flatten() {
        parts.insert(name.clone(), text(value)?);
    }
    Ok(())
}

/// The components except the schemas of resources and their lists.
fn components(resources: &[&ResourceDoc]) -> ComponentsBuilder {
    let kinds = kinds_of_schemas(resources.iter().copied());
    let kinds_of = |name: &str| kinds.get(name).map(|kinds| (GVK, json!(kinds)));
    let mut components = responses::components(ComponentsBuilder::new());
    for name in reachable(resources.iter().copied()) {
        if let Some(id) = types().named(name) {
            components = components.schema(name, structure(types().get(id), kinds_of(name)));
        }
    }
    for (scalar, description) in NAMED_SCALARS {
        if let Some(name) = scalar_schema(*scalar) {
            components = components.schema(name, named_scalar(*scalar, description));
        }
    }
    components
}

fn structure(ty: &'static StructType, kinds: Option<(&str, Value)>) -> Schema {
    let mut object = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::Object))
        .description(some_text(&ty.description));
    for name in &ty.order {
        if let Some(field) = ty.field(name) {
            object = object.property(name, property(field));
            if field.required {
                object = object.required(name);
            }
        }
    }
    let atomic = ty.atomic.then(|| ("x-kubernetes-map-type", "atomic".into()));
    Schema::Object(object.extensions(extensions(kinds.into_iter().chain(atomic))).build())
}

/// The list kind of a resource.
fn list(resource: &ResourceDoc, kinds: Option<(&str, Value)>) -> Schema {
    let text = |description: &str| {
        let text = ObjectBuilder::new().schema_type(SchemaType::new(Type::String));
        text.description(Some(description)).build()
    };
    let items = ArrayBuilder::new()
        .items(Ref::from_schema_name(resource.schema))
        .description(Some(format!("The objects of kind {}.", resource.kind)));
    let metadata = AllOfBuilder::new()
        .item(Ref::from_schema_name(LIST_META))
        .description(Some("Metadata of the list: the revision it was read at and how to read on."));
    let list = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::Object))
        .description(Some(format!("{}List is a list of objects of kind {0}.", resource.kind)))
        .property("apiVersion", text("The group and version of this representation."))
        .property("kind", text("The kind of this list."))
        .property("metadata", Schema::AllOf(metadata.build()))
        .property("items", items.build())
        .required("items");
    Schema::Object(list.extensions(extensions(kinds)).build())
}

fn named_scalar(scalar: Scalar, description: &str) -> Schema {
    let plain = |kind: Type| Object::with_type(SchemaType::new(kind));
    let either = |other: Type| {
        let one_of = OneOfBuilder::new().item(plain(other)).item(plain(Type::String));
        one_of.description(Some(description.to_owned()))
    };
    match scalar {
        Scalar::Quantity => Schema::OneOf(either(Type::Number).build()),
        Scalar::IntOrString => {
            let format = extensions([("format", "int-or-string".into())]);
            Schema::OneOf(either(Type::Integer).extensions(format).build())
        }
        Scalar::String
        | Scalar::Bytes
        | Scalar::Bool
        | Scalar::Int32
        | Scalar::Int64
        | Scalar::Float
        | Scalar::Time
        | Scalar::MicroTime => {
            Schema::Object(plain_scalar(scalar).description(Some(description.to_owned())).build())
        }
    }
}

fn plain_scalar(scalar: Scalar) -> ObjectBuilder {
    let (name, format) = type_and_format(scalar);
    let kind = match name {
        "boolean" => Type::Boolean,
        "integer" => Type::Integer,
        "number" => Type::Number,
        _ => Type::String,
    };
    let format = format.map(|format| SchemaFormat::Custom(format.to_owned()));
    ObjectBuilder::new().schema_type(SchemaType::new(kind)).format(format)
}

/// A field, with its description and merge extensions.
fn property(field: &'static Field) -> RefOr<Schema> {
    let description = some_text(&field.description);
    let extensions = extensions(merge_extensions(field));
    match shape(&field.shape) {
        RefOr::Ref(reference) => {
            let all_of = AllOfBuilder::new().item(reference).description(description).extensions(extensions);
            RefOr::T(Schema::AllOf(all_of.build()))
        }
        RefOr::T(Schema::Array(mut array)) => {
            array.description = description;
            array.extensions = extensions;
            RefOr::T(Schema::Array(array))
        }
        RefOr::T(Schema::Object(mut object)) => {
            object.description = description;
            object.extensions = extensions;
            RefOr::T(Schema::Object(object))
        }
        RefOr::T(other) => RefOr::T(other),
    }
}

fn shape(shape: &'static Shape) -> RefOr<Schema> {
    match shape {
        Shape::Struct(id) => RefOr::Ref(Ref::from_schema_name(types().get(*id).name.as_str())),
        Shape::List(inner) => RefOr::T(Schema::Array(ArrayBuilder::new().items(self::shape(inner)).build())),
        Shape::Map(inner) => {
            let map = ObjectBuilder::new().schema_type(SchemaType::new(Type::Object));
            let values: AdditionalProperties<Schema> = AdditionalProperties::RefOr(self::shape(inner));
            RefOr::T(Schema::Object(map.additional_properties(Some(values)).build()))
        }
        Shape::Scalar(scalar) => match scalar_schema(*scalar) {
            Some(name) => RefOr::Ref(Ref::from_schema_name(name)),
            None => RefOr::T(Schema::Object(plain_scalar(*scalar).build())),
        },
        Shape::Either(_) | Shape::Inline(_) | Shape::Deduced => {
            RefOr::T(Schema::Object(Object::with_type(SchemaType::AnyValue)))
        }
        Shape::Json => {
            let object = ObjectBuilder::new().schema_type(SchemaType::new(Type::Object));
            RefOr::T(Schema::Object(object.build()))
        }
    }
}

fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
