//! The address of a plugin: `unix:///path`, or `unix:///@name` for a socket in Linux's abstract namespace.
//!
//! Endpoints are URLs, which are parsed as Go's `net/url` does.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use orlop_apimachinery::quoted;

/// Why an endpoint is not valid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EndpointError {
    /// It is no URL, or it has no path.
    Malformed(String),
    /// It is the URL of another protocol.
    Scheme(String),
}

/// The path of an endpoint. The path of an abstract socket begins with a zero byte.
pub(crate) fn parse(endpoint: &str) -> Result<PathBuf, EndpointError> {
    let malformed = |why: &str| EndpointError::Malformed(format!("parse {}: {why}", quoted(endpoint)));
    if endpoint.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err(malformed("net/url: invalid control character in URL"));
    }
    let without_fragment = endpoint.split('#').next().unwrap_or_default();
    let (scheme, rest) = match scheme(without_fragment) {
        Some(("", _)) => return Err(malformed("missing protocol scheme")),
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
        None if without_fragment.split(['/', '?']).next().is_some_and(|first| first.contains(':')) => {
            return Err(malformed("first path segment in URL cannot contain colon"));
        }
        None => (String::new(), without_fragment),
    };
    if scheme != "unix" {
        return Err(EndpointError::Scheme(scheme));
    }
    let rest = rest.split('?').next().unwrap_or_default();
    let path = match rest.strip_prefix("//") {
        // The host is ignored, as upstream does.
        Some(after) => after.find('/').map_or("", |at| &after[at..]),
        None if rest.starts_with('/') => rest,
        None => "",
    };
    let mut path =
        unescape(path).map_err(|escape| malformed(&format!("invalid URL escape {}", quoted(escape))))?;
    if path.starts_with(b"/@") {
        path.splice(..2, [0]);
    }
    // Upstream fails to connect instead.
    if matches!(path[..], [] | [b'/'] | [0]) {
        return Err(EndpointError::Malformed("the path of the socket is missing".to_owned()));
    }
    Ok(PathBuf::from(OsString::from_vec(path)))
}

/// The scheme of a URL, and the rest after its colon. The scheme is empty if the URL begins with a colon. `None` without a scheme.
fn scheme(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once(':')?;
    let mut letters = scheme.bytes();
    let is_scheme = letters.next().is_none_or(|first| first.is_ascii_alphabetic())
        && letters.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    is_scheme.then_some((scheme, rest))
}

/// Replaces percent escapes. The error is the invalid escape.
fn unescape(text: &str) -> Result<Vec<u8>, &str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at..];
        let invalid = || escape.char_indices().nth(3).map_or(escape, |(end, _)| &escape[..end]);
        let digits = escape.get(1..3).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let digits = digits.ok_or_else(invalid)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| invalid())?);
        rest = &escape[3..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn endpoints_are_parsed_as_go_parses_urls() {
        let malformed = |why: &str| Err(EndpointError::Malformed(why.to_owned()));
        let scheme = |scheme: &str| Err(EndpointError::Scheme(scheme.to_owned()));
        for (endpoint, want) in [
            ("unix:///run/kms.sock", Ok("/run/kms.sock")),
            ("unix:/run/kms.sock", Ok("/run/kms.sock")),
            ("UNIX:///run/kms.sock", Ok("/run/kms.sock")),
            ("unix://host/run/kms.sock", Ok("/run/kms.sock")),
            ("unix:///run/a%20b?x=y#z", Ok("/run/a b")),
            ("unix:///@kms", Ok("\0kms")),
            ("unix:///run/@kms", Ok("/run/@kms")),
            ("https://www.foo.com", scheme("https")),
            ("/run/kms.sock", scheme("")),
            ("1:2", malformed("parse \"1:2\": first path segment in URL cannot contain colon")),
            (":/run/kms.sock", malformed("parse \":/run/kms.sock\": missing protocol scheme")),
            (
                "unix:///foo\n.socket",
                malformed("parse \"unix:///foo\\n.socket\": net/url: invalid control character in URL"),
            ),
            ("unix:///a%zz", malformed("parse \"unix:///a%zz\": invalid URL escape \"%zz\"")),
            ("unix:///a%\u{e4}", malformed("parse \"unix:///a%\u{e4}\": invalid URL escape \"%\u{e4}\"")),
            ("unix:///a%2", malformed("parse \"unix:///a%2\": invalid URL escape \"%2\"")),
            ("unix://", malformed("the path of the socket is missing")),
            ("unix:kms.sock", malformed("the path of the socket is missing")),
            ("unix:///@", malformed("the path of the socket is missing")),
        ] {
            let found = parse(endpoint);
            let path = found.as_ref().map(|path| path.as_os_str().as_bytes());
            assert_eq!(path, want.as_ref().map(|path| path.as_bytes()), "{endpoint}");
        }
    }
}
