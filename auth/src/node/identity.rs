//! The node that a user represents.
//!
//! Upstream: pkg/auth/nodeidentifier/default.go.

use crate::UserInfo;
use crate::user::NODES;

/// The prefix of the user names of nodes.
const PREFIX: &str = "system:node:";

/// The name of the node that a user represents: empty if the user is a node without a name, `None` if it is not a node.
pub fn node_name(user: &UserInfo) -> Option<&str> {
    let name = user.username.strip_prefix(PREFIX)?;
    user.groups.iter().any(|group| group == NODES).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_needs_the_prefix_and_the_group() {
        for (name, groups, want) in [
            ("system:node:n", &["system:nodes"][..], Some("n")),
            ("system:node:", &["system:nodes"], Some("")),
            ("system:node:n", &["a", "system:nodes"], Some("n")),
            ("system:node:n", &["system:masters"], None),
            ("system:node:n", &[], None),
            ("n", &["system:nodes"], None),
            ("system:nodes:n", &["system:nodes"], None),
        ] {
            let user = UserInfo::new(name, groups.iter().map(|group| (*group).to_owned()));
            assert_eq!(node_name(&user), want, "{name} {groups:?}");
        }
    }
}
