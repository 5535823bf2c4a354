//! Rejects requests of foreign sites to a server without authentication.
//!
//! A browser sends requests to this machine on behalf of any page. There are two attacks. With DNS rebinding, a foreign name
//! resolves to this machine and its page reads the responses: such requests have the foreign name in `Host`. With request
//! forgery, a foreign page posts without reading the response: browsers name the page's site in `Origin`. Tools such as kubectl
//! send no `Origin` and the real `Host`.

use http::header::{HOST, ORIGIN};
use http::{HeaderValue, Method, Request};
use orlop_api::status::ApiError;

/// Names that always resolve to this machine.
const LOOPBACK_NAMES: &[&str] = &["localhost", "127.0.0.1", "[::1]"];

/// Rejects a request to a name that is not a loopback name.
///
/// # Errors
/// The request names another host, none, or several.
pub fn check_host<B>(request: &Request<B>) -> Result<(), ApiError> {
    let authority = authority(request);
    if authority.is_some_and(is_loopback) {
        return Ok(());
    }
    let shown = authority.unwrap_or("");
    Err(ApiError::forbidden_path(format!(
        "forbidden: this server has no authentication, so it answers only requests that are sent to localhost, \
         127.0.0.1 or [::1]; this one was sent to {shown:?}. Use one of those names, or start the server with \
         authentication"
    )))
}

/// Rejects a request of a page with another origin.
///
/// # Errors
/// `Origin` differs from the host of the request.
pub fn check_origin<B>(request: &Request<B>) -> Result<(), ApiError> {
    check_site(request)?;
    let Some(origin) = request.headers().get(ORIGIN) else { return Ok(()) };
    let own = origin.to_str().ok().and_then(|origin| {
        let (scheme, origin) = origin.split_once("://")?;
        let http = scheme == "http" || scheme == "https";
        (http && authority(request)?.eq_ignore_ascii_case(origin)).then_some(())
    });
    own.ok_or_else(|| {
        ApiError::forbidden_path(format!(
            "forbidden: the page of another origin ({}) made this request, and this server takes requests of its \
             own page alone",
            String::from_utf8_lossy(origin.as_bytes())
        ))
    })
}

/// Rejects a request of a page with another origin that has no `Origin`, such as that of an image: browsers report this in Fetch
/// Metadata headers. A link to the page of this server may be anywhere.
fn check_site<B>(request: &Request<B>) -> Result<(), ApiError> {
    let header = |name: &str| request.headers().get(name).map(HeaderValue::as_bytes);
    let is_own = matches!(header("sec-fetch-site"), None | Some(b"same-origin" | b"none"));
    let path = request.uri().path();
    let is_link = request.method() == Method::GET
        && header("sec-fetch-mode") == Some(b"navigate")
        && header("sec-fetch-dest") == Some(b"document")
        && (path == "/" || path == "/docs" || path == "/ui" || path.starts_with("/ui/"));
    if is_own || is_link {
        return Ok(());
    }
    Err(ApiError::forbidden_path(
        "forbidden: the page of another site made this request (Sec-Fetch-Site), and this server takes requests of its own \
         page alone",
    ))
}

/// The host of the request: `:authority` in HTTP/2, `Host` in HTTP/1.1.
fn authority<B>(request: &Request<B>) -> Option<&str> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.as_str());
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        // Several are ambiguous, and HTTP/1.1 requires one.
        (_, Some(_)) | (None, None) => None,
    }
}

fn is_loopback(authority: &str) -> bool {
    LOOPBACK_NAMES.iter().any(|name| {
        let Some(head) = authority.get(..name.len()) else { return false };
        let Some(port) = authority.get(name.len()..) else { return false };
        let port_is_good = match port.strip_prefix(':') {
            Some(digits) => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
            None => port.is_empty(),
        };
        head.eq_ignore_ascii_case(name) && port_is_good
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut builder = Request::builder().uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap()
    }

    #[test]
    fn only_loopback_hosts_are_accepted() {
        let cases = [
            ("localhost", true),
            ("LocalHost:8080", true),
            ("127.0.0.1:1", true),
            ("[::1]:8080", true),
            ("[::1]", true),
            ("::1", false),
            ("localhost:", false),
            ("localhost:x", false),
            ("localhost.evil.example", false),
            ("localhost.evil.example:8080", false),
            ("evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("127.0.0.2", false),
            ("user@localhost", false),
            ("", false),
        ];
        for (host, want) in cases {
            assert_eq!(check_host(&request("/api", &[("host", host)])).is_ok(), want, "{host}");
        }
        assert!(check_host(&request("/api", &[])).is_err(), "no host");
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert!(check_host(&request("/api", &two)).is_err(), "two hosts");
        assert!(check_host(&request("http://localhost:80/api", &[])).is_ok(), "HTTP/2");
        let mixed = [("host", "localhost")];
        assert!(check_host(&request("http://evil.example/api", &mixed)).is_err(), "the authority decides");
    }

    #[test]
    fn only_the_same_origin_is_accepted() {
        let cases = [
            (None, true),
            (Some("http://localhost:8080"), true),
            (Some("https://LOCALHOST:8080"), true),
            (Some("http://localhost:3000"), false),
            (Some("http://127.0.0.1:8080"), false),
            (Some("http://evil.example"), false),
            (Some("null"), false),
            (Some("file://localhost:8080"), false),
            (Some(""), false),
        ];
        for (origin, want) in cases {
            let mut headers = vec![("host", "localhost:8080")];
            headers.extend(origin.map(|origin| ("origin", origin)));
            assert_eq!(check_origin(&request("/api", &headers)).is_ok(), want, "{origin:?}");
        }
    }

    #[test]
    fn requests_of_other_sites_are_rejected() {
        let link = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        for (path, site, more, want) in [
            ("/api", None, &[][..], true),
            ("/api", Some("same-origin"), &[], true),
            ("/api", Some("none"), &link, true),
            ("/api", Some("cross-site"), &[], false),
            ("/api", Some("same-site"), &[], false),
            ("/api", Some("cross-site"), &link, false),
            ("/api", Some("unheard-of"), &[], false),
            ("/", Some("cross-site"), &link, true),
            ("/ui/", Some("cross-site"), &link, true),
            ("/ui/", Some("cross-site"), &link[..1], false),
            ("/uix", Some("cross-site"), &link, false),
        ] {
            let mut headers = vec![("host", "localhost:8080")];
            headers.extend(site.map(|site| ("sec-fetch-site", site)));
            headers.extend(more);
            assert_eq!(check_origin(&request(path, &headers)).is_ok(), want, "{path} {site:?}");
        }
    }

    #[test]
    fn rejection_names_the_accepted_hosts() {
        let error = check_host(&request("/api", &[("host", "evil.example")])).unwrap_err();
        assert_eq!((error.code, error.reason), (403, "Forbidden"));
        assert!(error.message.contains("evil.example") && error.message.contains("localhost"));
    }
}
