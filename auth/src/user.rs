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

    /// A user with groups; `system:authenticated` is added.
    pub fn new(username: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        UserInfo { username: username.into(), uid: String::new(), groups, extra: BTreeMap::new() }
    }

    /// A user that another system has authenticated. As upstream, `system:authenticated` is added unless the user is anonymous or
    /// already has one of the two groups.
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

    /// The controllers, when they run in this process.
    pub fn controller_manager() -> Self {
        Self::new("system:kube-controller-manager", ["system:masters".to_owned()])
    }

    /// The node agent, when it runs in this process. It has full access, except that `NodeRestriction` also applies to it.
    pub fn node(name: &str) -> Self {
        let groups = ["system:nodes", "system:masters"].map(str::to_owned);
        Self::new(format!("system:node:{name}"), groups)
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
