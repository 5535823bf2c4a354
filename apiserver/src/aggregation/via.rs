//! Requests that this server has forwarded already: an address of another server may lead back to this one. Without a mark, each such
//! request would be forwarded again and again, on one more connection each time.
//!
//! RFC 9110, section 7.6.3. Upstream's kube-aggregator has no such mark.

use http::header::{HeaderMap, HeaderValue, VIA};
use uuid::Uuid;

/// The name of this process in the header Via.
pub(super) struct Via {
    name: String,
    value: HeaderValue,
}

impl Default for Via {
    /// A random name, so that no client and no other server has the same.
    fn default() -> Self {
        let name = format!("orlop-{}", Uuid::new_v4().simple());
        let value = HeaderValue::try_from(format!("1.1 {name}"));
        Via { name, value: value.expect("letters, digits and a hyphen") }
    }
}

impl Via {
    /// Marks a request that this server sends.
    pub(super) fn mark(&self, headers: &mut HeaderMap) {
        headers.append(VIA, self.value.clone());
    }

    /// Whether this server has sent the request.
    pub(super) fn has_marked(&self, headers: &HeaderMap) -> bool {
        headers
            .get_all(VIA)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split([',', ' ', '\t']))
            .any(|word| word == self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_mark_is_found_among_others() {
        let (own, other) = (Via::default(), Via::default());
        let marked = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(VIA, value.parse().expect("a value"));
            }
            headers
        };
        let mut sent = marked(&["1.0 proxy"]);
        assert!(!own.has_marked(&sent));
        own.mark(&mut sent);
        other.mark(&mut sent);
        assert!(own.has_marked(&sent) && other.has_marked(&sent));
        let name = &own.name;
        for (value, want) in [
            (format!("1.1 a, 1.1 {name}"), true),
            (format!("1.1 a,1.1 {name} (comment)"), true),
            (format!("1.1 {name}x"), false),
            (String::new(), false),
        ] {
            assert_eq!(own.has_marked(&marked(&[&value])), want, "{value}");
        }
    }
}
