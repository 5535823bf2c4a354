//! The headers of forwarded requests, and of the responses to them. Pure.

use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use orlop_auth::UserInfo;
use orlop_auth::front_proxy;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::audit::id::AUDIT_ID;

/// Headers of one connection (RFC 9110, section 7.6.1).
const OF_CONNECTION: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
const KEEP_ALIVE: &str = "keep-alive";
const PROXY_CONNECTION: &str = "proxy-connection";
/// Credentials for this server only.
const CREDENTIALS: [HeaderName; 3] = [header::AUTHORIZATION, header::COOKIE, header::SEC_WEBSOCKET_PROTOCOL];
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const IMPERSONATE: &str = "impersonate-";

/// The headers of a response that reach the client. Others could act on the origin of this server in a browser.
const PASSED: [HeaderName; 16] = [
    header::ALLOW,
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::DATE,
    header::ETAG,
    header::EXPIRES,
    header::LAST_MODIFIED,
    header::LOCATION,
    header::RETRY_AFTER,
    header::VARY,
    header::WARNING,
];

/// The characters of a key of an extra attribute that need no escape in the name of a header.
const HEADER_NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Replaces the credentials of a request by the name of its user, and appends the address of the client. `Audit-ID` stays, even if
/// `Connection` names it.
///
/// Upstream: client-go `transport/round_trippers.go` (SetAuthProxyHeaders), kube-aggregator `pkg/apiserver/handler_proxy.go`
/// (NewRequestForProxy).
///
/// # Errors
/// No header can hold a name of the user. Without it, the other server would see another user. The text is Go's.
pub(crate) fn forwarded(
    headers: &mut HeaderMap,
    user: &UserInfo,
    peer: Option<IpAddr>,
) -> Result<(), String> {
    let audit_id = headers.remove(AUDIT_ID);
    remove_for_this_server(headers);
    if let Some(id) = audit_id {
        headers.insert(AUDIT_ID, id);
    }
    if let Some(peer) = peer {
        append_forwarded_for(headers, peer);
    }
    // Recipients remove the spaces around a value, and would see another user.
    let is_kept = |text: &str| text.trim_matches([' ', '\t']).len() == text.len();
    let mut set = |name: HeaderName, text: &str| match HeaderValue::from_bytes(text.as_bytes()) {
        Ok(value) if is_kept(text) => {
            headers.append(name, value);
            Ok(())
        }
        Ok(_) | Err(_) => Err(format!("net/http: invalid header field value for \"{name}\"")),
    };
    set(HeaderName::from_static("x-remote-user"), &user.username)?;
    if !user.uid.is_empty() {
        set(HeaderName::from_static("x-remote-uid"), &user.uid)?;
    }
    for group in &user.groups {
        set(HeaderName::from_static("x-remote-group"), group)?;
    }
    for (key, values) in &user.extra {
        let key = utf8_percent_encode(&key.to_lowercase(), HEADER_NAME).to_string().to_lowercase();
        let name = HeaderName::try_from(format!("x-remote-extra-{key}"));
        let name = name.map_err(|_| "net/http: invalid header field name".to_owned())?;
        for value in values {
            set(name.clone(), value)?;
        }
    }
    Ok(())
}

/// Removes the headers that are for this server alone: credentials, users of a front proxy and those of the connection.
pub(crate) fn remove_for_this_server(headers: &mut HeaderMap) {
    front_proxy::remove_headers(None, headers);
    remove_named_by_connection(headers);
    let removed: Vec<HeaderName> = headers.keys().filter(|name| is_for_this_server(name)).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
}

/// Appends the address of the client to those that earlier proxies have sent, in one header.
///
/// Upstream: Go's `net/http/httputil` (ReverseProxy).
pub(crate) fn append_forwarded_for(headers: &mut HeaderMap, peer: IpAddr) {
    let peer = peer.to_string();
    let earlier = headers.get_all(X_FORWARDED_FOR).iter().map(HeaderValue::as_bytes);
    let all: Vec<&[u8]> = earlier.chain([peer.as_bytes()]).collect();
    if let Ok(value) = HeaderValue::from_bytes(&all.join(&b", "[..])) {
        headers.insert(X_FORWARDED_FOR, value);
    }
}

