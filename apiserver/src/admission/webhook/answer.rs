//! The answer of a webhook. A webhook chooses its size, so only the known fields are read, and only as much of them as is used.
//!
//! Upstream: apiserver `pkg/admission/plugin/webhook/request`, `pkg/admission/plugin/webhook/errors`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_api::status::{ApiError, Details};
use orlop_api::validate::Cause;
use orlop_store::{OutOfMemory, ReservedMemory};
use serde::Deserialize;
use serde_json::Value;

use super::bounded::{Item, bounded_list, bounded_map};
use crate::limits::decoded::json_memory;

/// The answer of a webhook.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// The operations of a JSON patch.
    pub(super) patch: Vec<Value>,
    pub(super) result: Outcome,
    pub(super) warnings: Vec<String>,
    pub(super) annotations: BTreeMap<String, String>,
    /// The memory of the patch.
    pub(super) memory: ReservedMemory,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The failure policy of the webhook decides.
    Failed(String),
    /// The server has no memory for the answer.
    OutOfMemory(OutOfMemory),
}

impl From<OutOfMemory> for NoAnswer {
    fn from(error: OutOfMemory) -> Self {
        NoAnswer::OutOfMemory(error)
    }
}

/// The fields of an `AdmissionReview` with a response.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerDocument {
    api_version: Option<String>,
    kind: Option<String>,
    response: Option<Response>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: Option<String>,
    allowed: Option<bool>,
    status: Option<Outcome>,
    patch: Option<String>,
    patch_type: Option<String>,
    #[serde(default, deserialize_with = "bounded_map")]
    audit_annotations: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "bounded_list")]
    warnings: Vec<String>,
}

/// The result of a webhook that rejects a request: the used fields of a `metav1.Status`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Outcome {
    message: Option<String>,
    reason: Option<String>,
    code: Option<i64>,
    details: Option<OutcomeDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutcomeDetails {
    name: Option<String>,
    group: Option<String>,
    kind: Option<String>,
    uid: Option<String>,
    #[serde(default, deserialize_with = "bounded_list")]
    causes: Vec<OutcomeCause>,
    retry_after_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
struct OutcomeCause {
    message: Option<String>,
    field: Option<String>,
}

impl Item for OutcomeCause {
    fn bounded(self) -> Self {
        OutcomeCause { message: self.message.map(Item::bounded), field: self.field.map(Item::bounded) }
    }
}

impl Outcome {
    /// The same, with all texts cut: answers of several webhooks are held at the same time.
    fn shortened(self) -> Self {
        let short = |text: Option<String>| text.map(Item::bounded);
        let details = self.details.map(|details| OutcomeDetails {
            name: short(details.name),
            group: short(details.group),
            kind: short(details.kind),
            uid: short(details.uid),
            ..details
        });
        Outcome { message: short(self.message), reason: short(self.reason), code: self.code, details }
    }
}

/// Reads the answer of a webhook. `memory` is that of `body`, and becomes that of the answer.
///
/// # Errors
/// Why it is invalid.
pub(super) fn answer(
    version: &str,
    uid: &str,
    mutates: bool,
    body: Vec<u8>,
    mut memory: ReservedMemory,
) -> Result<Answer, NoAnswer> {
    let document: AnswerDocument = serde_json::from_slice(&body)
        .map_err(|error| NoAnswer::Failed(format!("couldn't get version/kind; json parse error: {error}")))?;
    drop(body);
    let wrong = |why: String| Err(NoAnswer::Failed(format!("received invalid webhook response: {why}")));
    let Some(response) = document.response else { return wrong("webhook response was absent".to_owned()) };
    let patch_type = response.patch_type.as_deref();
    let patch = response.patch.unwrap_or_default();
    // The older version verified nothing.
    if version == "v1" {
        let given = response.uid.unwrap_or_default();
        if given != uid {
            return wrong(format!("expected response.uid={uid:?}, got {given:?}"));
        }
        let (api_version, kind) =
            (document.api_version.unwrap_or_default(), document.kind.unwrap_or_default());
        if api_version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
            let shown = if api_version.is_empty() { "/" } else { api_version.as_str() };
            return wrong(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {shown}, Kind={kind}"
            ));
        }
        match (mutates, patch.is_empty(), patch_type) {
            (true, false, None) => {
                return wrong("webhook returned response.patch but not response.patchType".to_owned());
            }
            (true, true, Some(_)) => {
                return wrong("webhook returned response.patchType but not response.patch".to_owned());
            }
            (true, false, Some("")) => {
                return wrong("webhook returned invalid response.patchType of \"\"".to_owned());
            }
            (false, false, _) => return wrong("validating webhook may not return response.patch".to_owned()),
            (false, true, Some(_)) => {
                return wrong("validating webhook may not return response.patchType".to_owned());
            }
            (true, _, _) | (false, true, None) => {}
        }
    }
    let allowed = response.allowed == Some(true);
    let patch = if mutates && allowed && !patch.is_empty() {
        if version == "v1" && patch_type != Some("JSONPatch") {
            let why = format!("unsupported patch type {:?}", patch_type.unwrap_or_default());
            return Err(NoAnswer::Failed(why));
        }
        read_patch(&patch, &mut memory)?
    } else {
        memory.resize(0)?;
        Vec::new()
    };
    Ok(Answer {
        allowed,
        patch,
        result: response.status.unwrap_or_default().shortened(),
        warnings: response.warnings,
        annotations: response.audit_annotations,
        memory,
    })
}

