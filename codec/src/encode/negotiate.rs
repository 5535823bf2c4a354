//! What the client accepts, and which of it is served (upstream: response media types).

use orlop_api::status::ApiError;

/// The text form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// What becomes of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// The object as it is.
    Object,
    /// A table; the version of meta.k8s.io it is in.
    Table(&'static str),
    /// Metadata alone; the version of meta.k8s.io it is in.
    Metadata(&'static str),
    /// A list of metadata alone; the version of meta.k8s.io it is in.
    MetadataList(&'static str),
}

/// The kind of endpoint, which decides what can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// One object.
    Single,
    /// A list.
    List,
    /// A watch stream.
    Watch,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedEncoding {
    /// The text form.
    pub media: Media,
    /// What becomes of the object.
    pub transform: Transform,
    /// A stream is answered; protobuf's type says so.
    pub stream: bool,
    /// `pretty=1` stood in the clause.
    pub pretty: bool,
}

impl RequestedEncoding {
    /// Compact JSON of the object itself.
    pub const JSON: RequestedEncoding =
        RequestedEncoding { media: Media::Json, transform: Transform::Object, stream: false, pretty: false };

    /// The `Content-Type` of the answer.
    pub fn content_type(&self) -> &'static str {
        match (self.media, self.stream) {
            // A JSON stream is labelled as plain JSON, also when a stream was asked for.
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
    // Stable: clauses of the same quality keep the client's order.
    list.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    list
}

const ALL: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Chooses the form of an answer, or says what could have been had (406).
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
            // Upstream's router knows no `application/*` and no other case.
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
    let offered = if endpoint == Endpoint::Watch { STREAMS } else { ALL };
    Err(ApiError::not_acceptable(format!("only the following media types are accepted: {offered}")))
}

/// The form a clause asks for, `None` when it cannot be had from this endpoint.
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
            // Tolerated: sv, export, profile and what clients invent.
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
        // A table has no protobuf form.
        ("Table", Media::Json | Media::Yaml) => Transform::Table(version),
        ("PartialObjectMetadata", _) => Transform::Metadata(version),
        ("PartialObjectMetadataList", _) => Transform::MetadataList(version),
        _ => return None,
    };
    Some(wanted)
}

/// The media type for an error: the first of the client's that a Status can be written in, or JSON.
pub fn error_media(accept: Option<&str>) -> Media {
    let accept = accept.unwrap_or_default();
    for clause in clauses(accept) {
        match clause.base {
            "application/yaml" => return Media::Yaml,
            "*/*" | "application/json" => return Media::Json,
            // What a table or metadata were asked of has nothing to say about a Status.
            "application/vnd.kubernetes.protobuf" if clause.params.iter().all(|(key, _)| *key != "as") => {
                return Media::Protobuf;
            }
            _ => {}
        }
    }
    Media::Json
}
