//! The HTTP layer of the fake API server: paths, verbs, watches, discovery, faults.

use std::collections::HashMap;
use std::convert::Infallible;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use super::fake_api::{FakeApi, FaultKind, Write, broken};
use super::store::{Answer, Change, ErrorStatus, FakeResource, KINDS, text};

type Reply = Response<UnsyncBoxBody<Bytes, BoxError>>;

struct Call {
    kind: &'static FakeResource,
    namespace: String,
    name: String,
    sub: String,
    verb: &'static str,
    query: HashMap<String, String>,
    metadata_only: bool,
    body: Value,
}

pub(super) async fn answer(api: FakeApi, request: Request<Body>) -> Result<Reply, BoxError> {
    let (parts, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    let path = parts.uri.path().to_owned();
    {
        let mut state = api.state();
        if state.away {
            return Err("the server is away".into());
        }
        state.requests.push(format!("{} {path}", parts.method));
        let is_in = |given: &String| path == *given || given.ends_with('/') && path.starts_with(given);
        if state.unavailable.iter().any(is_in) {
            return Ok(status(&ErrorStatus(503, "ServiceUnavailable", "service unavailable".into())));
        }
    }
    if let Some(document) = discovery(&path) {
        return fault(&api, "get", "discovery")
            .map_or_else(|| Ok(reply(200, &document)), |kind| refuse(&kind));
    }
    let Some(mut call) = parse(&parts.method, &path, parts.uri.query().unwrap_or_default()) else {
        return Ok(status(&ErrorStatus(
            404,
            "NotFound",
            "the server could not find the requested resource".into(),
        )));
    };
    call.body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let accept = parts.headers.get("accept").and_then(|v| v.to_str().ok()).unwrap_or_default();
    call.metadata_only = accept.contains("as=PartialObjectMetadata");
    let mut lost = false;
    match fault(&api, call.verb, &resource_of(&call)) {
        Some(FaultKind::AnswerLost) => lost = true,
        Some(kind) => return refuse(&kind),
        None => {}
    }
    if call.verb == "watch" {
        return Ok(watch(&api, call));
    }
    let result = serve(&api, &call);
    if lost {
        return Err(broken().2.into());
    }
    Ok(match result {
        Ok(object) => reply(if call.verb == "create" { 201 } else { 200 }, &object),
        Err(refusal) => status(&refusal),
    })
}

fn refuse(kind: &FaultKind) -> Result<Reply, BoxError> {
    match kind {
        FaultKind::Status(code, reason, message) => {
            Ok(status(&ErrorStatus(*code, reason, (*message).to_owned())))
        }
        FaultKind::Broken | FaultKind::AnswerLost => Err(broken().2.into()),
    }
}

fn resource_of(call: &Call) -> String {
    if call.sub.is_empty() {
        call.kind.plural.to_owned()
    } else {
        format!("{}/{}", call.kind.plural, call.sub)
    }
}

fn fault(api: &FakeApi, verb: &str, resource: &str) -> Option<FaultKind> {
    let write = !matches!(verb, "get" | "list" | "watch");
    let mut state = api.state();
    let matches = |f: &super::Fault| {
        let verb_fits = f.verb.is_empty() || f.verb == verb || f.verb == "write" && write;
        verb_fits && (f.resource == resource || f.resource.is_empty() && resource != "events")
    };
    let mut hit = None;
    for (index, fault) in state.faults.iter_mut().enumerate() {
        if !matches(fault) {
            continue;
        }
        if fault.skip > 0 {
            fault.skip -= 1;
        } else if hit.is_none() {
            hit = Some(index);
        }
    }
    hit.map(|index| state.faults.remove(index).kind)
}

fn parse(method: &Method, path: &str, query: &str) -> Option<Call> {
    let decode =
        |s: &str| percent_encoding::percent_decode_str(&s.replace('+', " ")).decode_utf8_lossy().into_owned();
    let query: HashMap<String, String> =
        query.split('&').filter_map(|p| p.split_once('=')).map(|(k, v)| (decode(k), decode(v))).collect();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, mut rest) = match parts.as_slice() {
        ["api", "v1", rest @ ..] => ("", rest),
        ["apis", group, "v1", rest @ ..] => (*group, rest),
        _ => return None,
    };
    let mut namespace = "";
    if let ["namespaces", ns, tail @ ..] = rest
        && !tail.is_empty()
        && !matches!(tail, ["status" | "finalize"])
    {
        (namespace, rest) = (ns, tail);
    }
    let (plural, name, sub) = match rest {
        [plural] => (*plural, "", ""),
        [plural, name] => (*plural, *name, ""),
        [plural, name, sub] => (*plural, *name, *sub),
        _ => return None,
    };
    let kind = KINDS.iter().find(|k| k.group == group && k.plural == plural)?;
    let watching = query.get("watch").is_some_and(|w| w == "true" || w == "1");
    let verb = match (method.as_str(), name.is_empty()) {
        ("GET", true) if watching => "watch",
        ("GET", true) => "list",
        ("GET", false) => "get",
        ("POST", true) => "create",
        ("POST", false) if sub == "binding" || sub == "token" => "create",
        ("PUT", false) => "update",
        ("PATCH", false) => "patch",
        ("DELETE", false) => "delete",
        ("DELETE", true) => "deletecollection",
        _ => return None,
    };
    let (namespace, name, sub) = (namespace.to_owned(), name.to_owned(), sub.to_owned());
    Some(Call { kind, namespace, name, sub, verb, query, metadata_only: false, body: Value::Null })
}

