//! OpenAPI v3 documents, one per group and version.
//!
//! They are built from utoipa's types, with two differences, because
//! Kubernetes clients read OpenAPI 3.0: the version, and references, which may have no
//! sibling fields there and are therefore wrapped in an `allOf`.

use serde_json::{Value, json};
use utoipa::openapi::schema::{
    AdditionalProperties, AllOfBuilder, ArrayBuilder, ComponentsBuilder, Object, ObjectBuilder, OneOfBuilder,
    SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr, Schema};

use crate::extensions::extensions;
use crate::facts::{document_default, values};
use crate::head::{VERSION, custom_info, info, security_schemes};
use crate::operations::{self, discovery};
use crate::parts::Parts;
use crate::resource::{GVK, ResourceDoc, SELECTABLE};
use crate::schemas::{
    ABOUT_API_VERSION, ABOUT_KIND, CONVENTIONS, LIST_META, NAMED_SCALARS, PATCH, RAW_EXTENSION, WATCH_EVENT,
    kinds_of_schemas, merge_extensions, own_schema, reachable, scalar_schema, type_and_format,
};
use crate::shape::{Field, Scalar, Shape, StructType};
use crate::types;

/// The document of resources of one group and version, as JSON.
pub(crate) fn document(resources: &[&ResourceDoc]) -> Vec<u8> {
    write(resources).unwrap_or_default()
}

fn write(resources: &[&ResourceDoc]) -> serde_json::Result<Vec<u8>> {
    let builtin = resources.iter().find(|resource| resource.own_schema.is_none());
    let mut paths = Parts::default();
    if let Some(ResourceDoc { group, version, .. }) = builtin.copied() {
        for (path, item) in operations::v3::paths(&[discovery::resources(group, version)]) {
            paths.insert(path, &item)?;
        }
    }
    for resource in resources {
        for (path, item) in operations::v3::paths(&operations::routes(resource)) {
            paths.insert(path, &item)?;
        }
    }
    let mut schemas = Parts::default();
    schemas.insert_all(&serde_json::to_value(components(resources).build())?["schemas"])?;
    let kinds = kinds_of_schemas(resources.iter().copied());
    for resource in resources.iter().filter(|resource| resource.has_list()) {
        let name = resource.list_schema();
        let kinds = kinds.get(&name).map(|kinds| (GVK, json!(kinds)));
        schemas.insert(name, &list(resource, kinds))?;
    }
    for resource in resources {
        let reference = |name: &str, about: &str| json!({"description": about, "allOf": [{"$ref": format!("#/components/schemas/{name}")}]});
        if let Some(schema) = own_schema(resource, reference, None) {
            schemas.insert(resource.schema, &schema)?;
        }
    }
    let mut components = Parts::default();
    components.insert("schemas", &schemas)?;
    if builtin.is_some() {
        components.insert("securitySchemes", &security_schemes())?;
    }
    let info = if builtin.is_some() { info() } else { custom_info() };
    let mut document = Parts::default();
    document.insert("openapi", &VERSION)?;
    document.insert("info", &info)?;
    document.insert("paths", &paths)?;
    document.insert("components", &components)?;
    document.to_json()
}

