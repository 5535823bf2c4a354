//! What only reads: `why`, `impact`, `history`, `diff`, `get` and `list`. Each gives the text of stdout and how it ended.

use serde_json::Value;

use super::kinds::{Object, escaped};
use super::names::{Named, Point};
use super::render::{self, Look, short};
use super::session::{AskError, JSON, Session, TABLE, failed};
use super::{Ended, Get, InsightError};
use crate::cli::{ObjectOutput, TextOrJson};

type Told = Result<(String, Ended), InsightError>;

pub(super) async fn why(session: &Session, named: &Named, output: TextOrJson, look: Look) -> Told {
    let object = session.object(named)?;
    let told = of_object(session, &object, "why", "explain").await?;
    let ended = match told["severity"].as_str() {
        Some("ok" | "waiting") => Ended::Well,
        // A word that is not known yet is worse than one that is.
        Some(_) | None => Ended::NeedsAttention,
    };
    let text = match output {
        TextOrJson::Text => render::why(&told, look),
        TextOrJson::Json => render::json(&told),
    };
    Ok((text, ended))
}

/// The plan of a deletion that nobody carries out.
pub(super) async fn impact(session: &Session, named: &Named, output: TextOrJson, look: Look) -> Told {
    let object = session.object(named)?;
    let told = of_object(session, &object, "impact", "tell what goes with").await?;
    let text = match output {
        TextOrJson::Text => render::plan(&told, look),
        TextOrJson::Json => render::json(&told),
    };
    Ok((text, Ended::Well))
}

/// Something about an object that is there.
async fn of_object(
    session: &Session,
    object: &Object,
    tail: &str,
    verb: &str,
) -> Result<Value, InsightError> {
    let what = format!("{verb} {}", object.shown());
    match session.get(&object.insight(tail), JSON).await {
        Ok(told) => Ok(told),
        Err(cause) => Err(absent(session, object, what, cause).await),
    }
}

/// Of what is not there: when it went, if the server knows.
async fn absent(session: &Session, object: &Object, what: String, cause: AskError) -> InsightError {
    if cause.is_not_found() && session.has_insight {
        let told = session.get(&object.insight("history?limit=1"), JSON).await.unwrap_or_default();
        let last = &told["items"][0];
        if let (Some("DELETED"), Some(time), Some(revision)) =
            (last["type"].as_str(), last["time"].as_str(), last["revision"].as_str())
        {
            let (time, revision) = (short(time), revision.to_owned());
            return InsightError::Deleted { what, time, revision, named: object.as_argument() };
        }
    }
    session.explained(what, cause)
}

pub(super) async fn history(
    session: &Session,
    named: &Named,
    limit: u32,
    token: Option<&str>,
    output: TextOrJson,
    look: Look,
) -> Told {
    let object = session.object(named)?;
    let mut path = object.insight(&format!("history?limit={limit}"));
    if let Some(token) = token {
        path = format!("{path}&continue={}", escaped(token));
    }
    let told = session.insight(&path, format!("tell the history of {}", object.shown())).await?;
    let text = match output {
        TextOrJson::Text => render::history(&told, &object.shown(), look),
        TextOrJson::Json => render::json(&told),
    };
    Ok((text, Ended::Well))
}

pub(super) async fn diff(
    session: &Session,
    named: &Named,
    from: &Point,
    to: Option<&Point>,
    output: TextOrJson,
    look: Look,
) -> Told {
    let object = session.object(named)?;
    let mut path = object.insight(&format!("diff?from={}", session.revision(from).await?));
    if let Some(to) = to {
        path = format!("{path}&to={}", session.revision(to).await?);
    }
    let told = session.insight(&path, format!("compare {} with what it was", object.shown())).await?;
    let text = match output {
        TextOrJson::Text => render::diff(&told, &object.shown(), look),
        TextOrJson::Json => render::json(&told),
    };
    Ok((text, Ended::Well))
}

pub(super) async fn get(session: &Session, get: &Get, look: Look) -> Told {
    let kind = session.kind(&get.kind)?;
    let is_of_all = get.all_namespaces && kind.is_namespaced();
    if is_of_all && get.name.is_some() {
        return Err(InsightError::NameInAll { kind: kind.resource.clone() });
    }
    let namespace = (!is_of_all).then_some(session.namespace.as_str());
    let mut query = Vec::new();
    if let Some(point) = &get.as_of {
        let revision = session.revision(point).await?;
        if revision == "0" {
            return Err(InsightError::BeforeAll { when: point.to_string() });
        }
        query.push(format!("resourceVersion={revision}&resourceVersionMatch=Exact"));
    }
    if let Some(selector) = &get.selector {
        query.push(format!("labelSelector={}", escaped(selector)));
    }
    // A get gives the newest object whatever it is asked for; only lists know the past.
    let listed = get.name.as_deref().filter(|_| get.as_of.is_some());
    if let Some(name) = listed {
        query.push(format!("fieldSelector={}", escaped(&format!("metadata.name={name}"))));
    }
    let mut path = kind.path(namespace, get.name.as_deref().filter(|_| listed.is_none()));
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    let accept = match get.output {
        ObjectOutput::Table => TABLE,
        ObjectOutput::Yaml | ObjectOutput::Json => JSON,
    };
    let mut told = match (session.get(&path, accept).await, &get.name) {
        (Ok(told), _) => told,
        (Err(cause), Some(name)) if get.as_of.is_none() => {
            let object = Object::new(kind, &session.namespace, name);
            let what = format!("get {}", object.shown());
            // A server of another kind knows nothing of what was; then its own words will do.
            return Err(match session.has_insight {
                true => absent(session, &object, what, cause).await,
                false => InsightError::Ask { what, cause },
            });
        }
        (Err(cause), Some(name)) => {
            let what = format!("get {}", Object::new(kind, &session.namespace, name).shown());
            return Err(InsightError::Ask { what, cause });
        }
        (Err(cause), None) => return Err(failed(format!("get {}", kind.resource))(cause)),
    };
    if let Some(name) = listed {
        let found = told.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take);
        let rows = told["rows"].as_array().map_or(0, Vec::len);
        match found.and_then(|found| found.into_iter().next()) {
            Some(mut object) => {
                // Items of a list do not say what they are.
                let is = told["kind"].as_str().unwrap_or_default().trim_end_matches("List").to_owned();
                object["kind"] = is.into();
                object["apiVersion"] = told["apiVersion"].take();
                told = object;
            }
            None if rows > 0 => {}
            None => {
                let what = format!("get {}", Object::new(kind, &session.namespace, name).shown());
                return Err(InsightError::WasNotThere { what });
            }
        }
    }
    let text = match get.output {
        ObjectOutput::Table if told["kind"] == "Table" => render::table(&told, is_of_all, look),
        ObjectOutput::Table => return Err(InsightError::NoTable { kind: kind.resource.clone() }),
        ObjectOutput::Json => {
            without_managed_fields(&mut told);
            render::json(&told)
        }
        ObjectOutput::Yaml => {
            without_managed_fields(&mut told);
            let yaml = render::yaml(&told);
            yaml.map_err(|cause| InsightError::Yaml { kind: kind.resource.clone(), cause })?
        }
    };
    Ok((text, Ended::Well))
}

/// They say who wrote which field, which `history` says better. kubectl leaves them out, too.
fn without_managed_fields(told: &mut Value) {
    let remove = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    remove(told);
    for item in told.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        remove(item);
    }
}
