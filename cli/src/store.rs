//! `orlop store`: checks and compacts the directory of a store that is not running, and erases former versions of objects from it.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orlop_apiserver::insight::redact::former_version;
use orlop_apiserver::registry;
use orlop_store::embedded::{Options, compact, purge};
use orlop_store::{AcceptedLoss, CheckOptions, CheckOutcome, Key, Redact, Sensitive, accept_loss};

use crate::args::StoreCommand;
use crate::owner;

/// A running store cannot be checked.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is in use ({holder}), so nothing was checked; stop the process that uses it, or save a snapshot \
     (orlop snapshot save) and check the snapshot (orlop snapshot status)",
    dir.display()
)]
pub(crate) struct StoreInUse {
    dir: PathBuf,
    holder: String,
}

/// Runs the command and returns the text to print.
pub(crate) fn run(command: StoreCommand) -> Result<String, Box<dyn Error>> {
    owner::create_private_files();
    match command {
        StoreCommand::Check { dir, accept_loss: true } => {
            owner::check(&dir)?;
            let options = Options { lock_wait: Duration::ZERO, ..Options::default() };
            let AcceptedLoss { kept, acknowledged, continues } = accept_loss(&dir, &options)?;
            Ok(format!(
                "{}: all writes up to revision {kept} are retained; all later writes, up to revision {acknowledged}, are lost; the store continues at revision {continues}\n",
                dir.display()
            ))
        }
        StoreCommand::Check { dir, accept_loss: false } => {
            let report = orlop_store::check(&dir, &CheckOptions::default());
            if report.verdict.opens() {
                return Ok(format!("{report}\n"));
            }
            if let CheckOutcome::InUse(holder) = &report.verdict {
                return Err(StoreInUse { dir, holder: holder.clone() }.into());
            }
            // The findings are printed to stdout as a result; the exit code reports the verdict.
            println!("{report}");
            Err("the store did not pass the check; see above".into())
        }
        StoreCommand::Purge { object, data_dir } => {
            let key = key_of(&object)?;
            owner::check(&data_dir)?;
            let sensitive = Sensitive { redact: Redact(Arc::new(former_version)), ..Sensitive::default() };
            let options = Options { lock_wait: Duration::ZERO, sensitive, ..Options::default() };
            let erased = purge(&data_dir, &key, &options)?;
            Ok(format!(
                "{}: erased {erased} former versions of {object} from all files\n",
                data_dir.display()
            ))
        }
        StoreCommand::Compact { data_dir } => {
            owner::check(&data_dir)?;
            let options = Options { lock_wait: Duration::ZERO, ..Options::default() };
            let done = compact(&data_dir, &options)?;
            Ok(format!(
                "{}: {} bytes before, {} after, at revision {}\n",
                data_dir.display(),
                done.before,
                done.after,
                done.revision
            ))
        }
    }
}

/// The key of an object such as `secrets/default/a`.
fn key_of(object: &str) -> Result<Key, String> {
    let wrong = || {
        format!(
            "{object:?} does not name an object: use RESOURCE/NAMESPACE/NAME, or RESOURCE/NAME if it has no namespace"
        )
    };
    let (resource, place) = object.split_once('/').ok_or_else(wrong)?;
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let parts: Vec<&str> = place.split('/').collect();
    if plural.is_empty() || parts.len() > 2 || parts.iter().any(|part| part.is_empty()) {
        return Err(wrong());
    }
    let is_kind = |kind: &&&dyn registry::Kind| kind.names().plural == plural && kind.names().group == group;
    let kind = registry::KINDS.iter().find(is_kind);
    match kind {
        Some(kind) if (kind.scope() == registry::Scope::Namespaced) != (parts.len() == 2) => Err(wrong()),
        Some(kind) => Ok(Key::from(format!("{}{place}", kind.storage_prefix()))),
        None if group.is_empty() => {
            Err(format!("there is no resource {resource:?}: add its group, such as widgets.example.com"))
        }
        // Custom resources.
        None => Ok(Key::from(format!("/registry/{group}/{plural}/{place}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_of_another_user_is_not_written() {
        let own = tempfile::tempdir().expect("a directory");
        let dir = owner::tests::of_other_user(own.path());
        for command in [
            StoreCommand::Purge { object: "secrets/default/a".to_owned(), data_dir: dir.clone() },
            StoreCommand::Compact { data_dir: dir.clone() },
            StoreCommand::Check { dir: dir.clone(), accept_loss: true },
        ] {
            let error = run(command).expect_err("refused").to_string();
            assert!(error.contains("belongs to the user with the ID"), "{error}");
        }
    }

    #[test]
    fn object_names_its_key() {
        for (object, want) in [
            ("secrets/default/a", Some("/registry/secrets/default/a")),
            ("storageclasses.storage.k8s.io/fast", Some("/registry/storageclasses/fast")),
            ("widgets.example.com/default/w", Some("/registry/example.com/widgets/default/w")),
            ("secrets/a", None),
            ("nodes/default/a", None),
            ("secrets", None),
            ("secrets/default/", None),
            ("secrets/default/a/b", None),
            ("/default/a", None),
            ("widgets/default/w", None),
        ] {
            assert_eq!(key_of(object).ok().map(|key| key.to_string()).as_deref(), want, "{object}");
        }
    }
}
