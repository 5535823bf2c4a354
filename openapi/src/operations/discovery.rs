//! The operations that return discovery documents, the version and the keys of tokens.

use super::names::{Naming, group_infix, group_tag};
use super::{Content, JSON, MEDIA, OK, Route};
use crate::resource::version_path;

/// The schemas of the documents.
pub(crate) const API_VERSIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions";
pub(crate) const API_GROUP_LIST: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList";
pub(crate) const API_GROUP: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup";
pub(crate) const API_RESOURCE_LIST: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList";
pub(crate) const VERSION_INFO: &str = "io.k8s.apimachinery.pkg.version.Info";

/// Returns the versions of the core group.
pub(crate) fn core_versions() -> Route {
    route("/api/", "getCoreAPIVersions", "core", "get available API versions", API_VERSIONS)
}

/// Returns the groups.
pub(crate) fn groups() -> Route {
    route("/apis/", "getAPIVersions", "apis", "get available API versions", API_GROUP_LIST)
}

/// Returns the versions of a group.
pub(crate) fn group(group: &str) -> Route {
    let id = format!("get{}APIGroup", group_infix(group));
    route(&format!("/apis/{group}/"), &id, &group_tag(group), "get information of a group", API_GROUP)
}

/// Returns the resources of a group and version.
pub(crate) fn resources(group: &str, version: &str) -> Route {
    let naming = Naming::of(group, version);
    let id = naming.id("get", "APIResources");
    let path = version_path(group, version);
    route(&format!("/{path}/"), &id, &naming.tag, "get available resources", API_RESOURCE_LIST)
}

/// Returns the version of the server.
pub(crate) fn version() -> Route {
    let description = "get the version information for this server";
    let media = &[JSON];
    let route = route("/version/", "getCodeVersion", "version", description, VERSION_INFO);
    Route { consumes: media, produces: media, ..route }
}

/// Returns the discovery document of the issuer of service account tokens.
pub(crate) fn issuer() -> Route {
    Route {
        answer: Content::Text,
        consumes: &[],
        produces: &[JSON],
        ..route(
            "/.well-known/openid-configuration/",
            "getServiceAccountIssuerOpenIDConfiguration",
            "WellKnown",
            "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
            "",
        )
    }
}

/// Returns the public keys of service account tokens.
pub(crate) fn keys() -> Route {
    Route {
        answer: Content::Text,
        consumes: &[],
        produces: &["application/jwk-set+json"],
        ..route(
            "/openid/v1/jwks/",
            "getServiceAccountIssuerOpenIDKeyset",
            "openid",
            "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
            "",
        )
    }
}

fn route(path: &str, id: &str, tag: &str, description: &str, schema: &str) -> Route {
    Route {
        path: path.to_owned(),
        method: "get",
        id: id.to_owned(),
        tag: tag.to_owned(),
        description: description.to_owned(),
        action: None,
        parameters: Vec::new(),
        body: None,
        consumes: MEDIA,
        produces: MEDIA,
        answer: Content::Object(schema.to_owned()),
        codes: OK,
    }
}