/// Whether a header of a request concerns only its connection to this server, or what this server has decided. Servers with a CGI
/// interface read `_` as `-`.
fn is_for_this_server(name: &HeaderName) -> bool {
    let name = name.as_str().replace('_', "-");
    let is_in = |headers: &[HeaderName]| headers.iter().any(|header| header.as_str() == name);
    is_in(&OF_CONNECTION)
        || is_in(&CREDENTIALS)
        || is_in(&[header::HOST, header::EXPECT, AUDIT_ID])
        || [KEEP_ALIVE, PROXY_CONNECTION].contains(&name.as_str())
        || name.starts_with(IMPERSONATE)
}

/// Removes the headers that `Connection` names.
fn remove_named_by_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
}

/// Keeps the headers of a response that reach the client.
pub(crate) fn answered(headers: &mut HeaderMap) {
    let is_passed = |name: &HeaderName| PASSED.contains(name) || name.as_str().starts_with("x-kubernetes-");
    let removed: Vec<HeaderName> = headers.keys().filter(|name| !is_passed(name)).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
}

/// Replaces the length in the header of a response by that of its body, if it is known. They differ if the other server sends both a length
/// and chunks, and for a client or a proxy behind this server the header counts.
pub(crate) fn set_length(headers: &mut HeaderMap, method: &Method, status: StatusCode, body: Option<u64>) {
    let claimed = headers.remove(header::CONTENT_LENGTH);
    let length = if *method == Method::HEAD || status == StatusCode::NOT_MODIFIED {
        // That of the body that a GET would return.
        claimed.and_then(|value| value.to_str().ok()?.parse::<u64>().ok())
    } else if status == StatusCode::NO_CONTENT {
        None
    } else {
        body
    };
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().expect("a value"));
        }
        map
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut all: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn credentials_are_replaced_by_the_user() {
        let mut sent = headers(&[
            ("accept", "application/json"),
            ("authorization", "Bearer secret"),
            ("cookie", "session=secret"),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.c2VjcmV0"),
            ("connection", "close, x-mine"),
            ("x-mine", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("host", "here"),
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("impersonate-user", "root"),
            ("impersonate-extra-a", "b"),
            ("impersonate_user", "root"),
            ("proxy_authorization", "Basic secret"),
            ("sec_websocket-protocol", "secret"),
            ("audit_id", "7"),
        ]);
        let extra = BTreeMap::from([("Example.com/Scope".to_owned(), vec!["a".to_owned(), "b".to_owned()])]);
        let user = UserInfo {
            username: "ann".to_owned(),
            uid: "u1".to_owned(),
            groups: vec!["g".to_owned(), "system:authenticated".to_owned()],
            extra,
        };
        forwarded(&mut sent, &user, None).expect("a user");
        assert_eq!(
            shown(&sent),
            [
                "accept: application/json",
                "x-remote-extra-example.com%2fscope: a",
                "x-remote-extra-example.com%2fscope: b",
                "x-remote-group: g",
                "x-remote-group: system:authenticated",
                "x-remote-uid: u1",
                "x-remote-user: ann",
            ]
        );
    }

    #[test]
    fn names_that_no_header_can_hold_fail_the_request() {
        let (bad, ok) = ("a\nx-remote-group: system:masters", "a\u{e9} b");
        for (case, name, uid, group, extra, want) in [
            ("1 all can be sent", ok, ok, ok, ok, None),
            ("2 the user", bad, ok, ok, ok, Some("x-remote-user")),
            ("3 the UID", ok, bad, ok, ok, Some("x-remote-uid")),
            ("4 a group", ok, ok, bad, ok, Some("x-remote-group")),
            ("5 an extra attribute", ok, ok, ok, bad, Some("x-remote-extra-k")),
            ("6 a space at the end, which recipients remove", "admin ", ok, ok, ok, Some("x-remote-user")),
            ("7 a tab at the beginning", ok, ok, "\tsystem:masters", ok, Some("x-remote-group")),
        ] {
            let user = UserInfo {
                username: name.to_owned(),
                uid: uid.to_owned(),
                groups: vec![group.to_owned()],
                extra: BTreeMap::from([("k".to_owned(), vec![extra.to_owned()])]),
            };
            let error = forwarded(&mut HeaderMap::new(), &user, None).err();
            let want = want.map(|name| format!("net/http: invalid header field value for \"{name}\""));
            assert_eq!(error, want, "{case}");
        }
    }

    #[test]
    fn address_of_the_client_follows_those_of_proxies() {
        for (case, sent, peer, want) in [
            ("1 the first proxy", vec![], Some("10.0.0.1"), Some("10.0.0.1")),
            ("2 another proxy", vec![("x-forwarded-for", "1.1.1.1")], Some("::1"), Some("1.1.1.1, ::1")),
            (
                "3 several headers",
                vec![("x-forwarded-for", "1.1.1.1, 2.2.2.2"), ("x-forwarded-for", "3.3.3.3")],
                Some("10.0.0.1"),
                Some("1.1.1.1, 2.2.2.2, 3.3.3.3, 10.0.0.1"),
            ),
            (
                "4 a header of the connection",
                vec![("x-forwarded-for", "1.1.1.1"), ("connection", "x-forwarded-for")],
                Some("10.0.0.1"),
                Some("10.0.0.1"),
            ),
            ("5 no address", vec![("x-forwarded-for", "1.1.1.1")], None, Some("1.1.1.1")),
            ("6 none", vec![], None, None),
        ] {
            let mut sent = headers(&sent);
            let peer = peer.map(|peer| peer.parse().expect("an address"));
            forwarded(&mut sent, &UserInfo::new("ann", []), peer).expect("a user");
            let found: Vec<&str> =
                sent.get_all("x-forwarded-for").iter().map(|value| value.to_str().expect("text")).collect();
            assert_eq!(found, Vec::from_iter(want), "{case}");
        }
    }

    #[test]
    fn connection_cannot_remove_the_audit_id() {
        let mut sent = headers(&[("audit-id", "7"), ("connection", "audit-id")]);
        forwarded(&mut sent, &UserInfo::new("ann", []), None).expect("a user");
        assert_eq!(sent.get("audit-id").map(HeaderValue::as_bytes), Some(&b"7"[..]));
    }

    #[test]
    fn responses_cannot_act_on_the_origin() {
        let mut got = headers(&[
            ("content-type", "application/json"),
            ("warning", "299 - \"old\""),
            ("x-kubernetes-pf-flowschema-uid", "u"),
            ("set-cookie", "a=b"),
            ("content-security-policy", "default-src *"),
            ("access-control-allow-origin", "*"),
            ("connection", "close"),
        ]);
        answered(&mut got);
        let want =
            ["content-type: application/json", "warning: 299 - \"old\"", "x-kubernetes-pf-flowschema-uid: u"];
        assert_eq!(shown(&got), want);
    }

    #[test]
    fn length_is_that_of_the_body() {
        for (case, method, code, claimed, body, want) in [
            ("1 a length", "GET", 200, Some("5"), Some(5), Some("5")),
            ("2 chunks", "GET", 200, None, None, None),
            ("3 both", "GET", 200, Some("5"), None, None),
            ("4 a repeated length", "GET", 200, Some("5, 5"), Some(5), Some("5")),
            ("5 HEAD", "HEAD", 200, Some("40"), Some(0), Some("40")),
            ("6 HEAD with a repeated length", "HEAD", 200, Some("40, 40"), Some(0), None),
            ("7 not modified", "GET", 304, Some("40"), Some(0), Some("40")),
            ("8 no content", "DELETE", 204, Some("40"), Some(0), None),
            ("9 an empty body", "GET", 200, Some("0"), Some(0), Some("0")),
        ] {
            let mut got = HeaderMap::new();
            if let Some(claimed) = claimed {
                got.insert(header::CONTENT_LENGTH, HeaderValue::from_static(claimed));
            }
            let status = StatusCode::from_u16(code).expect("a code");
            set_length(&mut got, &method.parse().expect("a method"), status, body);
            let length = got.get(header::CONTENT_LENGTH).map(|value| value.to_str().expect("digits"));
            assert_eq!(length, want, "{case}");
        }
    }
}
