//! Reads a changed configuration again. A key that current records still need must not disappear: they would be unreadable after the
//! next start, when nothing connects the failure with the change any more.

use std::sync::Arc;

use orlop_store::{Key, Record, Revision, Snapshot};

use crate::encryption::{Encryption, EncryptionError, RulesInUse, read, warn_if_readable_by_others};
use crate::health;
use crate::rules::Rules;

/// The number of records that are checked before the newest state is read again: a state that is in use keeps replaced records in
/// memory.
const SLICE: usize = 1000;

/// Records that one set of rules reads and another one does not.
struct Lost {
    records: usize,
    key: Key,
    problem: String,
}

impl Encryption {
    /// Reads the file again. Returns whether it has changed. `head` returns the newest state of the store.
    ///
    /// Decrypts all current records and waits for new KMS plugins, so it blocks.
    ///
    /// # Errors
    /// The file cannot be read, is not valid, has a new KMS plugin that is not healthy, or does not contain a key that is in use. The
    /// previous configuration then stays in use.
    pub fn reload<V>(&self, mut head: impl FnMut() -> Snapshot<V>) -> Result<bool, EncryptionError> {
        let Some(path) = self.path() else { return Ok(false) };
        let before = self.rules.load_full();
        let (rules, checksum) = read(path, &before.rules)?;
        if checksum == before.checksum {
            return Ok(false);
        }
        health::wait_until_healthy(rules.kms())
            .map_err(|problem| EncryptionError::Unhealthy { path: path.to_owned(), problem })?;
        let refuse = |lost: Option<Lost>| match lost {
            None => Ok(()),
            Some(Lost { records, key, problem }) => {
                Err(EncryptionError::KeyInUse { path: path.to_owned(), records, key, problem })
            }
        };
        let (checked, lost) = lost(&mut head, Revision::ZERO, &before, &rules);
        refuse(lost)?;
        // Writes of this moment may still have been encrypted with the previous rules: both read, and these records are checked.
        let fallback = Some(before.rules.clone());
        self.rules.store(Arc::new(RulesInUse { rules: rules.clone(), fallback, checksum }));
        let (_, lost) = self::lost(&mut head, checked, &before, &rules);
        if lost.is_some() {
            let (rules, checksum) = (before.rules.clone(), before.checksum);
            let fallback = Some(self.rules.load().rules.clone());
            self.rules.store(Arc::new(RulesInUse { rules, fallback, checksum }));
        }
        refuse(lost)?;
        warn_if_readable_by_others(path);
        Ok(true)
    }
}

/// The current records written after a revision that `before` reads and `after` does not, and the revision up to which this is known.
fn lost<V>(
    head: &mut impl FnMut() -> Snapshot<V>,
    written_after: Revision,
    before: &RulesInUse,
    after: &Rules,
) -> (Revision, Option<Lost>) {
    let reads = |rules: &Rules, record: &Record<V>| {
        rules.chain(&record.key).read(record.key.as_str(), record.stored_bytes()).map(drop)
    };
    let mut lost: Option<Lost> = None;
    let mut from = String::new();
    let mut checked = None;
    loop {
        let state = head();
        // A record that is written later than the first slice may be in one that has been checked.
        let checked = *checked.get_or_insert(state.revision());
        let mut last = None;
        for record in state.range("", Some(&from)).take(SLICE) {
            last = Some(record.key.clone());
            if record.mod_revision <= written_after {
                continue;
            }
            let Err(problem) = reads(after, record) else { continue };
            // What is unreadable already needs no key of the previous rules.
            let fallback = before.fallback.as_deref();
            if reads(&before.rules, record).is_err()
                && fallback.is_none_or(|fallback| reads(fallback, record).is_err())
            {
                continue;
            }
            let first = || Lost { records: 0, key: record.key.clone(), problem: problem.to_string() };
            lost.get_or_insert_with(first).records += 1;
        }
        let Some(last) = last else { return (checked, lost) };
        // The first key after it.
        from = format!("{last}\0");
    }
}
