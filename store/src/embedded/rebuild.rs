//! The fallback of recovery: a new served copy from a snapshot and the journal after it.
//!
//! Everything that is needed is read before any file is moved. The old copy is renamed, and the log reports
//! it; only an erasure of former versions deletes it (`erase`), at the earliest after its interval.

use std::sync::Arc;

use super::backlog::BATCH_BYTES;
use super::feed::{ErasureMarks, Feeder};
use super::frame::StoreId;
use super::guard::{deadline, guarded};
use super::paths::RESTORE;
use super::recover::{Opening, Recovered, RecoveryError, Replay};
use super::retention::RetentionMarks;
use super::rows::{self, CurrentRow};
use super::sensitive::Sensitive;
use super::sled::{Changes, Served, ServedError};
use super::snapshot::{self, Saved};
use crate::snapshot::Index;
use crate::{OpenError, Revision, View};

/// The name prefix of an unusable served copy; the time follows.
pub(super) const ASIDE: &str = "sled.broken-";
/// The format of that time, in UTC.
const ASIDE_TIME: &str = "%Y%m%dT%H%M%S.%6fZ";

/// When a served copy was set aside, from its name, in milliseconds since the epoch and rounded down to a second.
pub(super) fn set_aside_ms(name: &str) -> Option<i64> {
    let (seconds, _) = name.strip_prefix(ASIDE)?.split_once('.')?;
    let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%S", seconds).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

/// What happens to a copy that was set aside.
fn what_next(sensitive: &Sensitive) -> String {
    if sensitive.prefixes.is_empty() {
        return "Delete the old copy when it is of no interest".to_owned();
    }
    let minutes = sensitive.erase_every.as_secs().div_ceil(60);
    format!(
        "The store deletes the old copy after {minutes} minutes, because it may contain former versions of sensitive \
         objects; move it to another directory if you want to examine it"
    )
}

impl Opening<'_> {
    /// Rebuilds the copy from the newest usable snapshot and the journal after it.
    pub(super) fn rebuild<V: View>(&self, why: &str) -> Result<Recovered<V>, OpenError> {
        // Everything is read before any file is moved.
        let mut reasons = vec![format!("its served copy cannot be used ({why})")];
        let mut bad = Vec::new();
        let base = self.base(&mut reasons, &mut bad)?;
        let Some(base) = base else {
            reasons.push(format!("the journal starts at revision {} only", self.scan.first()));
            reasons.push(RESTORE.into());
            return Err(self.paths.damaged(reasons.join("; ")));
        };
        self.check_mark(self.scan.last())?;
        let mut newest = None;
        if self.paths.sled.exists() {
            let aside = self.set_aside()?;
            newest = aside.file_name().map(|name| name.to_string_lossy().into_owned());
            tracing::error!(
                why,
                aside = %aside.display(),
                from = %base.revision,
                "the served copy cannot be used; it is set aside and rebuilt from snapshot and journal. \
                 No acknowledged write is lost. {}", what_next(&self.options.sensitive)
            );
        } else {
            tracing::info!(from = %base.revision, "building the served copy from snapshot and journal");
        }
        let (dir, store, patience) = (self.paths.sled.clone(), self.store, self.options.lock_wait);
        let deadline = deadline(self.paths.root, self.options);
        let (revision, time_ms) = (base.revision, base.time_ms);
        let erasure = ErasureMarks::new(&self.options.sensitive);
        let (feeder, index) = guarded("building the served copy", deadline, move || {
            let served = Arc::new(Served::open(&dir, patience)?);
            let feeder =
                Feeder::new(served, store, revision, time_ms, revision, RetentionMarks::default(), erasure);
            restore(&feeder, store, &base)?;
            Ok((feeder, base.index))
        })
        .map_err(|error| self.paths.served(error))?;
        let state = Replay { feeder, index, time_ms, transform: self.options.transform() };
        match self.finish(state, revision, Vec::new()) {
            Ok(mut recovered) => {
                self.forget_snapshots(&mut recovered, &bad)?;
                self.forget_older_copies(newest);
                Ok(recovered)
            }
            Err(RecoveryError::Final(error)) => Err(error),
            Err(RecoveryError::Next(why)) => {
                Err(self.paths.damaged(format!("the rebuilt copy cannot be used: {why}")))
            }
        }
    }

    /// Removes damaged snapshots from the list of those available for a rebuild.
    fn forget_snapshots<V>(&self, recovered: &mut Recovered<V>, bad: &[Revision]) -> Result<(), OpenError> {
        for revision in bad {
            let path = snapshot::path_of(&self.paths.snapshots, *revision);
            let aside = path.with_extension("snap-broken");
            self.files().rename(&path, &aside).map_err(self.paths.io("move aside", &path))?;
            recovered.snapshots.retain(|known| known != revision);
            recovered.needs_snapshot = true;
        }
        Ok(())
    }

    /// The starting point of a rebuild.
    fn base<V: View>(
        &self,
        reasons: &mut Vec<String>,
        bad: &mut Vec<Revision>,
    ) -> Result<Option<Saved<V>>, OpenError> {
        for revision in self.snapshots.iter().rev() {
            if revision.next() < self.scan.first() {
                reasons.push(format!("the snapshot at {revision} ends before the journal starts"));
            } else if *revision > self.scan.last() {
                return Err(self.lost(*revision, self.scan.last()));
            } else {
                match snapshot::read(
                    self.files(),
                    &self.paths.snapshots,
                    self.store,
                    *revision,
                    &self.options.transform(),
                )? {
                    Ok(saved) => return Ok(Some(saved)),
                    Err(why) => {
                        tracing::error!(why, "a snapshot cannot be used");
                        reasons.push(why);
                        bad.push(*revision);
                    }
                }
            }
        }
        let whole = self.scan.first() == Revision(1);
        Ok(whole.then(|| Saved { revision: Revision::ZERO, time_ms: i64::MIN, index: Index::new() }))
    }

    /// Removes all unusable copies but the newest, so that they do not fill the disk. Their names do not always
    /// order them: clocks jump.
    fn forget_older_copies(&self, newest: Option<String>) {
        let names = self.files().list(self.paths.root).unwrap_or_default();
        let broken: Vec<_> = names.into_iter().filter(|name| name.starts_with(ASIDE)).collect();
        let newest = newest.or_else(|| broken.last().cloned());
        for name in broken.into_iter().filter(|name| Some(name) != newest.as_ref()) {
            let path = self.paths.root.join(name);
            match std::fs::remove_dir_all(&path) {
                Ok(()) => {
                    tracing::warn!(path = %path.display(), "removed an older copy that had been set aside");
                }
                Err(error) => tracing::warn!(%error, path = %path.display(), "cannot remove it"),
            }
        }
    }

    fn set_aside(&self) -> Result<std::path::PathBuf, OpenError> {
        // Precise enough that names sort by time; the older copies are removed.
        let now = jiff::Timestamp::from_millisecond(self.options.clock.now_ms()).unwrap_or_default();
        let time = now.strftime(ASIDE_TIME).to_string();
        let mut aside = self.paths.root.join(format!("{ASIDE}{time}"));
        let mut nth = 1;
        while aside.exists() {
            nth += 1;
            aside = self.paths.root.join(format!("{ASIDE}{time}-{nth}"));
        }
        self.files()
            .rename(&self.paths.sled, &aside)
            .map_err(self.paths.io("move aside", &self.paths.sled))?;
        self.files().sync_dir(self.paths.root).map_err(self.paths.io("sync", self.paths.root))?;
        Ok(aside)
    }
}

