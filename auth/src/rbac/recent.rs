//! The grants of recent users: a decision about such a user searches no bindings.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::rule::Rule;
use crate::UserInfo;

/// Maximum number of grants of one user.
pub(super) const GRANTS_OF_USER: usize = 200;
/// Maximum number of grants and groups of all users; one more forgets all users.
const GRANTS: usize = 20_000;
/// Maximum number of sets of groups of one user; one more forgets them.
const GROUP_SETS: usize = 8;

/// The rules that one binding grants.
#[derive(Clone, Debug)]
pub(super) struct KnownGrant {
    /// Of the binding; empty for the whole cluster.
    pub(super) namespace: String,
    /// Upstream's reason for a request that the rules permit.
    pub(super) reason: String,
    /// Or the name of the role that does not exist.
    pub(super) rules: Result<Arc<[Rule]>, String>,
}

/// All grants of a user.
#[derive(Debug)]
pub(super) struct UserGrants {
    /// In the order of namespace and name of the bindings.
    grants: Vec<KnownGrant>,
    /// The number of those in the whole cluster, which are the first.
    in_cluster: usize,
}

impl UserGrants {
    /// Grants in the order of namespace and name of the bindings.
    pub(super) fn new(grants: Vec<KnownGrant>) -> Self {
        let in_cluster = grants.partition_point(|grant| grant.namespace.is_empty());
        UserGrants { grants, in_cluster }
    }

    /// The grants in the whole cluster.
    pub(super) fn in_cluster(&self) -> &[KnownGrant] {
        &self.grants[..self.in_cluster]
    }

    /// The grants in a namespace.
    pub(super) fn in_namespace(&self, namespace: &str) -> &[KnownGrant] {
        let rest = &self.grants[self.in_cluster..];
        let start = rest.partition_point(|grant| grant.namespace.as_str() < namespace);
        let rest = &rest[start..];
        &rest[..rest.partition_point(|grant| grant.namespace == namespace)]
    }
}

/// The grants of recent users. They depend on the roles and bindings: [`forget`](Self::forget) after each change.
#[derive(Debug, Default)]
pub(super) struct RecentUsers {
    users: RwLock<KnownUsers>,
}

/// The groups of a user, and the grants to the user and these groups.
type KnownUser = (Vec<String>, Arc<UserGrants>);

#[derive(Debug, Default)]
struct KnownUsers {
    /// By user name; a user can have several sets of groups.
    grants: HashMap<String, Vec<KnownUser>>,
    /// The number of grants and groups, and one for each set of grants.
    size: usize,
}

impl RecentUsers {
    /// The grants of a user, if they are known.
    pub(super) fn get(&self, user: &UserInfo) -> Option<Arc<UserGrants>> {
        let users = self.users.read();
        let known = users.grants.get(&user.username)?;
        known.iter().find(|(groups, _)| *groups == user.groups).map(|(_, grants)| grants.clone())
    }

    /// Remembers the grants of a user.
    pub(super) fn add(&self, user: &UserInfo, grants: Arc<UserGrants>) {
        let mut users = self.users.write();
        if users.size > GRANTS {
            *users = KnownUsers::default();
        }
        users.size += grants.grants.len() + user.groups.len() + 1;
        let known = users.grants.entry(user.username.clone()).or_default();
        if known.len() == GROUP_SETS {
            known.clear();
        }
        // Another request may have added them meanwhile.
        known.retain(|(groups, _)| *groups != user.groups);
        known.push((user.groups.clone(), grants));
    }

    /// Forgets all users.
    pub(super) fn forget(&mut self) {
        *self.users.get_mut() = KnownUsers::default();
    }

    /// The number of remembered sets of grants.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.users.read().grants.values().map(Vec::len).sum()
    }
}

/// A copy of an index starts without users.
impl Clone for RecentUsers {
    fn clone(&self) -> Self {
        RecentUsers::default()
    }
}