fn serve(api: &FakeApi, call: &Call) -> Answer {
    let Call { kind, namespace, name, sub, body, .. } = call;
    if !matches!(call.verb, "get" | "list") {
        let name = if name.is_empty() { text(body, "/metadata/name") } else { name };
        let key = match (call.verb, namespace.is_empty()) {
            ("deletecollection", _) => namespace.clone(),
            (_, true) => name.to_owned(),
            (_, false) => format!("{namespace}/{name}"),
        };
        let (resource, subresource) = (kind.plural.to_owned(), sub.clone());
        api.state().writes.push(Write { verb: call.verb, resource, key, subresource, body: body.clone() });
    }
    api.change(|store, now| match call.verb {
        "get" => store.get(kind, namespace, name).map(|o| shown(call, o)),
        "list" => {
            let mut items: Vec<Value> = store
                .list(kind, namespace)
                .into_iter()
                .filter(|o| selected(call, o))
                .map(|o| shown(call, o))
                .collect();
            // The token contains the revision of the first page, so that a watch from there repeats later changes, and the last object.
            let key = |object: &Value| {
                (text(object, "/metadata/namespace").to_owned(), text(object, "/metadata/name").to_owned())
            };
            let token: Vec<&str> =
                call.query.get("continue").map_or(Vec::new(), |token| token.split('|').collect());
            let mut revision = store.revision.to_string();
            if let [first, namespace, name] = *token {
                first.clone_into(&mut revision);
                items.retain(|object| key(object) > (namespace.to_owned(), name.to_owned()));
            }
            let mut metadata = json!({"resourceVersion": revision});
            let limit = call.query.get("limit").and_then(|limit| limit.parse::<usize>().ok());
            if let Some(limit) = limit.filter(|limit| (1..items.len()).contains(limit)) {
                items.truncate(limit);
                let (namespace, name) = items.last().map(key).unwrap_or_default();
                metadata["continue"] = json!(format!("{revision}|{namespace}|{name}"));
            }
            let list = if call.metadata_only { "PartialObjectMetadata" } else { kind.kind };
            let version = if call.metadata_only { "meta.k8s.io/v1" } else { "v1" };
            Ok(json!({"apiVersion": version, "kind": format!("{list}List"),
                "metadata": metadata, "items": items}))
        }
        "create" if sub == "binding" => store.bind(kind, namespace, name, body),
        "create" if sub == "token" => {
            store.get(kind, namespace, name)?;
            Ok(token(name, body, now))
        }
        "create" => store.create(kind, namespace, body.clone(), false),
        "update" => store.replace(kind, namespace, name, sub, body),
        "patch" => store.merge(kind, namespace, name, sub, body).map(|o| shown(call, o)),
        "delete" => store.delete(kind, namespace, name, body, now),
        _ => {
            for object in store.list(kind, namespace) {
                store.delete(kind, namespace, text(&object, "/metadata/name"), body, now)?;
            }
            Ok(json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}))
        }
    })
}

