//! The transformer of a server, with the configuration of its file.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use orlop_apimachinery::input_file::{self, MAX_CONFIG};
use orlop_store::{BoxFuture, Decoded, Key, TransformError, Transformer};

use crate::chain::Read;
use crate::config;
use crate::health;
use crate::kms::metrics_text;
use crate::rules::Rules;
use crate::validate::validate;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    /// The file cannot be read.
    #[error("the encryption provider configuration {} cannot be read: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        error: std::io::Error,
    },
    /// The file is not valid.
    #[error("the encryption provider configuration {} is not valid: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The problem, without any value of the file.
        problem: String,
    },
    /// A KMS plugin of the changed file is not healthy.
    #[error(
        "the encryption provider configuration {} has a KMS plugin that is not healthy: {problem}. Start the plugin, or correct its \
         endpoint",
        path.display()
    )]
    Unhealthy {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// Records need a key that the changed file does not contain.
    #[error(
        "the encryption provider configuration {} cannot decrypt {records} objects that the one in use decrypts, for example {key}: \
         {problem}. Put the missing key back, rewrite the objects, and then remove the key",
        path.display()
    )]
    KeyInUse {
        /// The file.
        path: PathBuf,
        /// The number of these records.
        records: usize,
        /// The key of the first one.
        key: Key,
        /// Why it cannot be decrypted.
        problem: String,
    },
}

/// Encrypts and decrypts values.
pub struct Encryption {
    /// `None` without a configuration: nothing is encrypted, and encrypted values are unreadable.
    path: Option<PathBuf>,
    pub(crate) rules: ArcSwap<RulesInUse>,
}

/// The rules of a server.
#[derive(Default)]
pub(crate) struct RulesInUse {
    pub(crate) rules: Arc<Rules>,
    /// Other rules that decrypt what `rules` cannot: those before or after a change, whose values may have been on their way.
    pub(crate) fallback: Option<Arc<Rules>>,
    /// A checksum of the file.
    pub(crate) checksum: u64,
}

impl std::fmt::Debug for Encryption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encryption").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Encryption {
    /// Encrypts nothing.
    pub fn none() -> Self {
        Encryption { path: None, rules: ArcSwap::default() }
    }

    /// Reads a configuration, and calls its KMS plugins. Blocks until they respond or time out. A plugin that does not
    /// respond is not an error: until it responds, its values cannot be read or written.
    ///
    /// # Errors
    /// The file cannot be read or is not valid.
    pub fn load(path: &Path) -> Result<Self, EncryptionError> {
        warn_if_readable_by_others(path);
        let (rules, checksum) = read(path, &Rules::default())?;
        // The providers log the problems.
        let _ = health::check_now(rules.kms());
        let rules = RulesInUse { rules, fallback: None, checksum };
        Ok(Encryption { path: Some(path.to_owned()), rules: ArcSwap::from_pointee(rules) })
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether the configuration has KMS providers.
    pub fn has_kms(&self) -> bool {
        !self.rules.load().rules.kms().is_empty()
    }

    /// The health of the KMS plugins. Like upstream, repeats a good result for 20 s and a bad one for 3 s before it calls a plugin again.
    pub fn kms_health(&self) -> BoxFuture<'static, Result<(), String>> {
        self.health_of_kms(false)
    }

    /// Calls the KMS plugins now. If a plugin has a new key, new values are encrypted with it afterwards.
    pub fn probe_kms(&self) -> BoxFuture<'static, Result<(), String>> {
        self.health_of_kms(true)
    }

    fn health_of_kms(&self, is_forced: bool) -> BoxFuture<'static, Result<(), String>> {
        let rules = self.rules.load().rules.clone();
        Box::pin(async move { health::check(rules.kms(), is_forced).await })
    }

    /// Metrics of the KMS providers, in Prometheus' text format.
    pub fn metrics(&self) -> String {
        let rules = self.rules.load();
        let providers = rules.rules.kms().iter().map(|provider| {
            let (metrics, seeds) = provider.metrics();
            (provider.name(), metrics, seeds)
        });
        metrics_text(providers)
    }
}

/// Reads and validates a file. Returns its rules and its checksum. KMS providers of `previous` stay in use.
pub(crate) fn read(path: &Path, previous: &Rules) -> Result<(Arc<Rules>, u64), EncryptionError> {
    let text = input_file::read(path, MAX_CONFIG)
        .map_err(|error| EncryptionError::Read { path: path.to_owned(), error })?;
    let rules = config::parse(&text).and_then(|configuration| {
        validate(&configuration)?;
        Rules::new(&configuration, previous)
    });
    let rules = rules.map_err(|problem| EncryptionError::Invalid { path: path.to_owned(), problem })?;
    let without_effect = rules.without_effect();
    if !without_effect.is_empty() {
        tracing::warn!(
            "{} has rules that match no resource of this server: {}",
            path.display(),
            without_effect.join(", ")
        );
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    Ok((Arc::new(rules), hasher.finish()))
}

pub(crate) fn warn_if_readable_by_others(path: &Path) {
    if let Ok(found) = std::fs::metadata(path)
        && found.is_file()
        && is_readable_by_others(found.mode())
    {
        tracing::warn!(
            "other users can read the keys in {path} (mode {:o}); run `chmod 600 {path}`",
            found.mode() & 0o777,
            path = path.display()
        );
    }
}

/// Whether a mode permits other users than the owner to read or replace a file.
fn is_readable_by_others(mode: u32) -> bool {
    mode & 0o066 != 0
}

impl Transformer for Encryption {
    fn encode(&self, key: &Key, value: &Bytes) -> Result<Option<Bytes>, TransformError> {
        self.rules.load().rules.chain(key).write(key.as_str(), value)
    }

    fn decode(&self, key: &Key, stored: &Bytes) -> Result<Decoded, TransformError> {
        let RulesInUse { rules, fallback, .. } = &**self.rules.load();
        let read = |rules: &Rules| rules.chain(key).read(key.as_str(), stored);
        let error = match read(rules) {
            Ok(Read { value, is_stale }) => return Ok(Decoded { value, is_stale }),
            Err(error) => error,
        };
        match fallback.as_deref().map(read) {
            Some(Ok(Read { value, .. })) => Ok(Decoded { value, is_stale: true }),
            // The fallback may decrypt it later.
            Some(Err(later)) if later.is_temporary() && !error.is_temporary() => Err(later),
            Some(Err(_)) | None => Err(error),
        }
    }

    fn is_stale(&self, key: &Key, stored: &Bytes) -> bool {
        // A value that only the fallback reads is stale too.
        self.rules.load().rules.chain(key).is_stale(key.as_str(), stored)
    }
}

#[cfg(test)]
mod tests {
    use super::is_readable_by_others;

    #[test]
    fn file_must_be_readable_by_its_owner_only() {
        for (mode, want) in
            [(0o100_600, false), (0o400, false), (0o640, true), (0o604, true), (0o711, false), (0o620, true)]
        {
            assert_eq!(is_readable_by_others(mode), want, "{mode:o}");
        }
    }
}
