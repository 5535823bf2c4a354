//! Negotiates the response format between the client's `Accept` header and the available media types
//! (upstream: apiserver `handlers/negotiation/negotiate.go`, and goautoneg for the header).

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
    /// One object that has no table: a review, or the result of a binding.
    Tableless,
    /// A document that has only its own form: discovery, or an error.
    Document,
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
    /// Parameters other than `q`. A parameter without a value counts as absent.
    params: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';');
        let base = parts.next().unwrap_or_default().trim();
        let mut clause = Clause { base, params: Vec::new(), quality: 1.0 };
        for part in parts {
            let Some((key, value)) = part.split_once('=') else { continue };
            if value.is_empty() || value.contains('=') {
                continue;
            }
            match key.trim() {
                "q" => clause.quality = value.parse().unwrap_or(0.0),
                key => clause.params.push((key, value.trim())),
            }
        }
        clause
    }

    /// The media types that the clause accepts, in the order of the server's preference.
    fn media(&self) -> &'static [Media] {
        match self.base {
            "*" | "*/*" | "application/*" => &[Media::Json, Media::Yaml, Media::Protobuf],
            "application/json" => &[Media::Json],
            "application/yaml" => &[Media::Yaml],
            "application/vnd.kubernetes.protobuf" => &[Media::Protobuf],
            _ => &[],
        }
    }

    /// goautoneg's order, which is not transitive: a clause with wildcards also comes after one of lower quality if the
    /// other one follows it.
    fn precedes(&self, other: &Clause<'_>) -> bool {
        let wildcards = |clause: &Clause<'_>| match clause.base {
            "*" | "*/*" => (true, true),
            base => (base.starts_with("*/"), base.ends_with("/*")),
        };
        let ((any, any_sub), (other_any, other_any_sub)) = (wildcards(self), wildcards(other));
        self.quality > other.quality || !any && other_any || !any_sub && other_any_sub
    }
}

/// Go sorts lists of up to this length by insertion, which decides the order of clauses that precede each other.
const INSERTION_SORT_MAX: usize = 12;

fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let texts = accept.split(',').map(str::trim).filter(|text| !text.is_empty());
    let mut list: Vec<Clause<'_>> = texts.map(Clause::parse).collect();
    if list.len() > INSERTION_SORT_MAX {
        // The sort is stable: clauses of equal quality stay in the client's order.
        list.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(a.media().len().cmp(&b.media().len())));
        return list;
    }
    for end in 1..list.len() {
        let mut at = end;
        while at > 0 && list[at].precedes(&list[at - 1]) {
            list.swap(at, at - 1);
            at -= 1;
        }
    }
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
    let clauses = clauses(accept.unwrap_or_default());
    if clauses.is_empty() {
        return Ok(RequestedEncoding::JSON);
    }
    // Upstream's router does not match `application/*` and is case-sensitive.
    let is_routed =
        |clause: &Clause<'_>| !clause.media().is_empty() && !matches!(clause.base, "*" | "application/*");
    if !clauses.iter().any(is_routed) {
        let more = if list_route { format!(", {STREAMS}") } else { String::new() };
        return Err(ApiError::not_acceptable(format!(
            "406: Not Acceptable\n\nAvailable representations: {ALL}{more}"
        ))
        .with_empty_details());
    }
    choose(&clauses, endpoint)
}

/// Like [`negotiate`], for an endpoint that upstream serves without its router, which rejects clauses of its own.
pub fn negotiate_unrouted(accept: Option<&str>, endpoint: Endpoint) -> Result<RequestedEncoding, ApiError> {
    match clauses(accept.unwrap_or_default()).as_slice() {
        [] => Ok(RequestedEncoding::JSON),
        clauses => choose(clauses, endpoint),
    }
}

