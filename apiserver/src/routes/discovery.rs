//! Discovery, legacy (one document per group) and aggregated (one document for all).

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use orlop_apimachinery::version::version_order;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256, Sha512};

use crate::custom::Served;
use crate::custom::documents::Discovery;
use crate::encode::negotiate::{Endpoint, Media, error_media, negotiate};
use crate::encode::{answer, protobuf};
use crate::insight;
use crate::limits::Client;
use crate::registry::{KINDS, Kind, KindRef, Scope, StatusSubresource};
use crate::state::Inner;
use orlop_api::status::ApiError;

/// Groups in upstream's order, which decides between kinds with the same short name. Groups without a kind are
/// not listed.
const GROUP_ORDER: &[&str] = &[
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "resource.k8s.io",
];

const VERSION: &str = "v1";

pub(super) fn router() -> Router<Arc<Inner>> {
    Router::new()
        .route("/api", get(core_versions))
        .route("/api/", get(core_versions))
        .route("/apis", get(group_list))
        .route("/apis/", get(group_list))
        .route("/api/v1", get(core_resources))
        .route("/api/v1/", get(core_resources))
        .route("/apis/{group}", get(one_group))
        .route("/apis/{group}/", get(one_group))
        .route("/apis/{group}/{version}", get(group_resources))
        .route("/apis/{group}/{version}/", get(group_resources))
}

/// The named groups that have kinds, with their versions, preferred version first. Groups of custom kinds follow
/// those of built-in kinds.
pub(super) fn groups(served: &Served) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&'static str, Vec<&'static str>)> = GROUP_ORDER
        .iter()
        .copied()
        .map(|group| (group, builtin_versions(group)))
        .filter(|(_, versions)| !versions.is_empty())
        .collect();
    if served.lists_own {
        groups.push((insight::GROUP, vec![insight::VERSION]));
    }
    let given = groups.len();
    for (group, versions) in served.groups() {
        match groups[..given].iter_mut().find(|(known, _)| known == group) {
            None => groups.push((group, versions.clone())),
            Some((_, known)) => {
                let new: Vec<_> =
                    versions.iter().copied().filter(|version| !known.contains(version)).collect();
                known.extend(new);
                known.sort_by(|a, b| version_order(a, b));
            }
        }
    }
    groups
}

/// The versions of a group in which built-in kinds are served, the preferred version first.
fn builtin_versions(group: &str) -> Vec<&'static str> {
    let of_group = KINDS.iter().map(|kind| kind.names()).filter(|names| names.group == group);
    let mut versions: Vec<&'static str> = of_group.map(|names| names.version).collect();
    versions.sort_by(|a, b| version_order(a, b));
    versions.dedup();
    versions
}

fn accept(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ACCEPT).and_then(|value| value.to_str().ok())
}

/// The form that a client requests of `/api` and `/apis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Aggregated(Media),
    Legacy,
}

fn form(accept: Option<&str>) -> Result<Form, ApiError> {
    for clause in accept.unwrap_or_default().split(',').map(str::trim) {
        let params: Vec<&str> = clause.split(';').map(str::trim).collect();
        let media = match params.first() {
            Some(&"application/json") => Some(Media::Json),
            Some(&"application/yaml") => Some(Media::Yaml),
            Some(&"application/vnd.kubernetes.protobuf") => Some(Media::Protobuf),
            Some(_) | None => None,
        };
        if !params.contains(&"as=APIGroupDiscoveryList") {
            if media.is_some() || params.first() == Some(&"*/*") {
                break;
            }
            continue;
        }
        if let Some(media) = media
            && params.contains(&"g=apidiscovery.k8s.io")
            && params.contains(&"v=v2")
        {
            return Ok(Form::Aggregated(media));
        }
    }
    negotiate(accept, Endpoint::Single, false).map(|_| Form::Legacy)
}

fn legacy(headers: &HeaderMap, document: &Value) -> Response {
    let wanted = negotiate(accept(headers), Endpoint::Single, false);
    wanted
        .and_then(|wanted| answer::value_answer(200, wanted, document))
        .unwrap_or_else(|error| refuse(headers, &error))
}

fn refuse(headers: &HeaderMap, error: &ApiError) -> Response {
    answer::error(error, error_media(accept(headers)), false)
}

