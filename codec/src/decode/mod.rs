//! Decodes JSON, YAML and protobuf bodies into [`Object`]s that fit the type of their kind. Errors have
//! upstream's messages.
//!
//! Reading order: `source` reads a document step by step, `json` reads one from text, `walk` fits it to the
//! arena of types, `scalar` and `time` canonicalize values, `yaml` and `protobuf` first convert their formats
//! to a document in memory, and `body` assembles the errors. `values` bounds the number of values of a document, and `weight` estimates it.

mod body;
mod custom;
mod duplicates;
mod json;
mod protobuf;
mod registered;
mod scalar;
mod source;
mod time;
mod unstructured;
pub(crate) mod values;
mod walk;
mod weight;
mod yaml;

use orlop_api::object::Object;
use orlop_api::registry::Kind;
use orlop_api::status::ApiError;
use orlop_openapi::{TypeId, types};
use serde_json::{Map, Value};

pub use body::{conform_patched, decode_named, decode_typed};
pub(crate) use values::weigh;
pub use walk::Finding;
pub(crate) use walk::{MAX_FINDINGS, MAX_FINDINGS_TEXT};
pub use weight::{estimate_body_weight, estimate_weight, weight_bound};

/// How unknown and duplicate fields are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped with a warning.
    Warn,
    /// The request is rejected.
    Strict,
}

/// The format of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// A decoded body.
#[derive(Debug)]
pub struct Decoded {
    /// The object. It fits the type of its kind and has neither `kind` nor `apiVersion`.
    pub object: Object,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// `apiVersion` and `kind` as they appear in the body; empty if missing.
    pub type_meta: (String, String),
}

/// A document fitted to a type.
#[derive(Debug)]
pub struct Conformed {
    /// The members, without the document's own `kind` and `apiVersion`.
    pub object: Map<String, Value>,
    /// Paths of unknown fields, such as `spec.containers[0].foo`.
    pub unknown: Vec<String>,
    /// `apiVersion` and `kind` as they appear in the document; empty if missing.
    pub type_meta: (String, String),
}

/// Decodes the body of a create or an update. A missing `kind` or `apiVersion` defaults to that of the
/// path, and a different one is rejected. [`FieldValidation::Strict`] also rejects unknown and duplicate
/// fields. Errors are 400 with upstream's message.
pub fn decode_object(
    kind: &dyn Kind,
    media: Media,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, ApiError> {
    if kind.is_custom() {
        custom::object(kind, media, body, validation)
    } else {
        decode_named(kind.names(), media, body, validation)
    }
}

/// Reads the document of an apply as YAML, which includes JSON. Also returns a line for each duplicate key,
/// such as `line 9: key "a" already set in map`. The error is go-yaml's text.
pub fn read_yaml(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    let document = yaml::read(body)?;
    Ok((document.value, document.duplicates))
}

/// Fits a document in memory, such as a patched object, to a type: drops and lists unknown fields,
/// canonicalizes scalars, and omits or fills in empty values. The error is upstream's text for a value that
/// does not fit, such as `json: cannot unmarshal number into Go struct field ConfigMap.data of type string`.
pub fn conform(value: Value, ty: TypeId) -> Result<Conformed, String> {
    let walked = walk::walk(&mut source::InMemory::new(value), ty).map_err(|error| error.0)?;
    if let Some(text) = walked.bad_type_meta.or(walked.misfit) {
        return Err(text);
    }
    let unknown = walked.findings.into_iter().map(|finding| match finding {
        Finding::Unknown(path) | Finding::Duplicate(path) => path,
    });
    Ok(Conformed { object: walked.object, unknown: unknown.collect(), type_meta: walked.type_meta })
}

/// Fits a document to the type of a kind.
pub fn conform_to(kind: &dyn Kind, value: Value) -> Result<Conformed, String> {
    if kind.is_custom() {
        return custom::conform(kind, value);
    }
    let schema = kind.names().schema;
    let ty = types().named(schema).ok_or_else(|| format!("no type {schema} is known"))?;
    conform(value, ty)
}

/// Fits the metadata of a document to `ObjectMeta` and leaves the rest unchanged.
pub fn conform_open(value: Value) -> Result<Conformed, String> {
    let ty = types().named(orlop_openapi::OPEN_OBJECT).ok_or("no open type is known")?;
    conform(value, ty)
}

/// Fits the metadata of an object to `ObjectMeta`. Also returns the paths of its unknown fields, such as
/// `ownerReferences[0].foo`. The error is upstream's text for a value that does not fit.
pub fn conform_metadata(metadata: Value) -> Result<(Value, Vec<String>), String> {
    const METADATA: &str = "metadata";
    let document = Map::from_iter([(METADATA.to_owned(), metadata)]);
    let Conformed { mut object, unknown, .. } = conform_open(Value::Object(document))?;
    let below = |path: String| path.strip_prefix("metadata.").map_or_else(|| path.clone(), str::to_owned);
    let metadata = object.remove(METADATA).filter(Value::is_object);
    Ok((metadata.unwrap_or_else(|| Value::Object(Map::new())), unknown.into_iter().map(below).collect()))
}

/// Fits the result of a strategic merge patch to its type. Like upstream, it ignores the `kind` and
/// `apiVersion` of the result. The error is upstream's text.
pub fn conform_merged(mut value: Value, ty: TypeId) -> Result<Conformed, String> {
    if let Some(text) = unstructured::misfit(&value, ty) {
        return Err(text);
    }
    unstructured::whole_numbers(&mut value);
    conform(value, ty)
}

/// The syntax error in a JSON text, as Go's `encoding/json` reports it; `None` if the text is valid.
pub fn syntax_fault(json: &[u8]) -> Option<String> {
    use source::Source;
    let mut reader = json::Reader::new(json);
    let read = reader.value().and_then(|token| reader.skip(&token)).and_then(|()| reader.end());
    read.err().map(|error| error.0)
}

/// The paths of duplicate members in JSON text, such as `data.a`.
pub fn duplicate_fields(json: &[u8]) -> Vec<String> {
    duplicates::find(json)
}

/// An empty object of a type, with only the members that are always written. Watch bookmarks carry one.
pub fn zero_object(ty: TypeId) -> Value {
    Value::Object(walk::zero_map(types().get(ty)))
}