/// The components except the schemas of resources and their lists.
fn components(resources: &[&ResourceDoc]) -> ComponentsBuilder {
    let kinds = kinds_of_schemas(resources.iter().copied());
    let kinds_of = |name: &str| kinds.get(name).map(|kinds| (GVK, json!(kinds)));
    let names = reachable(resources.iter().copied());
    let mut components = add_free_forms(ComponentsBuilder::new(), names.contains(JSON_SCHEMA));
    for name in names {
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

pub(crate) fn structure(ty: &'static StructType, kinds: Option<(&str, Value)>) -> Schema {
    let mut object = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::Object))
        .description(some_text(&ty.description));
    for name in &ty.order {
        if let Some(field) = ty.field(name) {
            object = object.property(name, property(ty, field));
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
    let is_custom = resource.own_schema.is_some();
    let text = |description: &str| {
        let text = ObjectBuilder::new().schema_type(SchemaType::new(Type::String));
        text.description(Some(description)).build()
    };
    let (kind, plural) = (resource.kind, resource.plural);
    let [about, about_items, about_metadata] = match is_custom {
        true => [
            format!("{} is a list of {kind}", resource.list_kind),
            format!("List of {plural}. More info: {CONVENTIONS}"),
            format!("Standard list metadata. More info: {CONVENTIONS}#types-kinds"),
        ],
        false => [
            format!("{} is a list of objects of kind {kind}.", resource.list_kind),
            format!("The objects of kind {kind}."),
            "Metadata of the list: the revision it was read at and how to read on.".to_owned(),
        ],
    };
    let items =
        ArrayBuilder::new().items(Ref::from_schema_name(resource.schema)).description(Some(about_items));
    let metadata = AllOfBuilder::new()
        .item(Ref::from_schema_name(LIST_META))
        .description(Some(about_metadata))
        .default((!is_custom).then(|| json!({})));
    let list = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::Object))
        .description(Some(about))
        .property("apiVersion", text(ABOUT_API_VERSION))
        .property("kind", text(ABOUT_KIND))
        .property("metadata", Schema::AllOf(metadata.build()))
        .property("items", items.build())
        .required("items");
    let selectable = resource.selectable_fields().map(|fields| (SELECTABLE, fields));
    Schema::Object(list.extensions(extensions(kinds.into_iter().chain(selectable))).build())
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

/// A field, with its description, its default, its allowed values and merge extensions.
fn property(ty: &'static StructType, field: &'static Field) -> RefOr<Schema> {
    let description = some_text(&field.description);
    let extensions = extensions(merge_extensions(field));
    let default = document_default(ty, field);
    let inner = Inner {
        allowed: values(ty, field).map_or(&[][..], |values| values.allowed.as_slice()),
        free_form: free_form(&ty.name, &field.name),
    };
    match shape(&field.shape, inner) {
        RefOr::Ref(reference) => {
            let all_of = AllOfBuilder::new().item(reference).description(description).extensions(extensions);
            RefOr::T(Schema::AllOf(all_of.default(default).build()))
        }
        RefOr::T(Schema::Array(mut array)) => {
            array.description = description;
            array.extensions = extensions;
            array.default = default;
            RefOr::T(Schema::Array(array))
        }
        RefOr::T(Schema::Object(mut object)) => {
            object.description = description;
            object.extensions = extensions;
            object.default = default;
            RefOr::T(Schema::Object(object))
        }
        RefOr::T(other) => RefOr::T(other),
    }
}

/// The properties of a field that belong to its innermost values.
#[derive(Clone, Copy)]
struct Inner {
    /// The allowed values of the scalars.
    allowed: &'static [String],
    /// The schema of values that are not structs.
    free_form: &'static str,
}

const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const JSON_SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// Schemas below [`JSON_SCHEMA`] that allow any value.
const JSON_SCHEMA_PARTS: [&str; 4] = [
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
];

/// The name of the schema of a field's values, if those have a free form.
fn free_form(ty: &str, field: &str) -> &'static str {
    let [json, or_array, or_bool, or_string_array] = JSON_SCHEMA_PARTS;
    match (ty, field) {
        (JSON_SCHEMA, "items") => or_array,
        (JSON_SCHEMA, "additionalItems" | "additionalProperties") => or_bool,
        (JSON_SCHEMA, "dependencies") => or_string_array,
        (JSON_SCHEMA, _) => json,
        (_, "fieldsV1") => FIELDS,
        (_, _) => RAW_EXTENSION,
    }
}

/// Adds the schemas with a free form, and that of watch events.
fn add_free_forms(components: ComponentsBuilder, has_json_schemas: bool) -> ComponentsBuilder {
    let object = |description: &str| {
        let object = ObjectBuilder::new().schema_type(SchemaType::new(Type::Object));
        object.description(Some(description)).build()
    };
    let text = ObjectBuilder::new().schema_type(SchemaType::new(Type::String)).default(Some(json!("")));
    let any = AllOfBuilder::new().item(Ref::from_schema_name(RAW_EXTENSION));
    let event = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::Object))
        .description(Some("An event of a watch."))
        .property("object", Schema::AllOf(any.build()))
        .property("type", text.build())
        .required("type")
        .required("object");
    let mut components = components
        .schema(FIELDS, object("A set of fields: a JSON object whose keys are the fields."))
        .schema(PATCH, object("A patch, in the format of its media type."))
        .schema(RAW_EXTENSION, object("An object of any kind."))
        .schema(WATCH_EVENT, event.build());
    for name in JSON_SCHEMA_PARTS.into_iter().filter(|_| has_json_schemas) {
        components = components.schema(name, Object::with_type(SchemaType::AnyValue));
    }
    components
}

/// The schema of a field, a list item or a map value.
fn shape(shape: &'static Shape, inner: Inner) -> RefOr<Schema> {
    match shape {
        Shape::Struct(id) => RefOr::Ref(Ref::from_schema_name(types().get(*id).name.as_str())),
        Shape::List(item) => {
            RefOr::T(Schema::Array(ArrayBuilder::new().items(self::shape(item, inner)).build()))
        }
        Shape::Map(value) => {
            let map = ObjectBuilder::new().schema_type(SchemaType::new(Type::Object));
            let values: AdditionalProperties<Schema> = AdditionalProperties::RefOr(self::shape(value, inner));
            RefOr::T(Schema::Object(map.additional_properties(Some(values)).build()))
        }
        Shape::Scalar(scalar) => match scalar_schema(*scalar) {
            Some(name) => RefOr::Ref(Ref::from_schema_name(name)),
            None => {
                let allowed = inner.allowed.iter().map(String::as_str);
                let allowed = (!inner.allowed.is_empty()).then_some(allowed);
                RefOr::T(Schema::Object(plain_scalar(*scalar).enum_values(allowed).build()))
            }
        },
        Shape::Inline(_) | Shape::Deduced => {
            RefOr::T(Schema::Object(Object::with_type(SchemaType::AnyValue)))
        }
        Shape::Either(_) | Shape::Json => RefOr::Ref(Ref::from_schema_name(inner.free_form)),
    }
}

fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