async fn core_versions(headers: HeaderMap) -> Response {
    let address = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match form(accept(&headers)) {
        Ok(Form::Aggregated(media)) => aggregated(&headers, media, &CORE),
        Ok(Form::Legacy) => legacy(
            &headers,
            &json!({
                "kind": "APIVersions", "versions": [VERSION],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
            }),
        ),
        Err(error) => refuse(&headers, &error),
    }
}

/// The aggregated document of the named groups, which may have many kinds: it is built on the threads for expensive requests.
async fn discovery<'a>(
    server: &Inner,
    served: &'a Arc<Served>,
    client: Option<Client>,
) -> Result<&'a Discovery, ApiError> {
    let build = || {
        let served = served.clone();
        server.compute.run(client, async move { Ok(named(&served)) })
    };
    served.discovery.get_or_try_init(build).await
}

async fn group_list(
    State(server): State<Arc<Inner>>,
    client: Option<Extension<Client>>,
    headers: HeaderMap,
) -> Response {
    let served = server.kinds.now();
    match form(accept(&headers)) {
        Ok(Form::Aggregated(media)) => match discovery(&server, &served, client.map(|client| client.0)).await
        {
            Ok(document) => aggregated(&headers, media, document),
            Err(error) => refuse(&headers, &error),
        },
        Ok(Form::Legacy) => {
            let groups = groups(&served);
            let groups: Vec<Value> =
                groups.iter().map(|(group, versions)| Value::Object(group_entry(group, versions))).collect();
            legacy(&headers, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        Err(error) => refuse(&headers, &error),
    }
}

fn group_entry(group: &str, versions: &[&str]) -> Map<String, Value> {
    let shown: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    let mut entry = Map::new();
    entry.insert("name".to_owned(), group.into());
    entry.insert("preferredVersion".to_owned(), shown.first().cloned().unwrap_or_default());
    entry.insert("versions".to_owned(), shown.into());
    entry
}

async fn one_group(
    State(server): State<Arc<Inner>>,
    headers: HeaderMap,
    Path(group): Path<String>,
) -> Response {
    let groups = groups(&server.kinds.now());
    let Some((_, versions)) = groups.iter().find(|(known, _)| *known == group) else {
        return answer::text(404, "404 page not found\n");
    };
    let mut document = Map::new();
    document.insert("kind".to_owned(), "APIGroup".into());
    document.insert("apiVersion".to_owned(), "v1".into());
    document.extend(group_entry(&group, versions));
    legacy(&headers, &Value::Object(document))
}

async fn core_resources(headers: HeaderMap) -> Response {
    legacy(
        &headers,
        &json!({"kind": "APIResourceList", "groupVersion": VERSION, "resources": resources(&Served::default(), "", VERSION)}),
    )
}

async fn group_resources(
    State(server): State<Arc<Inner>>,
    headers: HeaderMap,
    Path((group, version)): Path<(String, String)>,
) -> Response {
    let served = server.kinds.now();
    let groups = groups(&served);
    let Some((_, versions)) = groups.iter().find(|(known, _)| *known == group) else {
        return answer::text(404, "404 page not found\n");
    };
    if !versions.contains(&version.as_str()) {
        if KINDS.iter().all(|kind| kind.names().group != group) {
            // As upstream, custom groups leave unknown versions to the handler of unknown paths.
            return answer::text(404, "404 page not found\n");
        }
        return refuse(&headers, &ApiError::no_such_resource());
    }
    legacy(
        &headers,
        &json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"),
            "resources": resources(&served, &group, &version),
        }),
    )
}

/// A subresource in a discovery document.
struct Sub {
    name: &'static str,
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
}

fn subresources(kind: &dyn Kind) -> Vec<Sub> {
    let names = kind.names();
    let mut subs: Vec<Sub> = kind
        .subresources()
        .iter()
        .map(|sub| Sub {
            name: sub.name,
            group: sub.group,
            version: sub.version,
            kind: sub.kind,
            verbs: sub.verbs,
        })
        .collect();
    if kind.policy().status != StatusSubresource::None {
        subs.push(Sub {
            name: "status",
            group: names.group,
            version: names.version,
            kind: names.kind,
            verbs: &["get", "patch", "update"],
        });
    }
    if kind.definition().is_some() {
        // Upstream lists the status of a custom kind before its scale.
        subs.reverse();
    } else {
        subs.sort_by_key(|sub| sub.name);
    }
    subs
}

