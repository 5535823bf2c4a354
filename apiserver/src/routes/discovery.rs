//! Discovery, legacy (one document per group) and aggregated (one document for all).

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use axum::routing::get;
use http::{HeaderMap, HeaderValue, header};
use orlop_apimachinery::version::version_order;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

use crate::custom::Served;
use crate::custom::documents::Discovery;
use crate::encode::answer;
use crate::encode::negotiate::{Endpoint, Media, error_media, negotiate};
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
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

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
enum Form {
    Aggregated,
    Legacy,
}

fn form(headers: &HeaderMap) -> Result<Form, ApiError> {
    for clause in accept(headers).unwrap_or_default().split(',').map(str::trim) {
        let params: Vec<&str> = clause.split(';').map(str::trim).collect();
        let aggregated = params.contains(&"as=APIGroupDiscoveryList");
        if !aggregated {
            if params
                .first()
                .is_some_and(|base| matches!(*base, "application/json" | "*/*" | "application/yaml"))
            {
                break;
            }
            continue;
        }
        if params[0] == "application/json"
            && params.contains(&"g=apidiscovery.k8s.io")
            && params.contains(&"v=v2")
        {
            return Ok(Form::Aggregated);
        }
    }
    negotiate(accept(headers), Endpoint::Single, false).map(|_| Form::Legacy)
}

/// Legacy documents have no protobuf encoding here. A client that requests it either accepts JSON as well, as
/// client-go does when it is set to protobuf, or receives a 406.
fn legacy(headers: &HeaderMap, document: &Value) -> Response {
    let given = accept(headers).unwrap_or_default();
    let is_text = |clause: &&str| !clause.trim_start().starts_with("application/vnd.kubernetes.protobuf");
    let text: Vec<&str> = given.split(',').filter(is_text).collect();
    let accept = if text.is_empty() { given.to_owned() } else { text.join(",") };
    let wanted = negotiate(Some(&accept), Endpoint::Single, false);
    wanted
        .and_then(|wanted| answer::value_answer(200, wanted, document))
        .unwrap_or_else(|error| refuse(headers, &error))
}

fn refuse(headers: &HeaderMap, error: &ApiError) -> Response {
    let media = match error_media(accept(headers)) {
        Media::Protobuf => Media::Json,
        media => media,
    };
    answer::error(error, media, false)
}

async fn core_versions(headers: HeaderMap) -> Response {
    let address = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match form(&headers) {
        Ok(Form::Aggregated) => aggregated(&headers, &CORE),
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
    match form(&headers) {
        Ok(Form::Aggregated) => match discovery(&server, &served, client.map(|client| client.0)).await {
            Ok(document) => aggregated(&headers, document),
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
    subs.sort_by_key(|sub| sub.name);
    subs
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
            "kind": names.kind, "verbs": kind.verbs(),
        });
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
    list.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    list
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
            let mut entry = json!({
                "resource": names.plural,
                "responseKind": {"group": "", "version": "", "kind": names.kind},
                "scope": scope, "singularResource": names.singular, "verbs": kind.verbs(),
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
                    let (group, version) = if own { ("", "") } else { (sub.group, sub.version) };
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

fn aggregated(headers: &HeaderMap, document: &Discovery) -> Response {
    let tag = format!("\"{}\"", document.tag);
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == tag.as_bytes());
    let mut response = if known {
        answer::body(304, AGGREGATED, Vec::new())
    } else {
        answer::body(200, AGGREGATED, document.bytes.clone())
    };
    let own = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        own.insert(header::ETAG, tag);
    }
    own.insert(header::VARY, HeaderValue::from_static("Accept"));
    own.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}
