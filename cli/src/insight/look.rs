//! The read-only commands of orlop's own group: `why`, `impact`, `history` and `diff`. Each returns the text for
//! stdout and the outcome.

use serde_json::Value;

use super::error::AskError;
use super::error::InsightError;
use super::kinds::{Object, escaped};
use super::names::{Named, Point};
use super::outcome::Ended;
use super::render::{self, Style, short};
use super::session::{JSON, Session};
use crate::args::TextOrJson;

pub(super) type Outcome = Result<(String, Ended), InsightError>;

pub(super) async fn why(session: &Session, named: &Named, output: TextOrJson, look: Style) -> Outcome {
    let object = session.object(named)?;
    let document = of_object(session, &object, "why", "explain").await?;
    let ended = match document["severity"].as_str() {
        Some("ok" | "waiting") => Ended::Well,
        // An unknown severity is treated as the worst.
        Some(_) | None => Ended::NeedsAttention,
    };
    let text = match output {
        TextOrJson::Text => render::why(&document, look),
        TextOrJson::Json => render::json(&document),
    };
    Ok((text, ended))
}

/// Shows the plan of a deletion without carrying it out.
pub(super) async fn impact(session: &Session, named: &Named, output: TextOrJson, look: Style) -> Outcome {
    let object = session.object(named)?;
    let document = of_object(session, &object, "impact", "show the impact of deleting").await?;
    let text = match output {
        TextOrJson::Text => render::plan(&document, look),
        TextOrJson::Json => render::json(&document),
    };
    Ok((text, Ended::Well))
}

/// Reads a subresource of an existing object.
async fn of_object(
    session: &Session,
    object: &Object,
    tail: &str,
    verb: &str,
) -> Result<Value, InsightError> {
    let what = format!("{verb} {}", object.shown());
    match session.get(&object.insight(tail), JSON).await {
        Ok(document) => Ok(document),
        Err(cause) => Err(absent(session, object, what, cause).await),
    }
}

/// The error for a missing object: when it was deleted, if the server knows.
pub(super) async fn absent(
    session: &Session,
    object: &Object,
    what: String,
    cause: AskError,
) -> InsightError {
    if cause.is_not_found() && session.has_insight {
        let document = session.get(&object.insight("history?limit=1"), JSON).await.unwrap_or_default();
        let last = &document["items"][0];
        if let (Some("DELETED"), Some(time), Some(revision)) =
            (last["type"].as_str(), last["time"].as_str(), last["revision"].as_str())
        {
            let (time, revision) = (short(time), revision.to_owned());
            let named = object.as_argument();
            // Attachments are created on demand and cannot be undeleted.
            return match object.kind.resource == "volumeattachments" {
                true => InsightError::Gone { what, time, revision, named },
                false => InsightError::Deleted { what, time, revision, named },
            };
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
    look: Style,
) -> Outcome {
    let object = session.object(named)?;
    let mut path = object.insight(&format!("history?limit={limit}"));
    if let Some(token) = token {
        path = format!("{path}&continue={}", escaped(token));
    }
    let document = session.insight(&path, format!("show the history of {}", object.shown())).await?;
    let text = match output {
        TextOrJson::Text => render::history(&document, &object.shown(), token.is_some(), look),
        TextOrJson::Json => render::json(&document),
    };
    Ok((text, Ended::Well))
}

pub(super) async fn diff(
    session: &Session,
    named: &Named,
    from: &Point,
    to: Option<&Point>,
    output: TextOrJson,
    look: Style,
) -> Outcome {
    let object = session.object(named)?;
    let mut path = object.insight(&format!("diff?from={}", session.revision(from).await?));
    if let Some(to) = to {
        path = format!("{path}&to={}", session.revision(to).await?);
    }
    let document = session.insight(&path, format!("show the differences of {}", object.shown())).await?;
    let text = match output {
        TextOrJson::Text => render::diff(&document, &object.shown(), look),
        TextOrJson::Json => render::json(&document),
    };
    Ok((text, Ended::Well))
}