/// Decodes a patch, and reserves its memory.
fn read_patch(text: &str, memory: &mut ReservedMemory) -> Result<Vec<Value>, NoAnswer> {
    let undecodable =
        |why: String| NoAnswer::Failed(format!("received undecodable patch in webhook response: {why}"));
    let bytes = STANDARD.decode(text).map_err(|error| undecodable(error.to_string()))?;
    memory.resize(json_memory(&bytes))?;
    match serde_json::from_slice(&bytes).map_err(|error| undecodable(error.to_string()))? {
        Value::Array(operations) => Ok(operations),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Err(undecodable("json: cannot unmarshal object into Go value of type jsonpatch.Patch".to_owned()))
        }
    }
}

/// The reasons of errors that clients know.
const REASONS: [&str; 19] = [
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Invalid",
    "ServerTimeout",
    "Timeout",
    "TooManyRequests",
    "BadRequest",
    "MethodNotAllowed",
    "NotAcceptable",
    "RequestEntityTooLarge",
    "UnsupportedMediaType",
    "InternalError",
    "Expired",
    "ServiceUnavailable",
    "StoreReadError",
];

/// The error for a request that a webhook rejects.
pub(super) fn rejection(webhook: &str, result: Outcome) -> ApiError {
    let Outcome { message, reason, code, details } = result;
    let (message, reason) = (message.unwrap_or_default(), reason.unwrap_or_default());
    let denied = format!("admission webhook {webhook:?} denied the request");
    let shown = match (message.as_str(), reason.as_str()) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = code.and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
    let mut error = ApiError::bad_request(shown);
    error.code = if (400..600).contains(&code) { code } else { 400 };
    error.reason = REASONS.into_iter().find(|known| *known == reason).unwrap_or_default();
    error.details = details.map(|details| {
        let causes = details.causes.into_iter().map(|cause| Cause {
            reason: "",
            message: cause.message.unwrap_or_default(),
            field: cause.field.unwrap_or_default(),
        });
        Box::new(Details {
            name: details.name.unwrap_or_default(),
            group: details.group.unwrap_or_default(),
            kind: details.kind.unwrap_or_default(),
            uid: details.uid.unwrap_or_default(),
            causes: causes.collect(),
            retry_after_seconds: details.retry_after_seconds.and_then(|seconds| seconds.try_into().ok()),
        })
    });
    error
}

#[cfg(test)]
mod tests {
    use orlop_store::MemoryBudget;
    use serde_json::json;

    use super::super::bounded::MAX_ITEMS;
    use super::*;
    use crate::admission::outcome::MAX_TEXT;

    fn body(response: Value) -> Value {
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
    }

    fn read(mutates: bool, body: &Value, limit: u64) -> Result<Answer, NoAnswer> {
        let memory = MemoryBudget::new(limit).reserve(0).expect("free");
        answer("v1", "u", mutates, body.to_string().into_bytes(), memory)
    }