/// The verbs of a kind. Objects of a deleted custom kind can only be read and deleted.
fn verbs(kind: &dyn Kind) -> &'static [&'static str] {
    match kind.is_terminating() {
        true => &["delete", "deletecollection", "get", "list", "watch"],
        false => kind.verbs(),
    }
}

fn kinds_of(served: &Served, group: &str, version: &str) -> Vec<KindRef> {
    let is_there = |kind: &KindRef| kind.names().group == group && kind.names().version == version;
    let given = KINDS.iter().map(|kind| KindRef::Builtin(*kind)).filter(is_there);
    let mut kinds: Vec<KindRef> = given.collect();
    kinds.extend(served.kinds_of(group, version));
    kinds.sort_by_key(|kind| kind.names().plural);
    kinds
}

fn resources(served: &Served, group: &str, version: &str) -> Vec<Value> {
    let mut list = Vec::new();
    if group.is_empty() {
        list.push(json!({
            "name": "bindings", "singularName": "binding", "namespaced": true, "kind": "Binding",
            "verbs": ["create"],
        }));
    }
    for kind in kinds_of(served, group, version) {
        let names = kind.names();
        let namespaced = kind.scope() == Scope::Namespaced;
        let mut entry = json!({
            "name": names.plural, "singularName": names.singular, "namespaced": namespaced,
            "kind": names.kind, "verbs": verbs(&*kind),
        });
        if let Some(version) = kind.storage_version() {
            entry["storageVersionHash"] = storage_version_hash(names.group, version, names.kind).into();
        }
        if !names.short.is_empty() {
            entry["shortNames"] = json!(names.short);
        }
        if !names.categories.is_empty() {
            entry["categories"] = json!(names.categories);
        }
        list.push(entry);
        for sub in subresources(&*kind) {
            let mut entry = json!({
                "name": format!("{}/{}", names.plural, sub.name), "singularName": "", "namespaced": namespaced,
                "kind": sub.kind, "verbs": sub.verbs,
            });
            if (sub.group, sub.version) != (names.group, names.version) {
                entry["group"] = sub.group.into();
                entry["version"] = sub.version.into();
            }
            list.push(entry);
        }
    }
    if served.lists_own && (group, version) == (insight::GROUP, insight::VERSION) {
        list.extend(insight::document::resources());
    }
    // The subresources follow their resource.
    let resource = |entry: &Value| {
        let name = entry["name"].as_str().unwrap_or_default();
        name.split('/').next().unwrap_or_default().to_owned()
    };
    list.sort_by_cached_key(resource);
    list
}

/// Identifies the version in which the objects of a kind are stored: a client compares it with an earlier one.
fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(&digest[..8])
}

static CORE: LazyLock<Discovery> = LazyLock::new(|| document(&Served::default(), vec![("", vec![VERSION])]));

/// The aggregated document of the named groups.
pub(super) fn named(served: &Served) -> Discovery {
    document(served, groups(served))
}

fn document(served: &Served, groups: Vec<(&'static str, Vec<&'static str>)>) -> Discovery {
    let items: Vec<Value> = groups
        .into_iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .into_iter()
                .map(|version| {
                    json!({
                        "version": version, "resources": discovered(served, group, version),
                        "freshness": "Current",
                    })
                })
                .collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({ "name": group }) };
            json!({
                "metadata": metadata,
                "versions": versions,
            })
        })
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    let bytes = list.to_string().into_bytes();
    let tag = Sha512::digest(&bytes).iter().map(|byte| format!("{byte:02X}")).collect();
    Discovery { bytes: bytes.into(), tag }
}

