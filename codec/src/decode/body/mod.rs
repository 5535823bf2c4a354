//! Decodes a whole request body into an object: determines its format, checks its kind, and assembles errors
//! and warnings.

use orlop_api::object::Object;
use orlop_api::registry::Names;
use orlop_api::status::ApiError;
use orlop_openapi::{TypeId, types};
use serde_json::{Map, Value};

use super::json::Reader;
use super::registered::{self, Scheme};
use super::source::InMemory;
use super::walk::{Walked, walk};
use super::{Conformed, Decoded, FieldValidation, Media, conform, protobuf, scalar, yaml};

/// The result of reading a body.
struct Read {
    walked: Walked,
    /// Duplicate keys in a YAML document: `line 9: key "a" already set in map`.
    yaml_duplicates: Vec<String>,
}

/// Decodes an object by its names: a built-in kind, or a kind that is not stored (`Binding`, `Scale`).
pub fn decode_named(
    names: &Names,
    media: Media,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, ApiError> {
    let unrecognized = |why: String| ApiError::bad_request(unrecognized(names.kind, &why, body));
    let ty = known_type(names.schema)?;
    let read = read(media, body, ty).map_err(unrecognized)?;
    let (api_version, kind) = &read.walked.type_meta;
    let (_, version) = group_version(api_version).map_err(unrecognized)?;
    let kind = if kind.is_empty() { names.kind } else { kind };
    let version = if version.is_empty() { names.version } else { version };
    let refuse = |why: &str| {
        let message = format!("{kind} in version {version:?} cannot be handled as a {}: {why}", names.kind);
        ApiError::bad_request(message)
    };
    check_kind(names, api_version, kind).map_err(|wrong| match wrong {
        Wrong::Kind(why) => refuse(&why),
        Wrong::Version(why) => ApiError::bad_request(why),
    })?;
    if let Some(misfit) = &read.walked.misfit {
        return Err(refuse(misfit));
    }
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => warnings(&read),
        FieldValidation::Strict => match strict_error(&read) {
            Some(why) => return Err(refuse(&why)),
            None => Vec::new(),
        },
    };
    Ok(Decoded { object: Object(read.walked.object), warnings, type_meta: read.walked.type_meta })
}

/// A body that is typed only in its metadata.
pub(crate) struct Open {
    pub object: Map<String, Value>,
    /// `apiVersion` and `kind` as they appear in the body.
    pub type_meta: (String, String),
    /// Unknown and duplicate fields of the metadata, as warning texts.
    pub findings: Vec<String>,
    /// The error about the first metadata value of a wrong type.
    pub misfit: Option<String>,
    wanted: &'static str,
    summary: String,
}

impl Open {
    /// Returns a 400 for a body that does not state its type.
    pub(crate) fn unrecognized(&self, why: &str) -> ApiError {
        let Open { wanted, summary, .. } = self;
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {wanted}): {why} ({summary})"
        ))
    }
}

/// Reads a body of a custom kind. Errors are 400 with upstream's message.
pub(crate) fn read_open(wanted: &'static str, media: Media, body: &[u8]) -> Result<Open, ApiError> {
    let ty = known_type(orlop_openapi::OPEN_OBJECT)?;
    let read =
        read(media, body, ty).map_err(|why| ApiError::bad_request(unrecognized(wanted, &why, body)))?;
    let mut findings = warnings(&read);
    if media == Media::Json {
        for path in super::duplicates::find(body) {
            let text = format!("duplicate field \"{path}\"");
            if !findings.contains(&text) {
                findings.push(text);
            }
        }
    }
    let Walked { object, type_meta, misfit, .. } = read.walked;
    Ok(Open { object, type_meta, findings, misfit, wanted, summary: summary(body) })
}

/// Decodes a body as a schema that is not a stored object, such as `DeleteOptions`. Unknown fields are ignored.
/// An empty JSON body is an error, so callers that allow one must check first.
pub fn decode_typed(schema: &str, media: Media, body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let ty = known_type(schema)?;
    let wanted = types().get(ty).short_name.as_str();
    // Upstream decodes options on another path, with shorter error messages.
    let is_options = wanted.ends_with("Options");
    let unrecognized = |why: String| {
        let message = if is_options { why } else { unrecognized(wanted, &why, body) };
        ApiError::bad_request(message)
    };
    let read = read(media, body, ty).map_err(unrecognized)?;
    let (api_version, kind) = &read.walked.type_meta;
    let (_, version) = group_version(api_version).map_err(unrecognized)?;
    let kind = if kind.is_empty() { wanted } else { kind };
    let version = if version.is_empty() { "v1" } else { version };
    let why = if kind == wanted {
        read.walked.misfit
    } else {
        let api_version = if api_version.is_empty() { "v1" } else { api_version };
        Some(match schema.strip_prefix("io.k8s.api.").and_then(|rest| rest.split('.').next()) {
            Some(package) => cannot_convert(api_version, kind, registered::group(package), wanted),
            // The scheme that decodes options has no other types registered.
            None => not_registered(kind, api_version, Scheme::of("")),
        })
    };
    match why {
        None => Ok(read.walked.object),
        Some(why) if is_options => Err(ApiError::bad_request(why)),
        Some(why) => {
            let message = format!("{kind} in version {version:?} cannot be handled as a {wanted}: {why}");
            Err(ApiError::bad_request(message))
        }
    }
}

