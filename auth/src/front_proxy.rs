//! Users that a front proxy has authenticated and names in request headers.
//!
//! Upstream: apiserver `pkg/authentication/request/headerrequest`, `pkg/endpoints/filters/authentication.go`.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::HeaderName;
use percent_encoding::percent_decode_str;

use crate::user::UserInfo;

/// The headers that every front proxy may set. They are removed from all requests.
const STANDARD_HEADERS: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];
const STANDARD_EXTRA_PREFIX: &str = "x-remote-extra-";

/// The headers of a front proxy, and the names in its certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontProxyConfig {
    /// Common names of the proxy's certificate; empty permits all.
    pub allowed_names: Vec<String>,
    /// Headers with the user name; the first one that has a value counts.
    pub username_headers: Vec<String>,
    /// Headers with the UID; the first one that has a value counts.
    pub uid_headers: Vec<String>,
    /// Headers with groups; all values count.
    pub group_headers: Vec<String>,
    /// Prefixes of headers with extra attributes.
    pub extra_prefixes: Vec<String>,
}

impl FrontProxyConfig {
    /// Whether a certificate with this common name may name users.
    pub fn allows(&self, common_name: Option<&str>) -> bool {
        let name = common_name.unwrap_or_default();
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|allowed| allowed == name)
    }

    /// The user that the headers of an allowed proxy name; `None` without a name.
    pub fn user_of(&self, headers: &HeaderMap) -> Option<UserInfo> {
        let first = |names: &[String]| {
            names.iter().find_map(|name| {
                let value = headers.get(name.as_str()).map(|value| text(value.as_bytes()))?;
                (!value.is_empty()).then_some(value)
            })
        };
        let username = first(&self.username_headers)?;
        let groups = self.group_headers.iter().flat_map(|name| headers.get_all(name.as_str()));
        let groups = groups.map(|value| text(value.as_bytes())).filter(|group| !group.is_empty());
        let groups: Vec<String> = groups.collect();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_prefixes {
            for (name, value) in headers {
                let Some(key) = after_prefix(name, prefix) else { continue };
                // As upstream, a key that cannot be decoded stays as it is.
                let key =
                    percent_decode_str(key).decode_utf8().map_or(key.to_owned(), |key| key.into_owned());
                extra.entry(key).or_default().push(text(value.as_bytes()));
            }
        }
        let uid = first(&self.uid_headers).unwrap_or_default();
        Some(UserInfo::from_remote(username, uid, groups, extra))
    }
}

/// Removes the headers of front proxies from a request: no later code can use them as credentials.
pub fn remove_headers(config: Option<&FrontProxyConfig>, headers: &mut HeaderMap) {
    let of_config = |config: &FrontProxyConfig, name: &HeaderName| {
        let all = [&config.username_headers, &config.uid_headers, &config.group_headers];
        let is_header = all.into_iter().flatten().any(|header| name.as_str().eq_ignore_ascii_case(header));
        is_header || config.extra_prefixes.iter().any(|prefix| after_prefix(name, prefix).is_some())
    };
    let is_removed = |name: &HeaderName| {
        is_standard(name.as_str()) || config.is_some_and(|config| of_config(config, name))
    };
    let removed: Vec<HeaderName> = headers.keys().filter(|name| is_removed(name)).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
}

/// Whether a header is one of those that aggregated API servers read by default. Servers with a CGI interface read `_` as `-`.
fn is_standard(name: &str) -> bool {
    let starts = |prefix: &str| {
        let head = name.as_bytes().get(..prefix.len());
        head.is_some_and(|head| {
            head.iter().zip(prefix.bytes()).all(|(got, want)| *got == want || (*got, want) == (b'_', b'-'))
        })
    };
    starts(STANDARD_EXTRA_PREFIX)
        || STANDARD_HEADERS.iter().any(|header| name.len() == header.len() && starts(header))
}

/// The rest of a header's name, in lower case; `None` without the prefix.
fn after_prefix<'n>(name: &'n HeaderName, prefix: &str) -> Option<&'n str> {
    let (head, rest) = name.as_str().split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::ANONYMOUS;

    fn config() -> FrontProxyConfig {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        FrontProxyConfig {
            allowed_names: Vec::new(),
            username_headers: list(&["X-Remote-User", "X-User"]),
            uid_headers: list(&["X-Remote-Uid"]),
            group_headers: list(&["X-Remote-Group"]),
            extra_prefixes: list(&["X-Remote-Extra-", "X-E-"]),
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().expect("a value"));
        }
        map
    }

    #[test]
    fn headers_name_the_user() {
        let user = config().user_of(&headers(&[
            ("x-remote-user", ""),
            ("x-user", "ann"),
            ("x-remote-uid", "u"),
            ("x-remote-group", "a"),
            ("x-remote-group", ""),
            ("x-remote-group", "b"),
            ("x-remote-extra-acme.com%2fscope", "1"),
            ("x-e-acme.com%2fscope", "2"),
            ("x-remote-extra-%zz", "3"),
            ("authorization", "Bearer x"),
        ]));
        let user = user.expect("a user");
        assert_eq!((user.username.as_str(), user.uid.as_str()), ("ann", "u"));
        assert_eq!(user.groups, ["a", "b", "system:authenticated"]);
        assert_eq!(user.extra["acme.com/scope"], ["1", "2"]);
        assert_eq!(user.extra["%zz"], ["3"]);
        assert_eq!(config().user_of(&headers(&[("x-remote-group", "a")])), None, "no name");
        let anonymous = config().user_of(&headers(&[("x-user", ANONYMOUS)])).expect("a user");
        assert!(anonymous.groups.is_empty(), "not authenticated");
    }

    #[test]
    fn certificates_are_restricted_by_name() {
        let some = FrontProxyConfig { allowed_names: vec!["proxy".to_owned()], ..config() };
        for (config, name, want) in [
            (config(), None, true),
            (config(), Some("any"), true),
            (some.clone(), Some("proxy"), true),
            (some.clone(), Some("prox"), false),
            (some, None, false),
        ] {
            assert_eq!(config.allows(name), want, "{name:?}");
        }
    }

    #[test]
    fn headers_are_removed() {
        let all = [
            ("x-remote-user", "a"),
            ("x-remote-extra-a", "b"),
            ("x_remote_user", "b"),
            ("x-remote_extra-b", "b"),
            ("x-user", "c"),
            ("x-e-a", "d"),
            ("x", "e"),
        ];
        for (config, want) in [(None, &["x-user", "x-e-a", "x"][..]), (Some(config()), &["x"])] {
            let mut headers = headers(&all);
            remove_headers(config.as_ref(), &mut headers);
            let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
            left.sort_unstable();
            let mut want = want.to_vec();
            want.sort_unstable();
            assert_eq!(left, want);
        }
    }
}
