//! Texts in paths, queries and headers: selectors, continue tokens, parameters, media types.

use http::Method;
use orlop_apimachinery::{fields, labels};

use super::{allowed, in_bounds};
use crate::encode::negotiate::{Endpoint, error_media, negotiate};
use crate::handler;
use crate::registry::by_resource;
use crate::verbs::filter::Filter;
use crate::verbs::list::ContinueToken;
use crate::verbs::options::WriteOptions;
use crate::verbs::revision::parse_revision;
use orlop_api::query::Query;

/// Parses a text as a label selector and as a field selector.
pub(super) fn selectors(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match labels::Selector::parse(&text) {
        Ok(selector) => {
            let some = selector.matches([("a", "b")]);
            assert!(some || !selector.is_everything());
            for requirement in selector.requirements() {
                assert!(!requirement.key().is_empty(), "a requirement of nothing");
            }
        }
        Err(why) => in_bounds(data.len(), why.len(), "a message"),
    }
    match fields::Selector::parse(&text) {
        Ok(selector) => {
            let some = selector.matches(|field| (field == "metadata.name").then_some("b"));
            assert!(some || !selector.is_everything());
        }
        Err(why) => in_bounds(data.len(), why.len(), "a message"),
    }
    let query: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("labelSelector", &text)
        .append_pair("fieldSelector", &text)
        .finish();
    let kind = by_resource("", "v1", "persistentvolumeclaims").expect("claims are served");
    for extra in [false, true] {
        if let Err(error) = Filter::parse(&kind.into(), &Query::parse(Some(&query)), extra) {
            assert_eq!(error.code, 400, "{error}");
        }
    }
}

/// Decodes a continue token. An accepted token survives encoding and decoding.
pub(super) fn continue_token(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match ContinueToken::decode(&text) {
        Ok(token) => {
            let again = ContinueToken::decode(&token.encode()).expect("an accepted token decodes again");
            assert_eq!(again, token);
            assert!(!token.start.split('/').any(|part| part == ".."), "it leads out of its collection");
        }
        Err(error) => assert_eq!(error.code, 400, "{error}"),
    }
}

/// Parses part of a request target: a path and, after the first `?`, a query.
pub(super) fn query(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (path, raw) = text.split_once('?').unwrap_or((&text, &text));
    let query = Query::parse(Some(raw));
    for name in ["limit", "timeoutSeconds", "watch", "resourceVersion", "timeout"] {
        if let Err(error) = query.int(name) {
            assert_eq!(error.code, 400, "{error}");
        }
        let _ = query.flag(name);
        if let Err(why) = parse_revision(query.text(name)) {
            in_bounds(data.len(), why.len(), "a message");
        }
    }
    for result in [WriteOptions::parse("PatchOptions", &query), WriteOptions::parse_apply(&query)] {
        if let Err(error) = result {
            assert_eq!(error.code, 422, "{error}");
        }
    }
    for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        if let Err(error) = handler::probe(&method, path, &query) {
            allowed::check(&error);
            assert!(error.code < 500, "{error}");
        }
    }
}

/// Negotiates an `Accept` header.
pub(super) fn accept(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = error_media(Some(&text));
    for endpoint in [Endpoint::Single, Endpoint::List, Endpoint::Watch] {
        for list_route in [false, true] {
            match negotiate(Some(&text), endpoint, list_route) {
                Ok(wanted) => assert!(!wanted.content_type().is_empty()),
                Err(error) => assert_eq!(error.code, 406, "{error}"),
            }
        }
    }
}