fn discovered(served: &Served, group: &str, version: &str) -> Vec<Value> {
    let mut list: Vec<Value> = kinds_of(served, group, version)
        .into_iter()
        .map(|kind| {
            let names = kind.names();
            let scope = match kind.scope() {
                Scope::Cluster => "Cluster",
                Scope::Namespaced => "Namespaced",
            };
            // The version contains the group and the version of a built-in kind.
            let kind_version =
                if kind.definition().is_some() { (names.group, names.version) } else { ("", "") };
            let mut entry = json!({
                "resource": names.plural,
                "responseKind": {"group": kind_version.0, "version": kind_version.1, "kind": names.kind},
                "scope": scope, "singularResource": names.singular, "verbs": verbs(&*kind),
            });
            if !names.short.is_empty() {
                entry["shortNames"] = json!(names.short);
            }
            if !names.categories.is_empty() {
                entry["categories"] = json!(names.categories);
            }
            let subs: Vec<Value> = subresources(&*kind)
                .into_iter()
                .map(|sub| {
                    let own = (sub.group, sub.version) == (names.group, names.version);
                    let (group, version) = if own { kind_version } else { (sub.group, sub.version) };
                    json!({
                        "subresource": sub.name,
                        "responseKind": {"group": group, "version": version, "kind": sub.kind},
                        "verbs": sub.verbs,
                    })
                })
                .collect();
            if !subs.is_empty() {
                entry["subresources"] = subs.into();
            }
            entry
        })
        .collect();
    if group.is_empty() {
        list.push(json!({
            "resource": "bindings", "responseKind": {"group": "", "version": "", "kind": "Binding"},
            "scope": "Namespaced", "singularResource": "binding", "verbs": ["create"],
        }));
    }
    if served.lists_own && (group, version) == (insight::GROUP, insight::VERSION) {
        list.extend(insight::document::discovered());
    }
    list.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
    list
}

fn aggregated(headers: &HeaderMap, media: Media, document: &Discovery) -> Response {
    let tag = format!("\"{}\"", document.tag);
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == tag.as_bytes());
    let mut response = if known {
        answer::body(304, content_type(media), Vec::new())
    } else {
        match encoded(media, document) {
            Ok(bytes) => answer::body(200, content_type(media), bytes),
            Err(error) => return refuse(headers, &error),
        }
    };
    let own = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        own.insert(header::ETAG, tag);
    }
    own.insert(header::VARY, HeaderValue::from_static("Accept"));
    own.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

fn content_type(media: Media) -> &'static str {
    match media {
        Media::Json => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Media::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Media::Protobuf => {
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        }
    }
}

/// The document in a format. It is stored as JSON, which most clients request.
fn encoded(media: Media, document: &Discovery) -> Result<Bytes, ApiError> {
    let value = || serde_json::from_slice::<Value>(&document.bytes).map_err(ApiError::internal);
    Ok(match media {
        Media::Json => document.bytes.clone(),
        Media::Yaml => serde_saphyr::to_string(&value()?).map_err(ApiError::internal)?.into(),
        Media::Protobuf => protobuf::encode(&value()?).map_err(ApiError::not_acceptable)?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_header_selects_the_form() {
        let aggregated = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        for (accept, want) in [
            ("", Some(Form::Legacy)),
            ("application/json", Some(Form::Legacy)),
            ("application/vnd.kubernetes.protobuf", Some(Form::Legacy)),
            ("text/html", None),
            (&*format!("application/json;{aggregated}"), Some(Form::Aggregated(Media::Json))),
            (&*format!("application/yaml;{aggregated}"), Some(Form::Aggregated(Media::Yaml))),
            (
                &*format!("application/vnd.kubernetes.protobuf;{aggregated}"),
                Some(Form::Aggregated(Media::Protobuf)),
            ),
            (
                &*format!("application/json;{aggregated},application/vnd.kubernetes.protobuf"),
                Some(Form::Aggregated(Media::Json)),
            ),
            (
                &*format!("application/vnd.kubernetes.protobuf,application/json;{aggregated}"),
                Some(Form::Legacy),
            ),
            ("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList", None),
        ] {
            assert_eq!(form(Some(accept)).ok(), want, "{accept}");
        }
    }

    #[test]
    fn storage_version_hash_is_upstreams() {
        assert_eq!(storage_version_hash("apps", "v1", "Deployment"), "8aSe+NMegvE=");
    }

    #[test]
    fn aggregated_document_has_a_form_in_every_format() {
        for media in [Media::Json, Media::Yaml, Media::Protobuf] {
            let bytes = encoded(media, &CORE).unwrap_or_default();
            assert!(bytes.windows(4).any(|part| part == b"pods"), "{media:?}");
        }
    }
}
