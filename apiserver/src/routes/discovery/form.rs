//! The form that a client requests of a discovery document, and responses in the legacy form.

use axum::response::Response;
use http::{HeaderMap, header};
use serde_json::Value;

use crate::encode::answer;
use crate::encode::negotiate::{Endpoint, Media, error_media, negotiate};
use orlop_api::status::ApiError;

pub(super) fn accept(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ACCEPT).and_then(|value| value.to_str().ok())
}

/// The form that a client requests of `/api` and `/apis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Aggregated(Media),
    Legacy,
}

pub(super) fn form(accept: Option<&str>) -> Result<Form, ApiError> {
    for clause in accept.unwrap_or_default().split(',').map(str::trim) {
        let params: Vec<&str> = clause.split(';').map(str::trim).collect();
        let media = match params.first() {
            Some(&"application/json") => Some(Media::Json),
            Some(&"application/yaml") => Some(Media::Yaml),
            Some(&"application/vnd.kubernetes.protobuf") => Some(Media::Protobuf),
            Some(_) | None => None,
        };
        if !params.contains(&"as=APIGroupDiscoveryList") {
            if media.is_some() || params.first() == Some(&"*/*") {
                break;
            }
            continue;
        }
        if let Some(media) = media
            && params.contains(&"g=apidiscovery.k8s.io")
            && params.contains(&"v=v2")
        {
            return Ok(Form::Aggregated(media));
        }
    }
    negotiate(accept, Endpoint::Single, false).map(|_| Form::Legacy)
}

pub(super) fn legacy(headers: &HeaderMap, document: &Value) -> Response {
    let wanted = negotiate(accept(headers), Endpoint::Single, false);
    wanted
        .and_then(|wanted| answer::value_answer(200, wanted, document))
        .unwrap_or_else(|error| refuse(headers, &error))
}

pub(super) fn refuse(headers: &HeaderMap, error: &ApiError) -> Response {
    answer::error(error, error_media(accept(headers)), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_header_selects_the_form() {
        let aggregated = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        for (accept, want) in [
            ("", Some(Form::Legacy)),
            ("application/json", Some(Form::Legacy)),
            ("application/vnd.kubernetes.protobuf", Some(Form::Legacy)),
            ("text/html", None),
            (&*format!("application/json;{aggregated}"), Some(Form::Aggregated(Media::Json))),
            (&*format!("application/yaml;{aggregated}"), Some(Form::Aggregated(Media::Yaml))),
            (
                &*format!("application/vnd.kubernetes.protobuf;{aggregated}"),
                Some(Form::Aggregated(Media::Protobuf)),
            ),
            (
                &*format!("application/json;{aggregated},application/vnd.kubernetes.protobuf"),
                Some(Form::Aggregated(Media::Json)),
            ),
            (
                &*format!("application/vnd.kubernetes.protobuf,application/json;{aggregated}"),
                Some(Form::Legacy),
            ),
            ("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList", None),
        ] {
            assert_eq!(form(Some(accept)).ok(), want, "{accept}");
        }
    }
}
