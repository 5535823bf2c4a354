//! `get` and `list`: objects as they are now, or as they were at a revision. Only a list can read the past
//! (`resourceVersionMatch=Exact`); a get always returns the newest object, as upstream's does. A single object of
//! the past is therefore read as a list of one.

use serde_json::Value;

use super::error::{AskError, InsightError};
use super::kinds::{Object, ResourceKind, escaped};
use super::look::{Outcome, absent};
use super::names::Point;
use super::outcome::Ended;
use super::render::{self, Style};
use super::session::{JSON, Session, TABLE, failed};
use crate::args::ObjectOutput;

/// The objects to read, and the revision or time.
pub(crate) struct Get {
    pub(crate) kind: String,
    /// `None` reads all objects.
    pub(crate) name: Option<String>,
    /// `None` reads the current objects.
    pub(crate) as_of: Option<Point>,
    pub(crate) all_namespaces: bool,
    pub(crate) selector: Option<String>,
    pub(crate) output: ObjectOutput,
}

pub(super) async fn get(session: &Session, get: &Get, look: Style) -> Outcome {
    let kind = session.kind(&get.kind)?;
    let is_of_all = get.all_namespaces && kind.is_namespaced();
    if is_of_all && get.name.is_some() {
        return Err(InsightError::NameInAll { kind: kind.resource.clone() });
    }
    let revision = match &get.as_of {
        None => None,
        Some(point) => match session.revision(point).await? {
            none if none == "0" => return Err(InsightError::BeforeAll { when: point.to_string() }),
            revision => Some(revision),
        },
    };
    let namespace = (!is_of_all).then_some(session.namespace.as_str());
    let accept = match get.output {
        ObjectOutput::Table => TABLE,
        ObjectOutput::Yaml | ObjectOutput::Json => JSON,
    };
    let mut document = match session.get(&path(kind, namespace, get, revision.as_deref()), accept).await {
        Ok(document) => document,
        Err(cause) => return Err(refused(session, kind, get, cause).await),
    };
    if let (Some(name), Some(_)) = (&get.name, &revision) {
        let object = Object::new(kind, &session.namespace, name);
        let absent = || InsightError::WasNotThere {
            what: format!("get {}", object.shown()),
            named: object.as_argument(),
        };
        document = only(document).ok_or_else(absent)?;
    }
    let text = match get.output {
        ObjectOutput::Table if document["kind"] == "Table" => render::table(&document, is_of_all, look),
        ObjectOutput::Table => return Err(InsightError::NoTable { kind: kind.resource.clone() }),
        ObjectOutput::Json => render::json(&without_managed_fields(document)),
        ObjectOutput::Yaml => {
            let yaml = render::yaml(&without_managed_fields(document));
            yaml.map_err(|cause| InsightError::Yaml { kind: kind.resource.clone(), cause })?
        }
    };
    Ok((text, Ended::Well))
}

/// Path and query of the request.
fn path(kind: &ResourceKind, namespace: Option<&str>, get: &Get, revision: Option<&str>) -> String {
    let mut query = Vec::new();
    let mut name = get.name.as_deref();
    if let Some(revision) = revision {
        query.push(format!("resourceVersion={revision}&resourceVersionMatch=Exact"));
        if let Some(name) = name.take() {
            query.push(format!("fieldSelector={}", escaped(&format!("metadata.name={name}"))));
        }
    }
    if let Some(selector) = &get.selector {
        query.push(format!("labelSelector={}", escaped(selector)));
    }
    let path = kind.path(namespace, name);
    match query.is_empty() {
        true => path,
        false => format!("{path}?{}", query.join("&")),
    }
}

/// The single object of a list, or its table. `None` if the list is empty.
fn only(mut list: Value) -> Option<Value> {
    if let Some(rows) = list["rows"].as_array() {
        return (!rows.is_empty()).then_some(list);
    }
    let mut object = list["items"].as_array_mut()?.drain(..).next()?;
    // The items of a list have no kind of their own; it is derived from the list's.
    let kind = list["kind"].as_str().unwrap_or_default();
    object["kind"] = kind.strip_suffix("List").unwrap_or(kind).into();
    object["apiVersion"] = list["apiVersion"].take();
    Some(object)
}

/// Translates an error of the server.
async fn refused(session: &Session, kind: &ResourceKind, get: &Get, cause: AskError) -> InsightError {
    let object = get.name.as_ref().map(|name| Object::new(kind, &session.namespace, name));
    let what = format!("get {}", object.as_ref().map_or_else(|| kind.resource.clone(), Object::shown));
    if let Some(point) = get.as_of.as_ref().filter(|_| cause.is_expired())
        && let Some(oldest) = session.oldest().await
    {
        return InsightError::Forgotten { what, when: point.to_string(), oldest };
    }
    let Some(object) = object else { return failed(what)(cause) };
    // A server without orlop's API group has no history; its own message is used.
    match get.as_of.is_none() && session.has_insight {
        true => absent(session, &object, what, cause).await,
        false => InsightError::Ask { what, cause },
    }
}

/// Removes the managed fields, as kubectl does. `history` shows them better.
fn without_managed_fields(mut document: Value) -> Value {
    let remove = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    remove(&mut document);
    for item in document.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        remove(item);
    }
    document
}
