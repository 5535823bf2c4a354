//! Requests without credentials.

use orlop_auth::PUBLIC_PATHS;

/// Where requests without credentials are permitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AnonymousAccess {
    /// Nowhere.
    Denied,
    /// On the paths of health and version.
    #[default]
    PublicPaths,
    /// Everywhere; the authorizer decides.
    AllPaths,
}

impl AnonymousAccess {
    /// Decides from `--anonymous-auth`, and from whether rules alone authorize requests. If every request is authorized, anonymous ones
    /// are restricted to the public paths; upstream denies them too.
    pub(crate) fn new(flag: Option<bool>, is_decided_by_rules: bool) -> Self {
        match (flag, is_decided_by_rules) {
            (Some(false), _) => AnonymousAccess::Denied,
            (Some(true) | None, true) => AnonymousAccess::AllPaths,
            (Some(true), false) => {
                tracing::warn!(
                    "--anonymous-auth=true applies only to health and version, because --authorization-mode permits every request: \
                     use RBAC"
                );
                AnonymousAccess::PublicPaths
            }
            (None, false) => AnonymousAccess::PublicPaths,
        }
    }

    /// Whether a request to this path needs no credentials.
    pub(super) fn permits(self, path: &str) -> bool {
        match self {
            AnonymousAccess::Denied => false,
            AnonymousAccess::PublicPaths => PUBLIC_PATHS.contains(&path),
            AnonymousAccess::AllPaths => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_and_authorizer_decide() {
        use AnonymousAccess::{AllPaths, Denied, PublicPaths};
        for (flag, is_decided_by_rules, want) in [
            (None, true, AllPaths),
            (None, false, PublicPaths),
            (Some(true), true, AllPaths),
            (Some(true), false, PublicPaths),
            (Some(false), true, Denied),
            (Some(false), false, Denied),
        ] {
            assert_eq!(
                AnonymousAccess::new(flag, is_decided_by_rules),
                want,
                "{flag:?} {is_decided_by_rules}"
            );
        }
    }

    #[test]
    fn public_paths_are_exact() {
        for (access, path, want) in [
            (AnonymousAccess::Denied, "/livez", false),
            (AnonymousAccess::PublicPaths, "/livez", true),
            (AnonymousAccess::PublicPaths, "/livez/ping", false),
            (AnonymousAccess::PublicPaths, "/api", false),
            (AnonymousAccess::AllPaths, "/api", true),
        ] {
            assert_eq!(access.permits(path), want, "{access:?} {path}");
        }
    }
}
