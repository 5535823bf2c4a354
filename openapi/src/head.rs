//! The members that documents share: the version of OpenAPI, the title, the security scheme.

use serde_json::{Value, json};

/// The version of OpenAPI that v3 documents follow.
pub(crate) const VERSION: &str = "3.0.0";

/// The name of the security scheme.
pub(crate) const BEARER_TOKEN: &str = "BearerToken";

/// The title of documents of built-in kinds, and the Kubernetes release that they describe.
pub(crate) fn info() -> Value {
    json!({"title": "Kubernetes", "version": "v1.36.2"})
}

/// The title of documents of custom kinds.
pub(crate) fn custom_info() -> Value {
    json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
}

/// The security schemes, by name.
pub(crate) fn security_schemes() -> Value {
    json!({BEARER_TOKEN: {
        "type": "apiKey", "name": "authorization", "in": "header",
        "description": "Bearer Token authentication",
    }})
}
