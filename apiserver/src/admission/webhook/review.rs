//! `AdmissionReview`: the document for a webhook, and its answer.
//!
//! Upstream: apiserver `pkg/admission/plugin/webhook/request`, `pkg/admission/plugin/webhook/errors`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_api::status::{ApiError, Details};
use orlop_api::validate::Cause;
use serde_json::{Value, json};

use crate::admission::outcome::{MAX_TEXT, cut};

/// Maximum number of causes in a rejection.
const MAX_CAUSES: usize = 64;

/// The answer of a webhook.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// The operations of a JSON patch.
    pub(super) patch: Vec<Value>,
    pub(super) result: Value,
    pub(super) warnings: Vec<String>,
    pub(super) annotations: Vec<(String, String)>,
}

/// The document for a webhook. `request` is the request without its identifier and objects.
pub(super) fn review(
    version: &str,
    uid: &str,
    mut request: Value,
    object: Option<Value>,
    old: Option<Value>,
) -> Value {
    request["uid"] = uid.into();
    request["object"] = object.unwrap_or(Value::Null);
    request["oldObject"] = old.unwrap_or(Value::Null);
    json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request})
}

/// Reads the answer of a webhook.
///
/// # Errors
/// Why it is invalid.
pub(super) fn answer(version: &str, uid: &str, mutates: bool, body: &Value) -> Result<Answer, String> {
    let response = &body["response"];
    if !response.is_object() {
        return Err("received invalid webhook response: webhook response was absent".to_owned());
    }
    let wrong = |why: String| Err(format!("received invalid webhook response: {why}"));
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let patch_type = response["patchType"].as_str();
    let patch = text(response, "patch");
    // The older version verified nothing.
    if version == "v1" {
        let given = text(response, "uid");
        if given != uid {
            return wrong(format!("expected response.uid={uid:?}, got {given:?}"));
        }
        let (api_version, kind) = (text(body, "apiVersion"), text(body, "kind"));
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
    let allowed = response["allowed"] == true;
    let patch = if mutates && allowed && !patch.is_empty() {
        if version == "v1" && patch_type != Some("JSONPatch") {
            return Err(format!("unsupported patch type {:?}", patch_type.unwrap_or_default()));
        }
        read_patch(&patch).map_err(|why| format!("received undecodable patch in webhook response: {why}"))?
    } else {
        Vec::new()
    };
    let annotations = response["auditAnnotations"].as_object().into_iter().flatten();
    Ok(Answer {
        allowed,
        patch,
        result: response["status"].clone(),
        warnings: response["warnings"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        annotations: annotations
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
    })
}

fn read_patch(text: &str) -> Result<Vec<Value>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    match serde_json::from_slice(&bytes).map_err(|error| error.to_string())? {
        Value::Array(operations) => Ok(operations),
        _ => Err("json: cannot unmarshal object into Go value of type jsonpatch.Patch".to_owned()),
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

/// The error for a request that a webhook rejects; `result` is its Status. Its texts are cut to [`MAX_TEXT`].
pub(super) fn rejection(webhook: &str, result: &Value) -> ApiError {
    let text = |name: &str| cut(result[name].as_str().unwrap_or_default(), MAX_TEXT);
    let denied = format!("admission webhook {webhook:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = result["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
    let mut error = ApiError::bad_request(message);
    error.code = if (400..600).contains(&code) { code } else { 400 };
    error.reason = REASONS.into_iter().find(|known| *known == text("reason")).unwrap_or_default();
    let details = &result["details"];
    if details.is_object() {
        let text =
            |value: &Value, name: &str| cut(value[name].as_str().unwrap_or_default(), MAX_TEXT).to_owned();
        let causes = details["causes"].as_array().into_iter().flatten().take(MAX_CAUSES);
        error.details = Some(Box::new(Details {
            name: text(details, "name"),
            group: text(details, "group"),
            kind: text(details, "kind"),
            uid: text(details, "uid"),
            causes: causes
                .map(|cause| Cause {
                    reason: "",
                    message: text(cause, "message"),
                    field: text(cause, "field"),
                })
                .collect(),
            retry_after_seconds: details["retryAfterSeconds"]
                .as_u64()
                .and_then(|seconds| seconds.try_into().ok()),
        }));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(response: Value) -> Value {
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
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
            assert_eq!(answer("v1", "u", mutates, &body), Err(want), "{body}");
        }
        let patch = STANDARD.encode(r#"[{"op": "add", "path": "/a", "value": 1}]"#);
        let good = body(
            json!({"uid": "u", "allowed": true, "patch": patch, "patchType": "JSONPatch", "warnings": ["w"]}),
        );
        let read = answer("v1", "u", true, &good).expect("valid");
        assert_eq!((read.allowed, read.patch.len(), read.warnings), (true, 1, vec!["w".to_owned()]));
    }

    #[test]
    fn rejections_are_bounded() {
        let long = "é".repeat(1 << 20);
        let cause = json!({"message": long, "field": long});
        let result =
            json!({"message": long, "details": {"name": long, "causes": vec![cause; MAX_CAUSES + 1]}});
        let error = rejection("w", &result);
        assert!((MAX_TEXT..MAX_TEXT + 100).contains(&error.message.len()), "{}", error.message.len());
        let details = error.details.expect("details");
        assert_eq!((details.name.len(), details.causes.len()), (MAX_TEXT, MAX_CAUSES));
        assert!(details.causes.iter().all(|cause| cause.message.len() == MAX_TEXT));
    }

    #[test]
    fn rejections_have_at_least_code_400() {
        for (result, want) in [
            (Value::Null, (400, "", "without explanation")),
            (json!({"code": 200, "message": "no"}), (400, "", ": no")),
            (json!({"code": 403, "reason": "Forbidden"}), (403, "Forbidden", ": Forbidden")),
        ] {
            let error = rejection("w.example.com", &result);
            assert_eq!((error.code, error.reason), (want.0, want.1), "{result}");
            assert!(error.message.ends_with(want.2), "{}", error.message);
        }
    }
}