/// A token of a service account. The token contains the account, the audiences and the creation time; it expires
/// after the requested time.
fn token(account: &str, request: &Value, now: &str) -> Value {
    let audiences = request.pointer("/spec/audiences").and_then(Value::as_array).cloned().unwrap_or_default();
    let audiences: Vec<&str> = audiences.iter().filter_map(Value::as_str).collect();
    let seconds = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(3600);
    let begins: jiff::Timestamp = now.parse().unwrap_or_default();
    let ends = begins.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(begins);
    let mut answer = request.clone();
    answer["status"] = json!({"token": format!("{account}:{}:{now}", audiences.join("+")),
        "expirationTimestamp": ends.to_string()});
    answer
}

/// Whether an object matches the field selector, of the form `a.b=c,...`.
fn selected(call: &Call, object: &Value) -> bool {
    let Some(selector) = call.query.get("fieldSelector") else { return true };
    selector.split(',').filter(|s| !s.is_empty()).all(|term| {
        let (field, value) = term.split_once('=').unwrap_or((term, ""));
        text(object, &format!("/{}", field.replace('.', "/"))) == value.trim_start_matches('=')
    })
}

fn shown(call: &Call, object: Value) -> Value {
    if !call.metadata_only {
        return object;
    }
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
}

fn watch(api: &FakeApi, call: Call) -> Reply {
    let from: u64 = call.query.get("resourceVersion").and_then(|v| v.parse().ok()).unwrap_or(0);
    if from < api.state().compacted {
        return status(&ErrorStatus(410, "Expired", "too old resource version".into()));
    }
    let body = StreamBody::new(changes(api.clone(), call, from).map(|line| Ok(http_body::Frame::data(line))));
    Response::new(BodyExt::map_err(body, |e: Infallible| match e {}).boxed_unsync())
}

fn changes(api: FakeApi, call: Call, from: u64) -> impl Stream<Item = Bytes> + Send {
    let revision = api.shared.revision.subscribe();
    let cut = api.shared.cut.subscribe();
    stream::unfold(
        (api, call, from, revision, cut),
        |(api, call, mut seen, mut revision, mut cut)| async move {
            loop {
                let lines: Vec<u8> = {
                    let state = api.state();
                    let first = state.store.log.partition_point(|change| change.revision <= seen);
                    seen = state.store.revision.max(seen);
                    state.store.log[first..]
                        .iter()
                        .filter_map(|change| line(&call, change))
                        .flatten()
                        .collect()
                };
                if !lines.is_empty() {
                    return Some((Bytes::from(lines), (api, call, seen, revision, cut)));
                }
                tokio::select! {
                    _ = cut.changed() => return None,
                    changed = revision.changed() => changed.ok()?,
                }
            }
        },
    )
}

fn line(call: &Call, change: &Change) -> Option<Vec<u8>> {
    let here = call.namespace.is_empty() || call.namespace == text(&change.object, "/metadata/namespace");
    if change.plural != call.kind.plural || !here || !selected(call, &change.object) {
        return None;
    }
    let event = json!({"type": change.type_, "object": shown(call, change.object.clone())});
    Some(format!("{event}\n").into_bytes())
}

fn discovery(path: &str) -> Option<Value> {
    let resources = |group: &str| -> Value {
        let served = KINDS.iter().filter(|k| k.group == group);
        let entries = served.flat_map(|k| {
            let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
            let main = json!({"name": k.plural, "singularName": "", "namespaced": k.namespaced, "kind": k.kind, "verbs": verbs});
            let status = json!({"name": format!("{}/status", k.plural), "singularName": "", "namespaced": k.namespaced,
                "kind": k.kind, "verbs": ["get", "patch", "update"]});
            if k.status { vec![main, status] } else { vec![main] }
        });
        Value::Array(entries.collect())
    };
    Some(match path {
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        "/apis" => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "apps",
            "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}, {"name": "storage.k8s.io",
            "versions": [{"groupVersion": "storage.k8s.io/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "storage.k8s.io/v1", "version": "v1"}}]}),
        "/api/v1" => json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources("")}),
        "/apis/apps/v1" => json!({"kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": "apps/v1", "resources": resources("apps")}),
        "/apis/storage.k8s.io/v1" => json!({"kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": "storage.k8s.io/v1", "resources": resources("storage.k8s.io")}),
        _ => return None,
    })
}

fn reply(code: u16, body: &Value) -> Reply {
    let body = Full::new(Bytes::from(body.to_string())).map_err(|e: Infallible| match e {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response
}

fn status(refusal: &ErrorStatus) -> Reply {
    let ErrorStatus(code, reason, message) = refusal;
    let body = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": code,
        "reason": reason, "message": message});
    reply(*code, &body)
}
