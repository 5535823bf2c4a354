//! The JSON of an event: `audit.k8s.io/v1`.
//!
//! Upstream: apiserver `pkg/apis/audit/v1/types.go`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::UserInfo;
use crate::request_info::RequestTarget;

use super::event::{Event, RequestProgress};

/// An event with the objects of its request, in upstream's order of fields.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventView<'e> {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    audit_id: &'e str,
    stage: &'static str,
    #[serde(rename = "requestURI")]
    request_uri: &'e str,
    verb: &'e str,
    user: UserView<'e>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<UserView<'e>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication_metadata: Option<AuthenticationView<'e>>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "<[_]>::is_empty")]
    source_ips: &'e [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<ObjectView<'e>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<StatusView<'e>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<&'e Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<&'e Value>,
    request_received_timestamp: MicroTime,
    stage_timestamp: MicroTime,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'e str, &'e str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticationView<'e> {
    impersonation_constraint: &'e str,
}

#[derive(Debug, Serialize)]
struct UserView<'e> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'e str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    groups: &'e [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'e BTreeMap<String, Vec<String>>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectView<'e> {
    #[serde(skip_serializing_if = "str::is_empty")]
    resource: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_group: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'e str,
}

#[derive(Debug, Serialize)]
struct StatusView<'e> {
    metadata: NoFields,
    #[serde(skip_serializing_if = "str::is_empty")]
    status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'static str,
    #[serde(skip_serializing_if = "is_zero")]
    code: u16,
}

#[derive(Debug, Serialize)]
struct NoFields {}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(code: &u16) -> bool {
    *code == 0
}

/// A time with exactly six digits for the fraction of a second (upstream: `metav1.MicroTime`).
#[derive(Debug)]
struct MicroTime(Timestamp);

impl Serialize for MicroTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.6}", self.0))
    }
}

impl<'e> UserView<'e> {
    fn new(user: &'e UserInfo) -> Self {
        UserView {
            username: &user.username,
            uid: &user.uid,
            groups: &user.groups,
            extra: Some(&user.extra).filter(|extra| !extra.is_empty()),
        }
    }
}

/// Requests that failed authentication have no user.
const NO_USER: UserView<'static> = UserView { username: "", uid: "", groups: &[], extra: None };

impl Event {
    /// The JSON of the event, with the objects of the request and the response if they are recorded.
    pub fn view<'e>(
        &'e self,
        request_object: Option<&'e Value>,
        response_object: Option<&'e Value>,
    ) -> EventView<'e> {
        let Event { request, stage, at, progress } = self;
        let mut annotations = BTreeMap::new();
        for (key, text) in &progress.annotations {
            annotations.entry(key.as_ref()).or_insert(text.as_str());
        }
        let constraint = progress.impersonation_constraint.as_str();
        EventView {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: request.level.name(),
            audit_id: &request.audit_id,
            stage: stage.name(),
            request_uri: &request.uri,
            verb: cut(&request.info.verb),
            user: request.user.as_ref().map_or(NO_USER, UserView::new),
            impersonated_user: progress.impersonated.as_ref().map(UserView::new),
            authentication_metadata: (!constraint.is_empty())
                .then_some(AuthenticationView { impersonation_constraint: constraint }),
            source_ips: &request.source_ips,
            user_agent: &request.user_agent,
            object_ref: object_ref(&request.info.target, progress),
            response_status: progress.status.as_ref().map(|status| StatusView {
                metadata: NoFields {},
                status: status.status,
                message: &status.message,
                reason: status.reason,
                code: status.code,
            }),
            request_object,
            response_object,
            request_received_timestamp: MicroTime(request.received),
            stage_timestamp: MicroTime(*at),
            annotations,
        }
    }
}

/// A part of a path that no valid request has longer: the client chooses it.
fn cut(text: &str) -> &str {
    const PART_MAX: usize = 512;
    &text[..text.floor_char_boundary(PART_MAX.min(text.len()))]
}

/// The target of the request. The body names the object if the path does not.
fn object_ref<'e>(target: &'e RequestTarget, progress: &'e RequestProgress) -> Option<ObjectView<'e>> {
    let at = match target {
        RequestTarget::Path(_) => return None,
        RequestTarget::Resource(at) => at,
    };
    let object = &progress.object;
    let or = |text: &'e str, other: &'e str| if text.is_empty() { other } else { text };
    Some(ObjectView {
        resource: cut(&at.resource),
        namespace: cut(or(&at.namespace, &object.namespace)),
        name: cut(or(&at.name, &object.name)),
        uid: &object.uid,
        api_group: cut(&at.group),
        api_version: cut(&at.version),
        resource_version: &object.resource_version,
        subresource: cut(&at.subresource),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::audit::event::testing::event;
    use crate::audit::{ObjectNames, ResponseStatus, Stage};

    #[test]
    fn event_has_upstreams_fields_in_order() {
        let mut event = event(Stage::ResponseComplete);
        let text = serde_json::to_string(&event.view(None, None)).expect("JSON");
        assert_eq!(
            text,
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"id-1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/n/pods/a","verb":"get","user":{"username":"ann","groups":["devs","system:authenticated"]},"sourceIPs":["10.0.0.1"],"userAgent":"kubectl/v1.36.0","objectRef":{"resource":"pods","namespace":"n","name":"a","apiVersion":"v1"},"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z","stageTimestamp":"2026-01-02T03:04:06.000000Z"}"#
        );
        event.progress = RequestProgress {
            impersonated: Some(UserInfo::new("bob", [])),
            impersonation_constraint: "impersonate:user-info".to_owned(),
            object: ObjectNames { name: "other".to_owned(), uid: "u".to_owned(), ..ObjectNames::default() },
            status: Some(ResponseStatus {
                status: "Failure",
                message: "no".to_owned(),
                reason: "Forbidden",
                code: 403,
            }),
            annotations: vec![
                ("b".into(), "1".to_owned()),
                ("a".into(), "2".to_owned()),
                ("b".into(), "3".to_owned()),
            ],
        };
        let (sent, got) = (json!({"a": 1}), json!([2]));
        let found = serde_json::to_value(event.view(Some(&sent), Some(&got))).expect("JSON");
        assert_eq!(
            found["responseStatus"],
            json!({"metadata": {}, "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403})
        );
        assert_eq!(found["impersonatedUser"], json!({"username": "bob", "groups": ["system:authenticated"]}));
        assert_eq!(
            found["authenticationMetadata"],
            json!({"impersonationConstraint": "impersonate:user-info"})
        );
        assert_eq!((&found["objectRef"]["name"], &found["objectRef"]["uid"]), (&json!("a"), &json!("u")));
        assert_eq!((&found["requestObject"], &found["responseObject"]), (&sent, &got));
        assert_eq!(found["annotations"], json!({"a": "2", "b": "1"}));
    }

    #[test]
    fn request_without_a_user_has_an_empty_one() {
        let mut event = event(Stage::ResponseStarted);
        std::sync::Arc::make_mut(&mut event.request).user = None;
        let found = serde_json::to_value(event.view(None, None)).expect("JSON");
        assert_eq!(found["user"], json!({}));
    }
}
