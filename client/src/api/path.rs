//! Names and namespaces as segments of request paths. They often are the content of other objects, which is not always validated: a name
//! with a slash would address another resource.

use std::borrow::Cow;

use kube::core::request::Error as BuildError;
use kube::{Error, Result};
use orlop_apimachinery::names::path_segment;
use orlop_apimachinery::quoted;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All characters but those that a segment of a path may contain (RFC 3986, `pchar`).
const ENCODED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// Whether an object can have this name. No server stores an object with another name.
pub fn is_possible_name(name: &str) -> bool {
    !name.is_empty() && path_segment(name).is_empty()
}

/// The name of an object as a segment. As client-go, rejects names that no object can have.
pub(super) fn name(name: &str) -> Result<Cow<'_, str>> {
    segment("resource name", name)
}

/// The namespace of a request as a segment.
pub(super) fn namespace(namespace: &str) -> Result<Cow<'_, str>> {
    if namespace.is_empty() {
        return Err(invalid("an empty namespace may not be set when a resource name is provided".to_owned()));
    }
    segment("namespace", namespace)
}

/// A segment even if it is not valid. Requests with it fail before they are sent.
pub(crate) fn encoded(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, &ENCODED).into()
}

fn segment<'t>(what: &str, text: &'t str) -> Result<Cow<'t, str>> {
    let faults = path_segment(text);
    if !faults.is_empty() {
        return Err(invalid(format!("invalid {what} {}: [{}]", quoted(text), faults.join(" "))));
    }
    Ok(encoded(text))
}

fn invalid(why: String) -> Error {
    Error::BuildRequest(BuildError::Validation(why))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::convert::Infallible;
    use std::sync::Arc;

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::api::Api;

    #[tokio::test]
    async fn requests_for_impossible_names_are_not_sent() {
        let sent: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&sent);
        let service = tower::service_fn(move |request: Request<Body>| {
            log.lock().push(request.uri().path().to_owned());
            let body = json!({"metadata": {"name": "a b"}}).to_string();
            async move { Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes()))) }
        });
        let client = Client::new(service, "default");
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), "ns");
        let (delete, patch, post) = (DeleteParams::default(), PatchParams::default(), PostParams::default());
        let merge = Patch::Merge(json!({}));
        for name in ["/tmp", "a/b", "..", ""] {
            let results = [
                api.get(name).await.map(drop),
                api.get_opt(name).await.map(drop),
                api.get_metadata_opt(name).await.map(drop),
                api.delete(name, &delete).await.map(drop),
                api.patch(name, &patch, &merge).await.map(drop),
                api.patch_status(name, &patch, &merge).await.map(drop),
                api.replace(name, &post, &ConfigMap::default()).await.map(drop),
                api.replace_status(name, &post, &ConfigMap::default()).await.map(drop),
            ];
            assert!(results.iter().all(Result::is_err), "{name}: {results:?}");
        }
        let elsewhere: Api<ConfigMap> = Api::namespaced(client, "../nodes");
        assert!(elsewhere.list(&ListParams::default()).await.is_err());
        assert!(elsewhere.create(&post, &ConfigMap::default()).await.is_err());
        assert_eq!(*sent.lock(), Vec::<String>::new());
        api.get("a b").await.unwrap();
        assert_eq!(*sent.lock(), ["/api/v1/namespaces/ns/configmaps/a%20b"]);
    }

    #[test]
    fn names_are_one_segment_or_rejected() {
        for (text, want) in [
            ("a-1.b_c~", Ok("a-1.b_c~")),
            ("system:node", Ok("system:node")),
            ("a b?c#d", Ok("a%20b%3Fc%23d")),
            ("é", Ok("%C3%A9")),
            ("/tmp", Err("invalid resource name \"/tmp\": [may not contain '/']")),
            ("a/b", Err("invalid resource name \"a/b\": [may not contain '/']")),
            ("a%2Fb", Err("invalid resource name \"a%2Fb\": [may not contain '%']")),
            ("..", Err("invalid resource name \"..\": [may not be '..']")),
        ] {
            let got = name(text).map_err(|error| error.to_string());
            match want {
                Ok(want) => assert_eq!(got.unwrap(), want, "{text}"),
                Err(want) => {
                    assert!(got.as_ref().is_err_and(|error| error.ends_with(want)), "{text}: {got:?}")
                }
            }
            assert_eq!(is_possible_name(text), want.is_ok(), "{text}");
        }
        assert!(!is_possible_name(""));
        assert!(namespace("").is_err() && namespace("a/b").is_err() && namespace("a").is_ok());
    }
}
