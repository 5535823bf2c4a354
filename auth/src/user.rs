//! The user of a request.

use std::collections::BTreeMap;

/// Paths that need no credentials: these and none below them.
pub const PUBLIC_PATHS: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// The group of all authenticated users.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The user of a request without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of [`ANONYMOUS`].
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The group of node agents.
pub(crate) const NODES: &str = "system:nodes";
/// The prefix of the user names of service accounts; namespace and name follow.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The group of all service accounts, and the prefix of the group of those of a namespace.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// The user of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserInfo {
    /// The name, `system:admin` and so on.
    pub username: String,
    /// An identifier that outlives renaming; empty when there is none.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further attributes from the credentials.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// The user of every request to a server without authentication.
    pub const ADMIN: &str = "system:admin";
    /// The user of the controllers' shared caches.
    pub const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
    /// The user of the scheduler.
    pub const SCHEDULER: &str = "system:kube-scheduler";

    /// Whether a request with this user has valid credentials. `None` stands for a request that failed authentication.
    pub fn is_authenticated(user: Option<&UserInfo>) -> bool {
        user.is_some_and(|user| {
            user.username != ANONYMOUS && !user.groups.iter().any(|group| group == UNAUTHENTICATED)
        })
    }

    /// A user with groups, without a UID and extra attributes. See [`UserInfo::from_remote`] for the group that is added.
    pub fn new(username: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        Self::from_remote(username.into(), String::new(), groups.into_iter().collect(), BTreeMap::new())
    }

    /// A user that its credentials or another system have identified. As upstream, `system:authenticated` is added unless the user is
    /// anonymous or already has one of the two groups.
    ///
    /// Upstream: apiserver `pkg/authentication/group/authenticated_group_adder.go`.
    pub fn from_remote(
        username: String,
        uid: String,
        groups: Vec<String>,
        extra: BTreeMap<String, Vec<String>>,
    ) -> Self {
        let is_decided = username == ANONYMOUS
            || groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
        let mut user = UserInfo { username, uid, groups, extra };
        if !is_decided {
            user.groups.push(AUTHENTICATED.to_owned());
        }
        user
    }

    /// The user of every request to a server without authentication.
    pub fn admin() -> Self {
        Self::new(Self::ADMIN, ["system:masters".to_owned()])
    }

    /// The shared caches of the controllers in this process.
    pub fn controller_manager() -> Self {
        Self::new(Self::CONTROLLER_MANAGER, [])
    }

    /// The scheduler in this process.
    pub fn scheduler() -> Self {
        Self::new(Self::SCHEDULER, [])
    }

    /// A service account, without a UID: in this process, controllers are accounts that need not exist.
    ///
    /// Upstream: apiserver `pkg/authentication/serviceaccount/util.go`.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let groups = [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")];
        Self::new(format!("{SERVICE_ACCOUNT}{namespace}:{name}"), groups)
    }

    /// A node agent. The Node authorizer and `NodeRestriction` limit it to the objects of its node.
    pub fn node(name: &str) -> Self {
        Self::new(format!("system:node:{name}"), [NODES.to_owned()])
    }

    /// The user of a request without credentials.
    pub fn anonymous() -> Self {
        UserInfo {
            username: ANONYMOUS.to_owned(),
            uid: String::new(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            extra: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_identified_users_are_authenticated() {
        for (name, groups, want) in [
            ("ann", &[][..], &[AUTHENTICATED][..]),
            ("ann", &["a"], &["a", AUTHENTICATED]),
            ("ann", &[AUTHENTICATED], &[AUTHENTICATED]),
            ("ann", &[UNAUTHENTICATED], &[UNAUTHENTICATED]),
            (ANONYMOUS, &["a"], &["a"]),
        ] {
            let given = groups.iter().map(|group| (*group).to_owned());
            assert_eq!(UserInfo::new(name, given).groups, want, "{name} {groups:?}");
        }
    }
}