fn choose(clauses: &[Clause<'_>], endpoint: Endpoint) -> Result<RequestedEncoding, ApiError> {
    let wanted = first(clauses, |clause, media| clause_form(clause, media, endpoint));
    let wanted = wanted.ok_or_else(none_offered)?;
    if endpoint == Endpoint::Watch && wanted.media == Media::Yaml {
        return Err(ApiError::not_acceptable(format!(
            "only the following media types are accepted: {STREAMS}"
        )));
    }
    Ok(wanted)
}

/// The first form that a clause and one of its media types have.
fn first<T>(clauses: &[Clause<'_>], form: impl Fn(&Clause<'_>, Media) -> Option<T>) -> Option<T> {
    clauses.iter().find_map(|clause| clause.media().iter().find_map(|media| form(clause, *media)))
}

/// The error of an endpoint that offers none of the accepted formats.
fn none_offered() -> ApiError {
    ApiError::not_acceptable(format!("only the following media types are accepted: {ALL}"))
}

/// The parameters of a clause that select a form.
#[derive(Default)]
struct Parameters<'a> {
    /// Group, version and kind of the requested form, if one of them is present.
    target: Option<(&'a str, &'a str, &'a str)>,
    stream: &'a str,
    server_version: &'a str,
    pretty: bool,
}

impl<'a> Parameters<'a> {
    fn of(clause: &Clause<'a>) -> Self {
        let mut given = Parameters::default();
        for (key, value) in &clause.params {
            match *key {
                "g" => given.target.get_or_insert_default().0 = value,
                "v" => given.target.get_or_insert_default().1 = value,
                "as" => given.target.get_or_insert_default().2 = value,
                "stream" => given.stream = value,
                "sv" => given.server_version = value,
                "pretty" => given.pretty = *value == "1",
                // Ignored: export, profile and unknown parameters.
                _ => {}
            }
        }
        given
    }
}

/// The format that a clause requests, or `None` if this endpoint does not support it.
fn clause_form(clause: &Clause<'_>, media: Media, endpoint: Endpoint) -> Option<RequestedEncoding> {
    let given = Parameters::of(clause);
    // YAML has no streams.
    if !given.stream.is_empty() && (given.stream != "watch" || media == Media::Yaml) {
        return None;
    }
    let has_version = endpoint != Endpoint::Document;
    if !(given.server_version.is_empty() || has_version && given.server_version == "v1") {
        return None;
    }
    let stream = endpoint == Endpoint::Watch && (!given.stream.is_empty() || media == Media::Protobuf);
    let mut wanted = RequestedEncoding { media, transform: Transform::Object, stream, pretty: given.pretty };
    let Some((group, version, target)) = given.target else { return Some(wanted) };
    let version = match (group, version) {
        ("meta.k8s.io", "v1") => "v1",
        ("meta.k8s.io", "v1beta1") => "v1beta1",
        _ => return None,
    };
    wanted.transform = match (target, media, endpoint) {
        (_, _, Endpoint::Document) => return None,
        // Tables have no protobuf form.
        ("Table", Media::Json | Media::Yaml, Endpoint::Single | Endpoint::List | Endpoint::Watch) => {
            Transform::Table(version)
        }
        ("PartialObjectMetadata", ..) => Transform::Metadata(version),
        ("PartialObjectMetadataList", ..) => Transform::MetadataList(version),
        _ => return None,
    };
    Some(wanted)
}

/// The media type of an aggregated discovery document, if the client accepts one (upstream: apiserver
/// `endpoints/discovery/aggregated/wrapper.go`). Clauses without a form do not compete with it.
pub fn aggregated_discovery(accept: Option<&str>) -> Option<Media> {
    first(&clauses(accept.unwrap_or_default()), |clause, media| {
        let given = Parameters::of(clause);
        let is_it = given.target == Some(("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"));
        (is_it && given.stream.is_empty() && given.server_version.is_empty()).then_some(media)
    })
}

/// The media type for an error: the client's first choice that can encode a Status, otherwise JSON.
pub fn error_media(accept: Option<&str>) -> Media {
    let form = |clause: &Clause<'_>, media| clause_form(clause, media, Endpoint::Document);
    first(&clauses(accept.unwrap_or_default()), form).map_or(Media::Json, |wanted| wanted.media)
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = "g=meta.k8s.io;v=v1";
    const TABLE: Transform = Transform::Table("v1");

    fn chosen(accept: &str, endpoint: Endpoint) -> Result<(Media, Transform), String> {
        let wanted = negotiate(Some(accept), endpoint, false);
        wanted.map(|wanted| (wanted.media, wanted.transform)).map_err(|error| error.message)
    }

    #[test]
    fn clauses_are_tried_in_the_order_of_goautoneg() {
        let object = |media| Ok((media, Transform::Object));
        for (accept, want) in [
            ("", object(Media::Json)),
            ("application/yaml, application/json", object(Media::Yaml)),
            ("application/yaml;q=0.5, application/json", object(Media::Json)),
            // A type comes before a wildcard, whatever their order and quality.
            ("*/*, application/yaml", object(Media::Yaml)),
            ("*/*, application/yaml;q=0.1", object(Media::Yaml)),
            ("application/yaml;q=0.1, */*", object(Media::Json)),
            ("application/*, application/yaml;as=Table", object(Media::Json)),
            ("application/json;q=x, application/yaml;q=0.1", object(Media::Yaml)),
            ("text/html, application/yaml", object(Media::Yaml)),
            // A clause that cannot be met gives way to the next one.
            ("application/json;as=Nope;g=meta.k8s.io;v=v1, application/yaml", object(Media::Yaml)),
            ("application/json;v=v1, application/yaml", object(Media::Yaml)),
            // Parameters without a value are absent.
            ("application/json;v=;g", object(Media::Json)),
            ("application/json;stream=watch", object(Media::Json)),
            ("application/yaml;stream=watch, application/json", object(Media::Json)),
            ("application/json;sv=v1;export=1;profile=x;foo=bar", object(Media::Json)),
            ("application/json;sv=v2, application/yaml", object(Media::Yaml)),
            (&format!("*/*;as=Table;{META}"), Ok((Media::Json, TABLE))),
            (
                &format!(
                    "application/vnd.kubernetes.protobuf;as=Table;{META}, application/yaml;as=Table;{META}"
                ),
                { Ok((Media::Yaml, TABLE)) },
            ),
        ] {
            assert_eq!(chosen(accept, Endpoint::Single), want, "{accept}");
        }
    }

    #[test]
    fn unavailable_formats_are_406() {
        let routed = format!("406: Not Acceptable\n\nAvailable representations: {ALL}");
        let none = format!("only the following media types are accepted: {ALL}");
        let streams = format!("only the following media types are accepted: {STREAMS}");
        let table = format!("application/json;as=Table;{META}");
        for (accept, endpoint, want) in [
            ("text/html", Endpoint::Single, &routed),
            ("application/*", Endpoint::Single, &routed),
            ("*", Endpoint::Single, &routed),
            ("application/json;g=meta.k8s.io;v=v1", Endpoint::Single, &none),
            ("application/json;v=v1", Endpoint::Watch, &none),
            ("application/json;as=Table", Endpoint::Single, &none),
            ("application/json;as=\"Table\";g=meta.k8s.io;v=v1", Endpoint::Single, &none),
            ("application/json;stream=other", Endpoint::List, &none),
            (&table, Endpoint::Tableless, &none),
            (&table, Endpoint::Document, &none),
            ("application/json;sv=v1", Endpoint::Document, &none),
            // The first acceptable clause decides, and YAML has no streams.
            ("application/yaml, application/json", Endpoint::Watch, &streams),
        ] {
            assert_eq!(chosen(accept, endpoint).as_ref(), Err(want), "{accept}");
        }
        let unrouted = negotiate_unrouted(Some("text/html"), Endpoint::Document);
        assert_eq!(unrouted.map_err(|error| error.message), Err(none));
        let any = negotiate_unrouted(Some("application/*"), Endpoint::Document);
        assert_eq!(any.ok().map(|wanted| wanted.media), Some(Media::Json));
    }

    #[test]
    fn errors_have_the_first_plain_form() {
        for (accept, want) in [
            ("", Media::Json),
            ("application/yaml", Media::Yaml),
            ("text/html", Media::Json),
            ("application/*", Media::Json),
            ("application/yaml;as=Table;g=meta.k8s.io;v=v1", Media::Json),
            ("application/yaml;as=Table;g=meta.k8s.io;v=v1, application/yaml", Media::Yaml),
            ("application/vnd.kubernetes.protobuf;stream=watch", Media::Protobuf),
        ] {
            assert_eq!(error_media(Some(accept)), want, "{accept}");
        }
    }

    #[test]
    fn long_header_costs_linear_time() {
        let header = |n: usize| "*/*;q=0.1,application/yaml,".repeat(n);
        orlop_apimachinery::thread_time::assert_linear("clauses", 2_000, header, |header| {
            clauses(header).len()
        });
    }
}
