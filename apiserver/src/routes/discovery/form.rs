//! The form that a client requests of a discovery document, and responses in the legacy form.

use axum::response::Response;
use http::{HeaderMap, header};
use serde_json::Value;

use crate::encode::answer;
use crate::encode::negotiate::{
    Endpoint, Media, RequestedEncoding, aggregated_discovery, error_media, negotiate, negotiate_unrouted,
};
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

/// The component that serves a path upstream. The router rejects unknown media types itself, with a text of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServedBy {
    /// The router of a built-in group.
    Router,
    /// The aggregator or the handler of custom groups.
    Handler,
}

impl ServedBy {
    /// The form of a legacy document; the error is a 406.
    fn negotiate(self, accept: Option<&str>) -> Result<RequestedEncoding, ApiError> {
        match self {
            ServedBy::Router => negotiate(accept, Endpoint::Document, false),
            ServedBy::Handler => negotiate_unrouted(accept, Endpoint::Document),
        }
    }
}

pub(super) fn form(accept: Option<&str>, served: ServedBy) -> Result<Form, ApiError> {
    if let Some(media) = aggregated_discovery(accept) {
        return Ok(Form::Aggregated(media));
    }
    served.negotiate(accept).map(|_| Form::Legacy)
}

pub(super) fn legacy(headers: &HeaderMap, served: ServedBy, document: &Value) -> Response {
    served
        .negotiate(accept(headers))
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
                Some(Form::Aggregated(Media::Json)),
            ),
            (&*format!("*/*;{aggregated}"), Some(Form::Aggregated(Media::Json))),
            ("application/json;g=meta.k8s.io;v=v1;as=Table", None),
            ("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList", None),
        ] {
            assert_eq!(form(Some(accept), ServedBy::Router).ok(), want, "{accept}");
        }
    }
}
