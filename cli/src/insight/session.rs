//! A session with one server: discovers its kinds once, sends and receives JSON, and returns errors in the
//! server's words.

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use super::error::{AskError, InsightError};
use super::kinds::{self, GROUP, Object, ResourceKind, escaped};
use super::names::{Named, Point};

/// The media type of aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
pub(super) const JSON: &str = "application/json";
pub(super) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// A server and its kinds.
pub(super) struct Session {
    client: Client,
    /// The default namespace.
    pub(super) namespace: String,
    kinds: Vec<ResourceKind>,
    /// Whether the server has orlop's API group.
    pub(super) has_insight: bool,
}

impl Session {
    /// Connects to the server and discovers its kinds.
    pub(super) async fn begin(client: Client, namespace: Option<&str>) -> Result<Self, InsightError> {
        let namespace = namespace.unwrap_or(client.default_namespace()).to_owned();
        let mut session = Session { client, namespace, kinds: Vec::new(), has_insight: false };
        for path in ["/api", "/apis"] {
            let discovery =
                session.get(path, AGGREGATED).await.map_err(failed("list the kinds of the server"))?;
            session.kinds.extend(kinds::read(&discovery));
            session.has_insight |= kinds::has_insight(&discovery);
        }
        // `orlop apiserver` serves the group without listing it.
        if !session.has_insight {
            session.has_insight = session.answers_insight().await;
        }
        Ok(session)
    }

    /// Whether the paths of orlop's API group exist, even if discovery does not list them.
    async fn answers_insight(&self) -> bool {
        self.get(&format!("{GROUP}/revisions"), JSON).await.is_ok()
    }

    /// Finds the kind that a word names.
    pub(super) fn kind(&self, word: &str) -> Result<&ResourceKind, InsightError> {
        Ok(kinds::find(&self.kinds, word)?)
    }

    /// Finds the object that a name refers to.
    pub(super) fn object(&self, named: &Named) -> Result<Object, InsightError> {
        Ok(Object::new(self.kind(&named.kind)?, &self.namespace, &named.name))
    }

    /// Resolves a point in time to a revision.
    pub(super) async fn revision(&self, point: &Point) -> Result<String, InsightError> {
        let time = match point {
            Point::Revision(revision) => return Ok(revision.to_string()),
            Point::Time(time) => time.to_string(),
        };
        let path = format!("{GROUP}/revisions?at={}", escaped(&time));
        let what = format!("find the revision of {time}");
        let document = self.insight(&path, what).await?;
        match &document["revision"] {
            Value::String(revision) => Ok(revision.clone()),
            Value::Number(revision) => Ok(revision.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                Err(InsightError::NoRevision { time })
            }
        }
    }

    /// The oldest revision that the server still has, if known.
    pub(super) async fn oldest(&self) -> Option<String> {
        let document = self.get(&format!("{GROUP}/revisions"), JSON).await.ok()?;
        document["oldest"]["revision"].as_str().map(str::to_owned)
    }

    /// Reads a path of orlop's API group.
    pub(super) async fn insight(&self, path: &str, what: String) -> Result<Value, InsightError> {
        self.get(path, JSON).await.map_err(|cause| self.explained(what, cause))
    }

    /// A server without the group returns "not found" for all of its paths.
    pub(super) fn explained(&self, what: String, cause: AskError) -> InsightError {
        match cause.is_not_found() && !self.has_insight {
            true => InsightError::Foreign { what },
            false => InsightError::Ask { what, cause },
        }
    }

    pub(super) async fn get(&self, path: &str, accept: &str) -> Result<Value, AskError> {
        self.json(Request::get(path).header(http::header::ACCEPT, accept).body(Body::empty())?).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, AskError> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(http::header::ACCEPT, JSON)
            .header(http::header::CONTENT_TYPE, JSON)
            .body(Body::from(body.to_string().into_bytes()))?;
        self.json(request).await
    }

    async fn json(&self, request: Request<Body>) -> Result<Value, AskError> {
        let bytes = all(self.send(request).await?).await?;
        serde_json::from_slice(&bytes).map_err(AskError::NoJson)
    }

    /// Starts reading an answer that may be long. Returns once the status is a success.
    pub(super) async fn open(&self, path: &str) -> Result<Response<Body>, AskError> {
        self.send(Request::get(path).body(Body::empty())?).await
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, AskError> {
        let response = self.client.send(request).await.map_err(|error| AskError::Away(Box::new(error)))?;
        let code = response.status();
        if code.is_success() {
            return Ok(response);
        }
        let bytes = all(response).await?;
        // The message of a server on loopback describes where to find credentials.
        let message = refusal(code, &bytes);
        if code == StatusCode::UNAUTHORIZED && !message.starts_with("Unauthorized: ") {
            let message = "the server rejects the credentials (Unauthorized): check the token or the client certificate";
            return Err(AskError::Refused { code, message: message.to_owned() });
        }
        Err(AskError::Refused { code, message })
    }
}

async fn all(response: Response<Body>) -> Result<bytes::Bytes, AskError> {
    let collected = response.into_body().collect().await;
    Ok(collected.map_err(|error| AskError::BrokenOff(error.to_string()))?.to_bytes())
}

/// The error message in a response body of any format.
fn refusal(code: StatusCode, body: &[u8]) -> String {
    let document = serde_json::from_slice::<Value>(body).ok();
    let message = document.as_ref().and_then(|document| document["message"].as_str());
    let text = message.map_or_else(|| String::from_utf8_lossy(body).trim().to_owned(), plain);
    if text.is_empty() { code.to_string() } else { text }
}

/// Removes upstream's boilerplate from a message: the object is named already, and a revision in the future is
/// not a timeout.
fn plain(message: &str) -> String {
    if let Some((_, reason)) = message
        .strip_prefix("Operation cannot be fulfilled on ")
        .and_then(|rest| rest.split_once("\": "))
        .filter(|(object, _)| object.contains(" \""))
    {
        return reason.to_owned();
    }
    if let Some((asked, newest)) = message
        .strip_prefix("Timeout: ")
        .unwrap_or(message)
        .strip_prefix("Too large resource version: ")
        .and_then(|rest| rest.split_once(", current: "))
    {
        return format!("revision {asked} is in the future; the newest is {newest}");
    }
    message.to_owned()
}

/// Adds the failed operation to an error.
pub(super) fn failed(what: impl Into<String>) -> impl FnOnce(AskError) -> InsightError {
    let what = what.into();
    move |cause| InsightError::Ask { what, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boilerplate_of_messages_is_removed() {
        for (message, wanted) in [
            (
                "Operation cannot be fulfilled on persistentvolumes \"a\": it is Bound: see",
                "it is Bound: see",
            ),
            ("Operation cannot be fulfilled on nothing", "Operation cannot be fulfilled on nothing"),
            (
                "Timeout: Too large resource version: 9, current: 3",
                "revision 9 is in the future; the newest is 3",
            ),
            ("pods \"a\" not found", "pods \"a\" not found"),
        ] {
            assert_eq!(plain(message), wanted);
        }
        assert_eq!(refusal(StatusCode::BAD_GATEWAY, b""), "502 Bad Gateway");
        assert_eq!(refusal(StatusCode::BAD_GATEWAY, b"a proxy\n"), "a proxy");
    }
}
