//! The modes of impersonation, and the identities that the constrained ones never permit.
//!
//! Upstream: apiserver `pkg/endpoints/filters/impersonation/mode.go`.

use std::collections::BTreeMap;

use orlop_apimachinery::names;

use crate::UserInfo;

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const NODE: &str = "system:node:";
/// The group of administrators.
const MASTERS: &str = "system:masters";
/// The extra attribute of a service account whose token is bound to a node, or to a pod on it.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// The extra attribute that replaces all others in the mode [`Mode::AssociatedNode`]. Its values are their keys.
const ASSOCIATED_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";

/// A mode of impersonation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A service account impersonates the node on which it runs, by its name alone.
    AssociatedNode,
    /// A node, by its name alone.
    ArbitraryNode,
    /// A service account, by its name alone.
    ServiceAccount,
    /// Any other user, with groups, a UID and extra attributes.
    UserInfo,
    /// Unconstrained impersonation of any user, with groups, a UID and extra attributes.
    Legacy,
}

impl Mode {
    /// The modes for a user, in upstream's order. `has_only_name` is false with groups, a UID or extra attributes.
    pub(super) fn all(user: &str, has_only_name: bool, requester: &UserInfo) -> Vec<Self> {
        let constrained: &[Mode] = match (node_name(user), service_account(user)) {
            (None, None) => &[Mode::UserInfo],
            _ if !has_only_name => &[],
            (Some(node), _) if runs_on(requester, node) => &[Mode::AssociatedNode, Mode::ArbitraryNode],
            (Some(_), _) => &[Mode::ArbitraryNode],
            (None, Some(_)) => &[Mode::ServiceAccount],
        };
        constrained.iter().copied().chain([Mode::Legacy]).collect()
    }

    /// Whether the mode impersonates only nodes.
    pub(super) fn is_of_nodes(self) -> bool {
        matches!(self, Mode::AssociatedNode | Mode::ArbitraryNode)
    }

    /// The name in verbs; `None` for unconstrained impersonation.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Mode::AssociatedNode => Some("associated-node"),
            Mode::ArbitraryNode => Some("arbitrary-node"),
            Mode::ServiceAccount => Some("serviceaccount"),
            Mode::UserInfo => Some("user-info"),
            Mode::Legacy => None,
        }
    }

    /// The verb for the user; empty for unconstrained impersonation.
    pub fn constraint(self) -> String {
        self.name().map(|name| format!("impersonate:{name}")).unwrap_or_default()
    }

    /// The requesting user for the authorizer. In the mode [`Mode::AssociatedNode`], the right covers all nodes of the account, so the
    /// authorizer gets no attributes of a single node.
    pub(super) fn requester(self, user: &UserInfo) -> UserInfo {
        let mut user = user.clone();
        if self == Mode::AssociatedNode {
            let keys = std::mem::take(&mut user.extra).into_keys().collect();
            user.extra.insert(ASSOCIATED_KEYS.to_owned(), keys);
        }
        user
    }
}

/// Whether a user is a service account that runs on a node.
fn runs_on(user: &UserInfo, node: &str) -> bool {
    let is_account = service_account(&user.username).is_some();
    is_account && user.extra.get(NODE_NAME).is_some_and(|names| matches!(&names[..], [name] if name == node))
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
