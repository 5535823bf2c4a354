//! Reads the policy file.
//!
//! Upstream: apiserver `pkg/audit/policy/reader.go`.

use std::path::{Path, PathBuf};

use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_auth::audit::{Policy, PolicyError};
use orlop_codec::decode::read_yaml;

/// Why a policy file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFileError {
    /// It cannot be read.
    #[error("the audit policy {} cannot be read: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// It is no YAML.
    #[error("the audit policy {} is not valid YAML: {problem}", path.display())]
    Yaml {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// It is no policy.
    #[error("the audit policy {} is not valid: {problem}", path.display())]
    Policy {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: PolicyError,
    },
}

/// Reads and validates a policy file.
///
/// # Errors
/// See [`PolicyFileError`].
pub fn load(path: &Path) -> Result<Policy, PolicyFileError> {
    let path = path.to_owned();
    let text = match input_file::read(&path, MAX_CONFIG) {
        Ok(text) => text,
        Err(error) => return Err(PolicyFileError::Read { path, error }),
    };
    let document = match read_yaml(&text) {
        Ok((document, duplicates)) if duplicates.is_empty() => document,
        Ok((_, duplicates)) => return Err(PolicyFileError::Yaml { path, problem: duplicates.join("; ") }),
        Err(problem) => return Err(PolicyFileError::Yaml { path, problem }),
    };
    Policy::parse(document).map_err(|problem| PolicyFileError::Policy { path, problem })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn loaded(text: &str) -> Result<Policy, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        load(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn problems_name_the_file() {
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        assert!(loaded(&format!("{head}rules:\n- level: Metadata\n")).is_ok());
        for (text, want) in [
            (format!("{head}rules:\n- level: Meta\n"), "is not valid: rules[0].level: Unsupported value"),
            (format!("{head}rules: [\n"), "is not valid YAML"),
            (format!("{head}kind: Policy\nrules:\n- level: None\n"), "is not valid YAML: line 3"),
            (String::new(), "is not valid: it is not a document"),
        ] {
            let error = loaded(&text).unwrap_err();
            assert!(error.starts_with("the audit policy /") && error.contains(want), "{error}");
        }
        assert!(load(Path::new("/nowhere/policy")).unwrap_err().to_string().contains("cannot be read"));
    }

    /// The policy in docs/audit.md is the default one.
    #[test]
    fn documented_default_is_the_default() {
        let text = include_str!("../../../docs/audit.md");
        let block = text.split("```yaml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert_eq!(loaded(block), Ok(Policy::default()));
    }
}
