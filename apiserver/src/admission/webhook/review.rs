//! The `AdmissionReview` that a webhook receives.
//!
//! Upstream: apiserver `pkg/admission/plugin/webhook/request`.

use bytes::{Buf, Bytes};
use serde_json::{Map, Value};

/// An object of a request as JSON, or `null`. All reviews of the request share it.
pub(super) fn object_text(object: Option<Value>) -> Bytes {
    object.unwrap_or(Value::Null).to_string().into()
}

/// The document for a webhook. Objects may be large, and a request may have many webhooks, so the document consists of parts.
#[derive(Clone, Debug)]
pub(super) struct Review {
    /// Everything before the object.
    head: Bytes,
    object: Bytes,
    old: Bytes,
}

impl Review {
    /// The document for a webhook. `request` is the request without its identifier and objects.
    pub(super) fn new(version: &str, uid: &str, request: Value, object: Bytes, old: Bytes) -> Self {
        let mut fields = match request {
            Value::Object(fields) => fields,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Map::new()
            }
        };
        fields.insert("uid".to_owned(), uid.into());
        let mut request = Value::Object(fields).to_string();
        // The objects follow.
        request.pop();
        let head = format!(
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/{version}","request":{request},"object":"#
        );
        Review { head: head.into(), object, old }
    }

    /// The body of the request to the webhook.
    pub(super) fn into_body(self) -> impl Buf + Send + 'static {
        self.head
            .chain(self.object)
            .chain(Bytes::from_static(br#","oldObject":"#))
            .chain(self.old)
            .chain(Bytes::from_static(b"}}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_a_document() {
        let object = object_text(Some(json!({"kind": "Pod", "metadata": {"name": "a"}})));
        let review =
            Review::new("v1", "u", json!({"operation": "CREATE"}), object.clone(), object_text(None));
        assert_eq!(review.object.as_ptr(), object.as_ptr(), "the object is shared");
        let mut body = review.into_body();
        let text = body.copy_to_bytes(body.remaining());
        let want = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
            "operation": "CREATE", "uid": "u", "object": {"kind": "Pod", "metadata": {"name": "a"}}, "oldObject": null}});
        assert_eq!(serde_json::from_slice::<Value>(&text).expect("JSON"), want);
    }
}
