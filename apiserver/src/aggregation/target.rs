//! The path and the query of a forwarded request. Pure.
//!
//! Another server may read a path or a query in another way than this one, which has authorized the request: `%2F` as a part of a name,
//! or `;` between two parameters. So it receives them in the one form that has no other reading.
//!
//! Upstream: kube-aggregator `pkg/apiserver/handler_proxy.go` (the path is decoded, and the query parsed and encoded again).

use http::Uri;
use http::uri::InvalidUri;
use orlop_api::query::Query;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// The characters that Go escapes in a path.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// The path and the query for the other server.
///
/// # Errors
/// They are too long.
pub(super) fn target(uri: &Uri) -> Result<Uri, InvalidUri> {
    let decoded: Vec<u8> = percent_decode_str(uri.path()).collect();
    let mut target = percent_encode(&decoded, IN_PATH).to_string();
    let query = Query::parse(uri.query()).encode();
    if !query.is_empty() {
        target.push('?');
        target.push_str(&query);
    }
    target.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_server_reads_what_was_authorized() {
        for (sent, want) in [
            ("/apis/g/v1/things", "/apis/g/v1/things"),
            ("/apis/g/v1/things/", "/apis/g/v1/things/"),
            ("/apis/g/v1/things/a%2Fstatus", "/apis/g/v1/things/a/status"),
            ("/apis/g/v1/%74hings/a%20b%3Fc", "/apis/g/v1/things/a%20b%3Fc"),
            ("/apis/g/v1/things/a!(b)~c", "/apis/g/v1/things/a%21%28b%29~c"),
            ("/apis/g/v1/things?", "/apis/g/v1/things"),
            ("/apis/g/v1/things?watch=1&a=b", "/apis/g/v1/things?a=b&watch=1"),
            ("/apis/g/v1/things?watch=true;b", "/apis/g/v1/things"),
            ("/apis/g/v1/things?a=1&b=%zz&a=2", "/apis/g/v1/things?a=1&a=2"),
            ("/apis/g/v1/things?f=metadata.name%3Da+b", "/apis/g/v1/things?f=metadata.name%3Da+b"),
        ] {
            let uri: Uri = sent.parse().expect("a URI");
            assert_eq!(target(&uri).expect("a target").to_string(), want, "{sent}");
        }
    }
}
