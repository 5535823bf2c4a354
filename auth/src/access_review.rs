//! The SubjectAccessReview for a request.
//!
//! Upstream: apiserver `plugin/pkg/authorizer/webhook/webhook.go`.

use serde_json::{Map, Value, json};

use crate::UserInfo;
use crate::request_info::{RequestInfo, RequestTarget};
use crate::selection;

/// A version of `authorization.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `v1`.
    V1,
    /// `v1beta1`, which names the groups differently.
    V1Beta1,
}

/// The `spec` of the review of a request of a user, in the form of `v1`.
pub fn spec(user: &UserInfo, request: &RequestInfo) -> Map<String, Value> {
    let mut spec = Map::new();
    match &request.target {
        RequestTarget::Path(path) => {
            spec.insert(
                "nonResourceAttributes".to_owned(),
                present([("path", path.as_str()), ("verb", &request.verb)]).into(),
            );
        }
        RequestTarget::Resource(at) => {
            let mut attributes = present([
                ("namespace", at.namespace.as_str()),
                ("verb", &request.verb),
                ("group", &at.group),
                ("version", &at.version),
                ("resource", &at.resource),
                ("subresource", &at.subresource),
                ("name", &at.name),
            ]);
            let selectors =
                [("fieldSelector", &at.selection.fields), ("labelSelector", &at.selection.labels)];
            for (member, requirements) in selectors {
                if let Some(selector) = selection::shown(requirements) {
                    attributes.insert(member.to_owned(), selector);
                }
            }
            spec.insert("resourceAttributes".to_owned(), attributes.into());
        }
    }
    spec.extend(present([("user", user.username.as_str()), ("uid", &user.uid)]));
    if !user.groups.is_empty() {
        spec.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        spec.insert("extra".to_owned(), json!(user.extra));
    }
    spec
}

/// The texts that are not empty.
fn present<'t>(texts: impl IntoIterator<Item = (&'static str, &'t str)>) -> Map<String, Value> {
    let shown = texts.into_iter().filter(|(_, text)| !text.is_empty());
    shown.map(|(member, text)| (member.to_owned(), text.into())).collect()
}

/// The review with this `spec`.
pub fn document(version: ReviewVersion, spec: Map<String, Value>) -> Value {
    let mut spec = spec;
    let api_version = match version {
        ReviewVersion::V1 => "authorization.k8s.io/v1",
        ReviewVersion::V1Beta1 => {
            if let Some(groups) = spec.remove("groups") {
                spec.insert("group".to_owned(), groups);
            }
            "authorization.k8s.io/v1beta1"
        }
    };
    json!({
        "kind": "SubjectAccessReview", "apiVersion": api_version, "metadata": {}, "spec": spec,
        "status": {"allowed": false},
    })
}

/// The answer to a review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewAnswer {
    /// The request is permitted.
    pub allowed: bool,
    /// The request is rejected; no other authorizer can permit it.
    pub denied: bool,
    /// The reason.
    pub reason: String,
}

/// Maximum size of a reason, bytes.
const MAX_REASON: usize = 4096;

impl ReviewAnswer {
    /// Reads the `status` of an answered review.
    ///
    /// # Errors
    /// The document is no answer of this version.
    pub fn of(answer: &Value, version: ReviewVersion) -> Result<Self, String> {
        let expected = document(version, Map::new());
        for member in ["kind", "apiVersion"] {
            if answer[member] != expected[member] {
                return Err(format!(
                    "the webhook responds with {member} {}, not {}",
                    answer[member], expected[member]
                ));
            }
        }
        let flag = |name: &str| match &answer["status"][name] {
            Value::Bool(value) => Ok(*value),
            Value::Null => Ok(false),
            _ => Err(format!("status.{name} of the webhook's response is not a boolean")),
        };
        let reason = answer["status"]["reason"].as_str().unwrap_or_default();
        let reason = reason[..reason.floor_char_boundary(MAX_REASON)].to_owned();
        Ok(ReviewAnswer { allowed: flag("allowed")?, denied: flag("denied")?, reason })
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use orlop_api::query::Query;

    use super::*;

    fn review(version: ReviewVersion, path: &str) -> Value {
        let mut user = UserInfo::new("ann", ["devs".to_owned()]);
        user.uid = "u1".to_owned();
        user.extra.insert("scopes".to_owned(), vec!["a".to_owned()]);
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let request = RequestInfo::of(&Method::GET, path, &Query::parse(Some(query)));
        document(version, spec(&user, &request))
    }

    #[test]
    fn reviews_have_the_form_of_upstream() {
        assert_eq!(
            review(
                ReviewVersion::V1,
                "/apis/apps/v1/namespaces/n/deployments?fieldSelector=metadata.name%3Da&labelSelector=b"
            ),
            json!({
                "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
                "spec": {
                    "resourceAttributes": {
                        "namespace": "n", "verb": "list", "group": "apps", "version": "v1", "resource": "deployments",
                        "name": "a",
                        "fieldSelector": {"requirements": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
                        "labelSelector": {"requirements": [{"key": "b", "operator": "Exists"}]},
                    },
                    "user": "ann", "uid": "u1", "groups": ["devs", "system:authenticated"], "extra": {"scopes": ["a"]},
                },
                "status": {"allowed": false},
            })
        );
        let path = review(ReviewVersion::V1, "/healthz");
        assert_eq!(path["spec"]["nonResourceAttributes"], json!({"path": "/healthz", "verb": "get"}));
        let old = review(ReviewVersion::V1Beta1, "/healthz");
        assert_eq!(
            (&old["spec"]["group"], &old["spec"]["groups"]),
            (&json!(["devs", "system:authenticated"]), &Value::Null)
        );
        assert_eq!(old["apiVersion"], "authorization.k8s.io/v1beta1");
    }

    #[test]
    fn answers_are_read() {
        let answer = |status: Value| {
            let mut answer = document(ReviewVersion::V1, Map::new());
            answer["status"] = status;
            ReviewAnswer::of(&answer, ReviewVersion::V1)
        };
        let read =
            |allowed, denied, reason: &str| Ok(ReviewAnswer { allowed, denied, reason: reason.to_owned() });
        assert_eq!(answer(json!({"allowed": true})), read(true, false, ""));
        assert_eq!(
            answer(json!({"allowed": false, "denied": true, "reason": "no"})),
            read(false, true, "no")
        );
        assert_eq!(answer(Value::Null), read(false, false, ""));
        assert!(answer(json!({"allowed": "true"})).is_err());
        let old = document(ReviewVersion::V1Beta1, Map::new());
        assert!(ReviewAnswer::of(&old, ReviewVersion::V1).is_err());
        assert!(ReviewAnswer::of(&Value::Null, ReviewVersion::V1).is_err());
        let long = answer(json!({"reason": "é".repeat(MAX_REASON)})).expect("an answer");
        assert_eq!(long.reason.len(), MAX_REASON);
    }
}