    fn outcome(status: Value) -> Outcome {
        let read = read(false, &body(json!({"uid": "u", "status": status})), 0);
        read.expect("valid").result
    }

    #[test]
    fn invalid_answers_are_rejected() {
        for (mutates, body, want) in [
            (true, json!({}), "webhook response was absent"),
            (true, body(json!({"uid": "other"})), "expected response.uid=\"u\", got \"other\""),
            (
                true,
                json!({"response": {"uid": "u"}}),
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
            (
                true,
                body(json!({"uid": "u", "patch": "W10="})),
                "webhook returned response.patch but not response.patchType",
            ),
            (
                false,
                body(json!({"uid": "u", "patchType": "JSONPatch"})),
                "validating webhook may not return response.patchType",
            ),
        ] {
            let want = format!("received invalid webhook response: {want}");
            match read(mutates, &body, 0) {
                Err(NoAnswer::Failed(why)) => assert_eq!(why, want, "{body}"),
                other => panic!("{body}: {other:?}"),
            }
        }
        let patch = STANDARD.encode(r#"[{"op": "add", "path": "/a", "value": 1}]"#);
        let good = body(
            json!({"uid": "u", "allowed": true, "patch": patch, "patchType": "JSONPatch", "warnings": ["w"]}),
        );
        let read = read(true, &good, 0).expect("valid");
        assert_eq!((read.allowed, read.patch.len(), read.warnings), (true, 1, vec!["w".to_owned()]));
    }

    #[test]
    fn unused_parts_of_answers_are_not_held() {
        let many: Vec<Value> = vec![json!({"a": 0}); 10_000];
        let texts = vec!["x".repeat(2 * MAX_TEXT); 2 * MAX_ITEMS];
        let status = json!({"message": "no", "other": many, "details": {"causes": many}});
        let large = body(json!({"uid": "u", "status": status, "warnings": texts, "more": many}));
        let read = read(false, &large, 0).expect("valid");
        assert_eq!(read.memory.bytes(), 0);
        assert_eq!(read.result.details.expect("details").causes.len(), MAX_ITEMS);
        assert_eq!(read.warnings.len(), MAX_ITEMS);
        assert!(read.warnings.iter().all(|text| text.len() == MAX_TEXT));
    }

    #[test]
    fn memory_of_patches_is_reserved() {
        let patch = json!([{"op": "add", "path": "/a", "value": vec![json!({}); 10_000]}]).to_string();
        let large = body(
            json!({"uid": "u", "allowed": true, "patch": STANDARD.encode(&patch), "patchType": "JSONPatch"}),
        );
        let needed = json_memory(patch.as_bytes());
        assert!(needed > 1 << 20, "{needed}");
        assert_eq!(read(true, &large, 0).expect("valid").memory.bytes(), needed);
        assert!(matches!(read(true, &large, needed - 1), Err(NoAnswer::OutOfMemory(_))));
    }

    #[test]
    fn rejections_are_bounded() {
        let long = "é".repeat(1 << 18);
        let cause = json!({"message": long, "field": long});
        let result =
            json!({"message": long, "details": {"name": long, "causes": vec![cause; MAX_ITEMS + 1]}});
        let error = rejection("w", outcome(result));
        assert!((MAX_TEXT..MAX_TEXT + 100).contains(&error.message.len()), "{}", error.message.len());
        let details = error.details.expect("details");
        assert_eq!((details.name.len(), details.causes.len()), (MAX_TEXT, MAX_ITEMS));
        assert!(details.causes.iter().all(|cause| cause.message.len() == MAX_TEXT));
    }

    #[test]
    fn rejections_have_at_least_code_400() {
        for (result, want) in [
            (Value::Null, (400, "", "without explanation")),
            (json!({"code": 200, "message": "no"}), (400, "", ": no")),
            (json!({"code": 403, "reason": "Forbidden"}), (403, "Forbidden", ": Forbidden")),
        ] {
            let error = rejection("w.example.com", outcome(result.clone()));
            assert_eq!((error.code, error.reason), (want.0, want.1), "{result}");
            assert!(error.message.ends_with(want.2), "{}", error.message);
        }
    }
}