/// Fits the result of a JSON or merge patch to the patched kind, as upstream's codec does: a missing kind
/// defaults to the patched one, and a document of another kind is decoded as that kind before it is rejected.
/// The error is upstream's text.
pub fn conform_patched(names: &Names, document: Value) -> Result<Conformed, String> {
    let ty = known_type(names.schema).map_err(|error| error.message)?;
    let text = |name: &str| match document.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field \
             .{name} of type string",
            scalar::json_kind(other)
        )),
    };
    let (api_version, mut kind) = (text("apiVersion")?, text("kind")?);
    group_version(&api_version)?;
    if kind.is_empty() {
        names.kind.clone_into(&mut kind);
    }
    if api_version.is_empty() {
        // Upstream decodes it as the internal version, in which fields have other names, so all fields are unknown.
        let unknown = document.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        return Ok(Conformed { object: Map::new(), unknown, type_meta: (api_version, kind) });
    }
    if kind == names.kind && api_version == names.api_version() {
        return conform(document, ty);
    }
    if let Some(other) = served_type(&api_version, &kind) {
        conform(document, other)?;
    }
    Err(cannot_convert(&api_version, &kind, names.group, names.kind))
}

fn known_type(schema: &str) -> Result<TypeId, ApiError> {
    let missing =
        || ApiError::internal(format!("there is no schema {schema:?}; the registry names it wrongly"));
    types().named(schema).ok_or_else(missing)
}

/// Reads a body in any format. The error is the part after "unrecognized" in upstream's message.
fn read(media: Media, body: &[u8], ty: TypeId) -> Result<Read, String> {
    let no_json = |text: &str| format!("couldn't get version/kind; json parse error: {text}");
    let (walked, yaml_duplicates) = match media {
        Media::Json => {
            let mut reader = Reader::new(body);
            let walked = walk(&mut reader, ty).and_then(|walked| reader.end().map(|()| walked));
            (walked.map_err(|error| no_json(&error.0))?, Vec::new())
        }
        Media::Yaml => {
            let document = yaml::read(body)?;
            let walked = walk(&mut InMemory::new(document.value), ty).map_err(|error| no_json(&error.0))?;
            (walked, document.duplicates)
        }
        Media::Protobuf => {
            let message = protobuf::read(body, ty)?;
            let mut walked =
                walk(&mut InMemory::new(message.value), ty).map_err(|error| no_json(&error.0))?;
            walked.type_meta = message.type_meta;
            (walked, Vec::new())
        }
    };
    match &walked.bad_type_meta {
        Some(text) => Err(no_json(text)),
        None => Ok(Read { walked, yaml_duplicates }),
    }
}

/// Splits an `apiVersion` into group and version.
fn group_version(api_version: &str) -> Result<(&str, &str), String> {
    match api_version.split_once('/') {
        None => Ok(("", api_version)),
        Some((group, version)) if !version.contains('/') => Ok((group, version)),
        Some(_) => Err(format!("unexpected GroupVersion string: {api_version}")),
    }
}

enum Wrong {
    /// The body's kind cannot be converted to the expected one.
    Kind(String),
    /// The body has the expected kind in another version.
    Version(String),
}

/// Checks that a body with this `apiVersion` and `kind` is acceptable.
fn check_kind(names: &Names, api_version: &str, kind: &str) -> Result<(), Wrong> {
    let expected = names.api_version();
    let given = if api_version.is_empty() { expected.as_str() } else { api_version };
    if kind == names.kind && given == expected {
        return Ok(());
    }
    let (group, _) = given.split_once('/').unwrap_or(("", given));
    let is_converted = kind == names.kind && registered::is_one_type(kind, group, names.group);
    if is_converted && Scheme::of(names.group).knows(given, kind) {
        let message = format!(
            "the API version in the data ({given}) does not match the expected API version ({expected})"
        );
        return Err(Wrong::Version(message));
    }
    Err(Wrong::Kind(cannot_convert(given, kind, names.group, names.kind)))
}

/// The type of a kind in an API version that the server serves.
fn served_type(api_version: &str, kind: &str) -> Option<TypeId> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let schema = types().named(&format!("io.k8s.api.{}.{version}.{kind}", registered::package(group)));
    schema.filter(|id| types().get(*id).field("apiVersion").is_some())
}

/// The error for a kind that cannot be converted to the expected one.
fn cannot_convert(api_version: &str, kind: &str, wanted_group: &str, wanted: &str) -> String {
    let scheme = Scheme::of(wanted_group);
    if !scheme.knows(api_version, kind) {
        return not_registered(kind, api_version, scheme);
    }
    let version = registered::go_package(api_version, kind);
    let package = registered::package(wanted_group);
    format!("converting ({version}.{kind}) to ({package}.{wanted}): unknown conversion")
}

fn not_registered(kind: &str, api_version: &str, scheme: Scheme) -> String {
    format!("no kind {kind:?} is registered for version {api_version:?} in scheme {:?}", scheme.name)
}

fn unrecognized(wanted: &str, why: &str, body: &[u8]) -> String {
    format!("the object provided is unrecognized (must be of type {wanted}): {why} ({})", summary(body))
}

/// The first bytes of a body: unchanged if they look like JSON, otherwise in hexadecimal.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let head = &body[..body.len().min(SHOWN)];
    let more = if body.len() > SHOWN { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => {
            let hex: String = head.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}

fn warnings(read: &Read) -> Vec<String> {
    let findings = read.walked.findings.iter().map(ToString::to_string);
    read.yaml_duplicates.iter().cloned().chain(findings).collect()
}

fn strict_error(read: &Read) -> Option<String> {
    let mut texts = Vec::new();
    if !read.yaml_duplicates.is_empty() {
        let lines: String = read.yaml_duplicates.iter().map(|line| format!("\n  {line}")).collect();
        texts.push(format!("yaml: unmarshal errors:{lines}"));
    }
    texts.extend(read.walked.findings.iter().map(ToString::to_string));
    if texts.is_empty() { None } else { Some(format!("strict decoding error: {}", texts.join(", "))) }
}

#[cfg(test)]
mod tests;
