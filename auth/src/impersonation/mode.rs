//! The modes of constrained impersonation, and the identities that they never permit.
//!
//! Upstream: apiserver `pkg/endpoints/filters/impersonation/mode.go`. The mode `associated-node` is not supported.

use std::collections::BTreeMap;

use orlop_apimachinery::names;

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const NODE: &str = "system:node:";
/// The group of administrators.
const MASTERS: &str = "system:masters";

/// A mode of constrained impersonation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A service account, by its name alone.
    ServiceAccount,
    /// A node, by its name alone.
    ArbitraryNode,
    /// Any other user, with groups, a UID and extra attributes.
    UserInfo,
}

impl Mode {
    /// The mode for a user; `None` if only unconstrained impersonation supports it. `has_only_name` is false with groups, a UID or
    /// extra attributes.
    pub(super) fn of(user: &str, has_only_name: bool) -> Option<Self> {
        if node_name(user).is_some() {
            return has_only_name.then_some(Mode::ArbitraryNode);
        }
        if service_account(user).is_some() {
            return has_only_name.then_some(Mode::ServiceAccount);
        }
        Some(Mode::UserInfo)
    }

    /// The name in verbs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::ServiceAccount => "serviceaccount",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::UserInfo => "user-info",
        }
    }
}

/// Namespace and name of the service account that a user name denotes.
///
/// Upstream: apiserver `pkg/authentication/serviceaccount/util.go` (SplitUsername).
pub(super) fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    let is_valid = names::dns_label(namespace).is_empty() && names::dns_subdomain(name).is_empty();
    is_valid.then_some((namespace, name))
}

/// The node that a user name denotes.
pub(super) fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix(NODE).filter(|name| names::dns_subdomain(name).is_empty())
}

/// A check that no user passes in a constrained mode, whatever its rights.
pub(super) struct Refusal {
    /// The resource of the right that it precedes.
    pub(super) resource: &'static str,
    /// The name in that right.
    pub(super) name: &'static str,
    /// The reason.
    pub(super) why: String,
}

/// The refusals of an identity.
pub(super) fn refusals(groups: &[String], extra: &BTreeMap<String, Vec<String>>) -> Vec<Refusal> {
    let group = if groups.iter().any(String::is_empty) {
        Some(("", "impersonating the empty string group is not allowed"))
    } else if groups.iter().any(|group| group == MASTERS) {
        Some((MASTERS, "impersonating the system:masters group is not allowed"))
    } else {
        None
    };
    let group = group.map(|(name, why)| Refusal { resource: "groups", name, why: why.to_owned() });
    let extra = extra.iter().find_map(|(key, values)| refused_extra(key, values));
    let extra = extra.map(|why| Refusal { resource: "userextras", name: "", why });
    group.into_iter().chain(extra).collect()
}

/// Why an extra attribute is refused (upstream: validateExtra).
fn refused_extra(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    if let Some(why) = wrong_path(key) {
        return Some(format!("impersonating an invalid key in extra is not allowed: {why}"));
    }
    if key.to_lowercase() != key {
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {key:?}"));
    }
    if values.is_empty() {
        return Some("impersonating empty values in extra is not allowed".to_owned());
    }
    let has_blank = values.iter().any(String::is_empty);
    has_blank.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

/// Why a key is not a domain and a path (upstream: apimachinery `pkg/util/validation`, IsDomainPrefixedPath).
fn wrong_path(key: &str) -> Option<String> {
    const WRONG_PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
    let invalid = |value: &str, why: &str| format!("extra.key: Invalid value: {value:?}: {why}");
    let parts = key.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty());
    let Some((host, path)) = parts else {
        return Some(invalid(key, "must be a domain-prefixed path (such as \"acme.io/foo\")"));
    };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    let wrong_host = names::dns_subdomain(host).into_iter().next().map(|why| invalid(host, &why));
    wrong_host.or_else(|| (!path.bytes().all(is_allowed)).then(|| invalid(path, WRONG_PATH)))
}
