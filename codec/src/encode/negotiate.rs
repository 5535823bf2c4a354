//! Negotiates the response format between the client's `Accept` header and the available media types
//! (upstream: response media types).

use orlop_api::status::ApiError;

/// The media type of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// How the object is transformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// The object unchanged.
    Object,
    /// A table, in this version of meta.k8s.io.
    Table(&'static str),
    /// Metadata alone, in this version of meta.k8s.io.
    Metadata(&'static str),
    /// A list of metadata alone, in this version of meta.k8s.io.
    MetadataList(&'static str),
}

/// The type of endpoint, which determines the available formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// One object.
    Single,
    /// A list.
    List,
    /// A watch stream.
    Watch,
}

/// The format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedEncoding {
    /// The media type.
    pub media: Media,
    /// How the object is transformed.
    pub transform: Transform,
    /// Whether the response is a stream; the protobuf media type includes this.
    pub stream: bool,
    /// Whether the clause contains `pretty=1`.
    pub pretty: bool,
}

impl RequestedEncoding {
    /// Compact JSON of the object itself.
    pub const JSON: RequestedEncoding =
        RequestedEncoding { media: Media::Json, transform: Transform::Object, stream: false, pretty: false };

    /// The `Content-Type` of the response.
    pub fn content_type(&self) -> &'static str {
        match (self.media, self.stream) {
            // A JSON stream has the plain JSON type even if the client requested a stream.
            (Media::Json, _) => "application/json",
            (Media::Yaml, _) => "application/yaml",
            (Media::Protobuf, true) => "application/vnd.kubernetes.protobuf;stream=watch",
            (Media::Protobuf, false) => "application/vnd.kubernetes.protobuf",
        }
    }
}

struct Clause<'a> {
    base: &'a str,
    params: Vec<(&'a str, &'a str)>,
    quality: f32,
}

fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut list: Vec<Clause<'_>> = accept
        .split(',')
        .map(str::trim)
        .filter(|clause| !clause.is_empty())
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let base = parts.next().unwrap_or_default();
            let mut quality = 1.0;
            let mut params = Vec::new();
            for part in parts {
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                if key == "q" {
                    quality = value.parse().unwrap_or(1.0);
                } else {
                    params.push((key.trim(), value.trim().trim_matches('"')));
                }
            }
            Clause { base, params, quality }
        })
        .collect();
    // The sort is stable: clauses of equal quality stay in the client's order.
    list.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    list
}

const ALL: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Chooses the format of a response. The error is a 406 that lists the available formats.
pub fn negotiate(
    accept: Option<&str>,
    endpoint: Endpoint,
    list_route: bool,
) -> Result<RequestedEncoding, ApiError> {
    let accept = accept.unwrap_or_default();
    let clauses = clauses(accept);
    if clauses.is_empty() {
        return Ok(RequestedEncoding::JSON);
    }
    let mut known_base = false;
    for clause in &clauses {
        let media = match clause.base {
            "*/*" | "application/json" => Media::Json,
            "application/yaml" => Media::Yaml,
            "application/vnd.kubernetes.protobuf" => Media::Protobuf,
            // Upstream's router does not match `application/*` and is case-sensitive.
            _ => continue,
        };
        known_base = true;
        if endpoint == Endpoint::Watch && media == Media::Yaml {
            continue;
        }
        if let Some(wanted) = clause_form(clause, media, endpoint) {
            return Ok(wanted);
        }
    }
    if !known_base {
        let more = if list_route { format!(", {STREAMS}") } else { String::new() };
        return Err(ApiError::not_acceptable(format!(
            "406: Not Acceptable\n\nAvailable representations: {ALL}{more}"
        ))
        .with_empty_details());
    }
    Err(none_offered(endpoint))
}

/// The error of an endpoint that offers none of the accepted formats.
pub fn none_offered(endpoint: Endpoint) -> ApiError {
    let offered = if endpoint == Endpoint::Watch { STREAMS } else { ALL };
    ApiError::not_acceptable(format!("only the following media types are accepted: {offered}"))
}

/// The format that a clause requests, or `None` if this endpoint does not support it.
fn clause_form(clause: &Clause<'_>, media: Media, endpoint: Endpoint) -> Option<RequestedEncoding> {
    let mut wanted = RequestedEncoding { media, transform: Transform::Object, stream: false, pretty: false };
    let (mut target, mut version, mut group) = ("", "", "");
    for (key, value) in &clause.params {
        match *key {
            "as" => target = value,
            "v" => version = value,
            "g" => group = value,
            "pretty" => wanted.pretty = *value != "0" && *value != "false",
            "stream" => {
                if *value != "watch" || endpoint != Endpoint::Watch {
                    return None;
                }
                wanted.stream = true;
            }
            // Ignored: sv, export, profile and unknown parameters.
            _ => {}
        }
    }
    if target.is_empty() {
        wanted.stream |= media == Media::Protobuf && endpoint == Endpoint::Watch;
        return Some(wanted);
    }
    let version = match (group, version) {
        ("meta.k8s.io", "v1") => "v1",
        ("meta.k8s.io", "v1beta1") => "v1beta1",
        _ => return None,
    };
    wanted.transform = match (target, media) {
        // Tables have no protobuf form.
        ("Table", Media::Json | Media::Yaml) => Transform::Table(version),
        ("PartialObjectMetadata", _) => Transform::Metadata(version),
        ("PartialObjectMetadataList", _) => Transform::MetadataList(version),
        _ => return None,
    };
    Some(wanted)
}

/// The media type for an error: the client's first choice that can encode a Status, otherwise JSON.
pub fn error_media(accept: Option<&str>) -> Media {
    let accept = accept.unwrap_or_default();
    for clause in clauses(accept) {
        match clause.base {
            "application/yaml" => return Media::Yaml,
            "*/*" | "application/json" => return Media::Json,
            // A clause that requests a table or metadata does not apply to a Status.
            "application/vnd.kubernetes.protobuf" if clause.params.iter().all(|(key, _)| *key != "as") => {
                return Media::Protobuf;
            }
            _ => {}
        }
    }
    Media::Json
}
