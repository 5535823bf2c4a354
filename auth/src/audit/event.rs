//! The record of one stage of a request.
//!
//! The events of a request share a [`RequestRecord`], which does not change after the request has arrived.
//!
//! Upstream: apiserver `pkg/audit/request.go`, `pkg/audit/context.go`.

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderMap, header};
use jiff::Timestamp;
use orlop_api::status::ApiError;

use crate::UserInfo;
use crate::request_info::{RequestInfo, RequestTarget, ResourceTarget};

use super::level::{Level, Stage};

/// Marks a text that was cut (upstream's suffix for user agents).
const TRUNCATED: &str = "...TRUNCATED";
/// Maximum length of a user agent, bytes (upstream: maxUserAgentLength).
const USER_AGENT_MAX: usize = 1024;
/// Maximum length of the URI of a request, bytes: clients choose it, and the log is limited.
const URI_MAX: usize = 8 << 10;
/// The same for a request without an authenticated user.
const UNAUTHENTICATED_URI_MAX: usize = 1 << 10;
/// Maximum length of a message, bytes: messages quote objects.
const MESSAGE_MAX: usize = 4 << 10;

/// The properties of a request at its arrival.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    /// How much is recorded.
    pub level: Level,
    /// The `Audit-ID`.
    pub audit_id: String,
    /// Path and query.
    pub uri: String,
    /// The verb and the target.
    pub info: Arc<RequestInfo>,
    /// The authenticated user; `None` if authentication failed.
    pub user: Option<UserInfo>,
    /// The addresses of the client and of its proxies.
    pub source_ips: Vec<String>,
    /// The user agent, which the client chooses.
    pub user_agent: String,
    /// When the request arrived.
    pub received: Timestamp,
}

/// The properties of a request that later steps determine.
#[derive(Clone, Debug, Default)]
pub struct RequestProgress {
    /// The user that the request acts as.
    pub impersonated: Option<UserInfo>,
    /// The verb of constrained impersonation that permits this user; empty for unconstrained impersonation.
    pub impersonation_constraint: String,
    /// The object in the body of the request.
    pub object: ObjectNames,
    /// The result.
    pub status: Option<ResponseStatus>,
    /// Annotations in the order of their addition. Of several with one key, the first counts.
    pub annotations: Vec<(Cow<'static, str>, String)>,
}

/// The identity of an object in the body of a request. Empty texts stand for absent values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectNames {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version that the client has read.
    pub resource_version: String,
}

/// The result of a request: the parts of a `metav1.Status` whose size is bounded. Empty texts and 0 stand for absent values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseStatus {
    /// `Failure`, or empty.
    pub status: &'static str,
    /// The message of an error.
    pub message: String,
    /// The reason of an error, such as `NotFound`.
    pub reason: &'static str,
    /// The HTTP status code.
    pub code: u16,
}

/// The record of one stage of a request, without bodies.
#[derive(Clone, Debug)]
pub struct Event {
    /// The request.
    pub request: Arc<RequestRecord>,
    /// The stage.
    pub stage: Stage,
    /// When the request reached the stage.
    pub at: Timestamp,
    /// The properties that are known at this stage.
    pub progress: RequestProgress,
}

impl RequestRecord {
    /// Whether anyone could have sent the request: it has no user, or the user for requests without credentials.
    pub fn is_unauthenticated(&self) -> bool {
        !UserInfo::is_authenticated(self.user.as_ref())
    }
}

impl ResponseStatus {
    /// The status of a response that is no error of the API.
    pub fn of_code(code: u16) -> Self {
        ResponseStatus { code, ..Self::default() }
    }

    /// The status of an error.
    pub fn of_error(error: &ApiError) -> Self {
        let message = truncated(&error.message, MESSAGE_MAX);
        ResponseStatus { status: "Failure", message, reason: error.reason, code: error.code }
    }

    /// Removes a message that may quote the body of a request for a resource that contains credentials.
    pub fn without_credentials(mut self, target: &RequestTarget) -> Self {
        let quotes_body = matches!(self.code, 400 | 422 | 500);
        if quotes_body && has_credentials(target) {
            self.message.clear();
        }
        self
    }
}

/// Whether the bodies of requests for a resource contain credentials.
fn has_credentials(target: &RequestTarget) -> bool {
    match target {
        RequestTarget::Path(_) => false,
        RequestTarget::Resource(ResourceTarget { group, resource, subresource, .. }) => {
            matches!(
                (group.as_str(), resource.as_str(), subresource.as_str()),
                ("", "secrets", _)
                    | ("", "serviceaccounts", "token")
                    | ("authentication.k8s.io", "tokenreviews", _)
            )
        }
    }
}

/// The user agent of a request, as far as it is recorded.
pub fn user_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()));
    truncated(&agent.unwrap_or_default(), USER_AGENT_MAX)
}

/// The URI of a request, as far as it is recorded. Anyone can send requests without an authenticated user, so theirs is shorter.
pub fn request_uri(uri: &http::Uri, is_authenticated: bool) -> String {
    let text = uri.path_and_query().map_or("/", |text| text.as_str());
    truncated(text, if is_authenticated { URI_MAX } else { UNAUTHENTICATED_URI_MAX })
}

/// A text of at most `max` bytes, without the suffix that marks a cut.
fn truncated(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("{}{TRUNCATED}", &text[..text.floor_char_boundary(max)])
}

