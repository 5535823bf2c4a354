//! The labels of a namespace that select a level and a version.
//!
//! Upstream: `api/helpers.go`.

use std::fmt::Display;

use orlop_api::object::Object;
use orlop_api::validate::{FieldErrors, Path};

/// A level of the Pod Security Standards. A later one is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "privileged" => Level::Privileged,
            "baseline" => Level::Baseline,
            "restricted" => Level::Restricted,
            _ => return None,
        })
    }
}

impl Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        })
    }
}

/// A level, as of a minor version of Kubernetes; `None` is the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) version: Option<u32>,
}

impl LevelVersion {
    const PRIVILEGED: LevelVersion = LevelVersion { level: Level::Privileged, version: None };

    /// `baseline:latest`.
    pub(super) fn shown(&self) -> String {
        match self.version {
            None => format!("{}:latest", self.level),
            Some(minor) => format!("{}:v1.{minor}", self.level),
        }
    }
}

/// The policy of a namespace.
#[derive(Clone, Debug)]
pub(super) struct NamespacePolicy {
    pub(super) enforce: LevelVersion,
    pub(super) audit: LevelVersion,
    pub(super) warn: LevelVersion,
    /// The labels that cannot be read.
    pub(super) errors: FieldErrors,
}

impl NamespacePolicy {
    /// The policy of a namespace in a request.
    pub(super) fn of(namespace: &Object) -> Self {
        Self::of_labels(|key| namespace.labels()?.get(key)?.as_str())
    }

    /// The policy in the labels of a namespace; without labels, everything is permitted.
    pub(super) fn of_labels<'n>(label_of: impl Fn(&str) -> Option<&'n str>) -> Self {
        let mut errors = FieldErrors::new();
        let label = |name: &str| {
            let key = format!("pod-security.kubernetes.io/{name}");
            let value = label_of(&key)?.to_owned();
            Some((key, value))
        };
        let mut wrong = |key: &str, value: &str, why: &str| {
            errors.invalid(&Path::new("metadata.labels").key(key), value, why);
        };
        let mut read = |mode: &str, otherwise: Level| {
            let mut policy = LevelVersion::PRIVILEGED;
            let (mut has_level, mut has_version) = (false, false);
            if let Some((key, value)) = label(mode) {
                has_level = true;
                policy.level = Level::parse(&value).unwrap_or_else(|| {
                    has_level = mode != "enforce";
                    wrong(&key, &value, "must be one of privileged, baseline, restricted");
                    otherwise
                });
            }
            if let Some((key, value)) = label(&format!("{mode}-version")) {
                has_version = true;
                policy.version = parse_version(&value).unwrap_or_else(|| {
                    wrong(&key, &value, "must be \"latest\" or \"v1.x\"");
                    None
                });
            }
            (policy, has_level, has_version)
        };
        let (enforce, enforces, _) = read("enforce", Level::Restricted);
        let (audit, ..) = read("audit", Level::Privileged);
        let (mut warn, warns, has_version) = read("warn", Level::Privileged);
        // Without its own label, the level of warnings is the enforced one.
        if !warns && enforces && enforce.level > warn.level {
            warn.level = enforce.level;
            if !has_version {
                warn.version = enforce.version;
            }
        }
        NamespacePolicy { enforce, audit, warn, errors }
    }

    /// Whether it permits everything.
    pub(super) fn is_privileged(&self) -> bool {
        self.errors.is_empty()
            && [self.enforce, self.audit, self.warn].iter().all(|one| one.level == Level::Privileged)
    }

    /// Whether templates are evaluated.
    pub(super) fn warns_or_audits(&self) -> bool {
        let levels = [self.audit, self.warn];
        !self.errors.is_empty() || levels.iter().any(|one| one.level != Level::Privileged)
    }
}

/// Parses `latest` or `v1.34`. The outer `None` is an error.
fn parse_version(text: &str) -> Option<Option<u32>> {
    if text == "latest" {
        return Some(None);
    }
    let minor = text.strip_prefix("v1.")?;
    let is_plain = minor == "0" || !minor.starts_with('0');
    if !is_plain || !minor.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    minor.parse().ok().map(Some)
}
