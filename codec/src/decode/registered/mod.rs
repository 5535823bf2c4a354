//! The kinds that upstream knows in each API version, served or not. A body of such a kind has another error than a body of
//! an unknown kind.
//!
//! The kinds are in `kinds.txt`: a line is an API version and its kinds, separated by spaces; `+` marks a kind that has a list.
//!
//! Source: `register.go` of every package of upstream's API types at 1.36.

/// API groups and the packages of their internal types.
const PACKAGES: &[(&str, &str)] = &[
    ("", "core"),
    ("admission.k8s.io", "admission"),
    ("admissionregistration.k8s.io", "admissionregistration"),
    (API_EXTENSIONS, "apiextensions"),
    (API_REGISTRATION, "apiregistration"),
    ("apps", "apps"),
    ("authentication.k8s.io", "authentication"),
    ("authorization.k8s.io", "authorization"),
    ("autoscaling", "autoscaling"),
    ("batch", "batch"),
    ("certificates.k8s.io", "certificates"),
    ("coordination.k8s.io", "coordination"),
    ("discovery.k8s.io", "discovery"),
    ("events.k8s.io", "events"),
    ("extensions", "extensions"),
    ("flowcontrol.apiserver.k8s.io", "flowcontrol"),
    ("imagepolicy.k8s.io", "imagepolicy"),
    ("internal.apiserver.k8s.io", "apiserverinternal"),
    ("networking.k8s.io", "networking"),
    ("node.k8s.io", "node"),
    ("policy", "policy"),
    ("rbac.authorization.k8s.io", "rbac"),
    ("resource.k8s.io", "resource"),
    ("scheduling.k8s.io", "scheduling"),
    ("storage.k8s.io", "storage"),
    ("storagemigration.k8s.io", "storagemigration"),
];

const API_EXTENSIONS: &str = "apiextensions.k8s.io";
const API_REGISTRATION: &str = "apiregistration.k8s.io";

/// The options and events that belong to every API version.
const OF_EVERY_VERSION: &[&str] = &[
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "UpdateOptions",
    "WatchEvent",
];

/// The kinds without a version, which upstream knows as those of `v1`.
const UNVERSIONED: &[&str] = &["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"];

/// One of upstream's schemes: the set of kinds that a part of the server can decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scheme {
    /// Its name in error messages: the place of its definition.
    pub(super) name: &'static str,
    kinds: &'static str,
}

const KINDS: Scheme =
    Scheme { name: "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30", kinds: include_str!("kinds.txt") };
const DEFINITIONS: Scheme = Scheme {
    name: "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
    kinds: "v1\n\
        apiextensions.k8s.io/v1 ConversionReview CustomResourceDefinition+\n\
        apiextensions.k8s.io/v1beta1 ConversionReview CustomResourceDefinition+",
};
const API_SERVICES: Scheme = Scheme {
    name: "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
    kinds: "v1\napiregistration.k8s.io/v1 APIService+\napiregistration.k8s.io/v1beta1 APIService+",
};

impl Scheme {
    /// The scheme that decodes the objects of a group.
    pub(super) fn of(group: &str) -> Scheme {
        match group {
            API_EXTENSIONS => DEFINITIONS,
            API_REGISTRATION => API_SERVICES,
            _ => KINDS,
        }
    }

    /// Whether it contains a kind.
    pub(super) fn knows(&self, api_version: &str, kind: &str) -> bool {
        let line = self.kinds.lines().find_map(|line| {
            let (version, kinds) = line.split_once(' ').unwrap_or((line, ""));
            (version == api_version).then_some(kinds)
        });
        let Some(kinds) = line else { return false };
        let is_listed = |entry: &str| match entry.strip_suffix('+') {
            Some(name) => kind.strip_suffix("List").unwrap_or(kind) == name,
            None => entry == kind,
        };
        OF_EVERY_VERSION.contains(&kind)
            || api_version == "v1" && UNVERSIONED.contains(&kind)
            || kinds.split(' ').any(is_listed)
    }
}

/// The Go package of a kind in an API version.
pub(super) fn go_package<'v>(api_version: &'v str, kind: &str) -> &'v str {
    match OF_EVERY_VERSION.contains(&kind) {
        true => "v1",
        false => api_version.rsplit('/').next().unwrap_or_default(),
    }
}

/// The package of the internal types of a group.
pub(super) fn package(group: &str) -> &str {
    PACKAGES.iter().find(|(known, _)| *known == group).map_or(group, |(_, package)| package)
}

/// The group of the internal types in a package.
pub(super) fn group(package: &str) -> &str {
    PACKAGES.iter().find(|(_, known)| *known == package).map_or(package, |(group, _)| group)
}

/// Whether upstream converts a kind of one group to the kind of the same name of another: the kinds have one internal type.
pub(super) fn is_one_type(kind: &str, one: &str, other: &str) -> bool {
    let home = |group: &str| match (group, kind) {
        ("events.k8s.io", "Event") => String::new(),
        ("extensions", "DaemonSet" | "Deployment" | "DeploymentRollback" | "ReplicaSet") => "apps".to_owned(),
        ("extensions", "Ingress" | "NetworkPolicy") => "networking.k8s.io".to_owned(),
        ("apps" | "extensions", "Scale") => "autoscaling".to_owned(),
        (group, _) => group.to_owned(),
    };
    home(one) == home(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_know_served_and_other_versions() {
        for (group, api_version, kind, want) in [
            ("", "v1", "ConfigMap", true),
            ("", "v1", "ConfigMapList", true),
            ("", "v1", "List", true),
            ("", "v1", "BindingList", false),
            ("", "v1", "Status", true),
            ("", "apps/v1", "Status", false),
            ("", "apps/v1", "DeleteOptions", true),
            ("", "apps/v1beta1", "Deployment", true),
            ("", "extensions/v1beta1", "IngressList", true),
            ("", "v1", "Container", false),
            ("", "v1", "CustomResourceDefinition", false),
            ("", "", "ConfigMap", false),
            ("", "v1", "", false),
            (API_EXTENSIONS, "apiextensions.k8s.io/v1beta1", "CustomResourceDefinitionList", true),
            (API_EXTENSIONS, "v1", "ConfigMap", false),
            (API_EXTENSIONS, "v1", "Status", true),
            (API_REGISTRATION, "apiregistration.k8s.io/v1beta1", "APIService", true),
        ] {
            assert_eq!(Scheme::of(group).knows(api_version, kind), want, "{group} {api_version} {kind}");
        }
    }

    #[test]
    fn every_builtin_kind_is_known() {
        for kind in orlop_api::registry::BUILTIN_KINDS {
            let names = kind.names();
            let scheme = Scheme::of(names.group);
            assert!(scheme.knows(&names.api_version(), names.kind), "{} {}", names.api_version(), names.kind);
            assert_ne!(package(names.group), "", "{}", names.group);
            assert_eq!(group(package(names.group)), names.group);
        }
    }
}