impl Event {
    /// About how many bytes of memory the event occupies. The request counts for each of its events.
    pub fn size(&self) -> usize {
        let request = &self.request;
        let user = |user: &UserInfo| -> usize {
            let extra = user.extra.iter().map(|(key, values)| key.len() + texts(values) + 64);
            user.username.len() + user.uid.len() + texts(&user.groups) + extra.sum::<usize>()
        };
        let target = match &request.info.target {
            RequestTarget::Path(path) => path.len(),
            RequestTarget::Resource(at) => {
                let parts = [&at.group, &at.version, &at.namespace, &at.resource, &at.subresource, &at.name];
                parts.into_iter().map(String::len).sum::<usize>() + at.selection.size() + 32
            }
        };
        let object = &self.progress.object;
        let annotations = self.progress.annotations.iter().map(|(key, text)| key.len() + text.len() + 48);
        size_of::<RequestRecord>()
            + size_of::<RequestInfo>()
            + size_of::<Event>()
            + request.audit_id.len()
            + request.uri.len()
            + request.info.verb.len()
            + request.user_agent.len()
            + target
            + texts(&request.source_ips)
            + request.user.as_ref().map_or(0, user)
            + self.progress.impersonated.as_ref().map_or(0, user)
            + self.progress.impersonation_constraint.len()
            + object.namespace.len()
            + object.name.len()
            + object.uid.len()
            + object.resource_version.len()
            + self.progress.status.as_ref().map_or(0, |status| status.message.len())
            + annotations.sum::<usize>()
    }
}

fn texts(all: &[String]) -> usize {
    all.iter().map(|text| text.len() + size_of::<String>()).sum()
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// An event of a request of `ann` for a pod.
    pub(in crate::audit) fn event(stage: Stage) -> Event {
        let received: Timestamp = "2026-01-02T03:04:05.000006Z".parse().expect("a time");
        let target = ResourceTarget {
            version: "v1".to_owned(),
            namespace: "n".to_owned(),
            resource: "pods".to_owned(),
            name: "a".to_owned(),
            ..ResourceTarget::default()
        };
        let request = RequestRecord {
            level: Level::Metadata,
            audit_id: "id-1".to_owned(),
            uri: "/api/v1/namespaces/n/pods/a".to_owned(),
            info: Arc::new(RequestInfo { verb: "get".into(), target: RequestTarget::Resource(target) }),
            user: Some(UserInfo::new("ann", ["devs".to_owned()])),
            source_ips: vec!["10.0.0.1".to_owned()],
            user_agent: "kubectl/v1.36.0".to_owned(),
            received,
        };
        let at = "2026-01-02T03:04:06Z".parse().expect("a time");
        Event { request: Arc::new(request), stage, at, progress: RequestProgress::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_clients_are_limited() {
        let mut headers = HeaderMap::new();
        assert_eq!(user_agent(&headers), "");
        headers.insert(header::USER_AGENT, "kubectl".parse().expect("a header"));
        assert_eq!(user_agent(&headers), "kubectl");
        let long = "é".repeat(USER_AGENT_MAX);
        headers.insert(header::USER_AGENT, http::HeaderValue::from_bytes(long.as_bytes()).expect("a header"));
        let found = user_agent(&headers);
        assert!(
            found.len() == USER_AGENT_MAX + TRUNCATED.len() && found.ends_with("é...TRUNCATED"),
            "{found}"
        );
        let long: http::Uri = format!("/a?b={}", "c".repeat(URI_MAX)).parse().expect("a URI");
        assert_eq!(request_uri(&long, true).len(), URI_MAX + TRUNCATED.len());
        assert_eq!(request_uri(&long, false).len(), UNAUTHENTICATED_URI_MAX + TRUNCATED.len());
        assert_eq!(request_uri(&"https://host:1/a?b=c".parse().expect("a URI"), true), "/a?b=c");
        let error = ApiError::bad_request("x".repeat(2 * MESSAGE_MAX));
        assert_eq!(ResponseStatus::of_error(&error).message.len(), MESSAGE_MAX + TRUNCATED.len());
    }

    #[test]
    fn messages_about_credentials_are_removed() {
        let target = |group: &str, resource: &str, subresource: &str| {
            RequestTarget::Resource(ResourceTarget {
                group: group.to_owned(),
                resource: resource.to_owned(),
                subresource: subresource.to_owned(),
                ..ResourceTarget::default()
            })
        };
        for (at, code, want) in [
            (target("", "secrets", ""), 422, ""),
            (target("", "secrets", ""), 400, ""),
            (target("", "secrets", ""), 404, "why"),
            (target("", "secrets", ""), 403, "why"),
            (target("x.example", "secrets", ""), 422, "why"),
            (target("", "configmaps", ""), 422, "why"),
            (target("", "serviceaccounts", "token"), 400, ""),
            (target("", "serviceaccounts", ""), 400, "why"),
            (target("authentication.k8s.io", "tokenreviews", ""), 400, ""),
            (RequestTarget::Path("/secrets".to_owned()), 400, "why"),
        ] {
            let status = ResponseStatus { message: "why".to_owned(), code, ..ResponseStatus::default() };
            assert_eq!(status.without_credentials(&at).message, want, "{at:?} {code}");
        }
    }

    #[test]
    fn size_grows_with_the_texts() {
        let small = testing::event(Stage::ResponseComplete);
        let mut large = small.clone();
        large.progress.annotations.push(("a".into(), "x".repeat(5000)));
        assert!(small.size() > 300 && large.size() > small.size() + 5000);
    }
}