/// Writes the records of a snapshot into an empty served copy, as if everything before had been compacted.
/// The last batch marks the copy as complete.
fn restore<V>(feeder: &Feeder, store: StoreId, saved: &Saved<V>) -> Result<(), ServedError> {
    let mut changes = Changes::default();
    let mut bytes = 0;
    for record in saved.index.values() {
        let (key, value) = (record.key.as_str(), &**record.stored_bytes());
        let (create, revision) = (record.create_revision, record.mod_revision);
        let zero = Revision::ZERO;
        let chunks = rows::encode_log(store, revision, record.time_ms, create, zero, key, Some(value));
        for (key, chunk) in chunks {
            changes.insert(&key, chunk);
        }
        let row = CurrentRow { deleted: false, create, revision, value_crc: crc32c::crc32c(value) };
        changes.insert(&rows::current_key(key), row.encode(store, key));
        bytes += value.len() + 128;
        if bytes >= BATCH_BYTES {
            bytes = 0;
            feeder.served().apply(std::mem::take(&mut changes))?;
        }
    }
    if saved.revision > Revision::ZERO {
        feeder.set_compacted(&mut changes, saved.revision, saved.revision);
        feeder.set_applied(&mut changes, saved.revision, saved.time_ms);
    }
    feeder.served().apply(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_copy_that_was_set_aside_has_its_time() {
        let time = jiff::Timestamp::from_millisecond(1_700_000_000_123).unwrap_or_default();
        let name = format!("{ASIDE}{}", time.strftime(ASIDE_TIME));
        for (name, want) in [
            (&*name, Some(1_700_000_000_000)),
            (&format!("{name}-2"), Some(1_700_000_000_000)),
            ("sled.broken-1", None),
            ("sled.broken-20231114T999999.000000Z", None),
            ("sled", None),
        ] {
            assert_eq!(set_aside_ms(name), want, "{name}");
        }
    }
}
