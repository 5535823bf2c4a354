//! The identifier of a request, in the header `Audit-ID` of the request and the response and in audit events.
//!
//! Upstream: apiserver `pkg/endpoints/filters/audit_init.go`.

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Maximum length of an identifier of a client, bytes.
const LONGEST: usize = 64;

/// The identifier that the client sends, or a new one.
pub(crate) fn of(headers: &HeaderMap) -> Option<HeaderValue> {
    let sent = headers.get(&AUDIT_ID).filter(|id| !id.is_empty() && id.len() <= LONGEST);
    sent.cloned().or_else(|| HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_identifiers_of_clients_are_used() {
        for (sent, want) in [("abc", true), ("", false), (&"x".repeat(64), true), (&"x".repeat(65), false)] {
            let mut headers = HeaderMap::new();
            headers.insert(AUDIT_ID, sent.parse().expect("a header"));
            let found = of(&headers).expect("an identifier");
            assert_eq!(found == sent, want, "{sent:?}");
        }
        let new = || of(&HeaderMap::new());
        assert_ne!(new(), new());
    }
}
