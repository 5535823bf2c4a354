//! How long a token is valid.
//!
//! Upstream: `pkg/registry/core/serviceaccount/storage/token.go`.

/// The validity that clients request for the token of a pod, in seconds. Its odd value marks clients that may be too old to read the
/// token again.
const EXTENDED_REQUEST: i64 = 60 * 60 + 7;
/// The extended validity, in seconds.
const EXTENSION: i64 = 365 * 24 * 60 * 60;

/// The limits of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LifetimeLimits {
    /// Maximum validity in seconds.
    pub(super) max: Option<i64>,
    /// Whether the tokens of pods are valid for longer than requested.
    pub(super) extends: bool,
}

/// The validity of a token in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime {
    requested: i64,
    /// The validity in the response.
    pub(crate) shown: i64,
    /// The validity in the token.
    pub(super) actual: i64,
    /// From this age on, use of the token is recorded.
    pub(super) warn_after: Option<i64>,
}

impl Lifetime {
    /// Decides about a token. `is_for_pod`: it is bound to a pod. `is_for_server`: all its audiences are those of this server.
    pub(super) fn new(limits: LifetimeLimits, requested: i64, is_for_pod: bool, is_for_server: bool) -> Self {
        let shown = limits.max.map_or(requested, |max| requested.min(max));
        if limits.extends && is_for_pod && is_for_server && shown == EXTENDED_REQUEST {
            return Lifetime { requested, shown, actual: EXTENSION, warn_after: Some(shown) };
        }
        Lifetime { requested, shown, actual: shown, warn_after: None }
    }

    /// The warning to the client about a shorter validity.
    pub(crate) fn warning(&self) -> Option<String> {
        let Lifetime { requested, shown, .. } = self;
        (shown < requested)
            .then(|| format!("requested expiration of {requested} seconds shortened to {shown} seconds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_bound_the_validity() {
        let limits = |max, extends| LifetimeLimits { max, extends };
        // limits, requested, for a pod, for this server; shown, actual, warning after
        for (case, limits, requested, pod, server, want) in [
            ("1 as requested", limits(None, true), 600, true, true, (600, 600, None)),
            ("2 extended", limits(None, true), 3607, true, true, (3607, EXTENSION, Some(3607))),
            ("3 disabled", limits(None, false), 3607, true, true, (3607, 3607, None)),
            ("4 no pod", limits(None, true), 3607, false, true, (3607, 3607, None)),
            ("5 other audiences", limits(None, true), 3607, true, false, (3607, 3607, None)),
            ("6 shortened", limits(Some(3600), true), 7200, true, true, (3600, 3600, None)),
            ("7 shortened to", limits(Some(3607), true), 7200, true, true, (3607, EXTENSION, Some(3607))),
            ("8 within", limits(Some(7200), true), 600, false, true, (600, 600, None)),
        ] {
            let lifetime = Lifetime::new(limits, requested, pod, server);
            assert_eq!((lifetime.shown, lifetime.actual, lifetime.warn_after), want, "{case}");
            assert_eq!(lifetime.warning().is_some(), lifetime.shown < requested, "{case}");
        }
        let warning = Lifetime::new(limits(Some(3600), true), 7200, false, true).warning();
        let want = "requested expiration of 7200 seconds shortened to 3600 seconds";
        assert_eq!(warning.as_deref(), Some(want));
    }
}
