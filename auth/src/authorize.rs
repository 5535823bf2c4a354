//! Authorization. Every authenticated user may perform every request, and a request without credentials may only read
//! [`PUBLIC_PATHS`]. Access reviews return these decisions, so they match the server's behavior.

use super::user::{ANONYMOUS, PUBLIC_PATHS, UNAUTHENTICATED};

const EVERYTHING: &str = "this server permits every request of an authenticated user";
const PUBLIC: &str = "this path is public";
const NOT_KNOWN: &str = "unauthenticated requests may only read /healthz, /livez, /readyz and /version";

/// The action of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Accesses a resource.
    Resource,
    /// Accesses a non-resource endpoint.
    Path(&'a str),
}

/// Whether a request is permitted, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The request is permitted.
    pub allowed: bool,
    /// The reason, for the response of a review.
    pub reason: &'static str,
}

/// Decides whether a user with these groups may perform an action.
pub fn decide<'g>(user: &str, mut groups: impl Iterator<Item = &'g str>, action: Action<'_>) -> Decision {
    let unknown = user == ANONYMOUS || groups.any(|group| group == UNAUTHENTICATED);
    match action {
        Action::Path(path) if unknown && PUBLIC_PATHS.contains(&path) => {
            Decision { allowed: true, reason: PUBLIC }
        }
        Action::Resource | Action::Path(_) if unknown => Decision { allowed: false, reason: NOT_KNOWN },
        Action::Resource | Action::Path(_) => Decision { allowed: true, reason: EVERYTHING },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_users_reach_public_paths_only() {
        for (case, user, groups, action, want) in [
            ("1 authenticated", "ann", &["system:authenticated"][..], Action::Resource, EVERYTHING),
            ("2 a group alone", "", &["g"], Action::Path("/x"), EVERYTHING),
            ("3 anonymous", "system:anonymous", &["system:unauthenticated"], Action::Resource, NOT_KNOWN),
            ("4 anonymous, a path", "system:anonymous", &[], Action::Path("/api"), NOT_KNOWN),
            ("5 anonymous, a public path", "system:anonymous", &[], Action::Path("/readyz"), PUBLIC),
            ("6 anonymous, below it", "system:anonymous", &[], Action::Path("/readyz/ping"), NOT_KNOWN),
            ("7 unauthenticated group", "x", &["system:unauthenticated"], Action::Resource, NOT_KNOWN),
        ] {
            let got = decide(user, groups.iter().copied(), action);
            assert_eq!(got, Decision { allowed: want != NOT_KNOWN, reason: want }, "{case}");
        }
    }
}
