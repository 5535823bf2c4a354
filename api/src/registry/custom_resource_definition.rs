//! The names of `CustomResourceDefinition`. Its rules need schemas and CEL, so the kind itself is in `orlop-crd`.

use crate::kind::Names;

/// The storage prefix of definitions.
pub const PREFIX: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// The names of the kind.
pub const NAMES: Names = Names {
    group: "apiextensions.k8s.io",
    version: "v1",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    singular: "customresourcedefinition",
    short: &["crd", "crds"],
    categories: &["api-extensions"],
    schema: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
};
