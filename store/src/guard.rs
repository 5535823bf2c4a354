//! Guards: conditions of a commit on keys and ranges that it does not write.
//!
//! A decision based on many records and written as one commit is correct only while all of these records are
//! unchanged. Rewriting the unchanged records would ensure this, but every such write has a revision and an
//! event, and watchers would see changes where there are none. A guard is checked together with the
//! expectations and writes nothing.

use std::ops::Bound;
use std::sync::Arc;

use crate::snapshot::Index;
use crate::{CommitError, Expect, Key, Record, Revision, Snapshot};

/// A condition of a commit besides the expectations of its writes. It is checked against the state before the
/// first write of the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A key is unchanged since it was read.
    Key {
        /// The key.
        key: Key,
        /// The state that was read.
        expect: Expect,
    },
    /// The records below a prefix are those that were read: none added, removed or rewritten. The check visits
    /// each of them in the committer, so it is meant for administrative operations and not for every write.
    Range {
        /// The prefix.
        prefix: String,
        /// The number of records.
        count: usize,
        /// The revision of the snapshot that was read.
        at: Revision,
    },
}

impl Guard {
    /// A guard that a key is as in this snapshot.
    pub fn key<V>(snapshot: &Snapshot<V>, key: &str) -> Self {
        let there = snapshot.get(key).map(|record| record.mod_revision);
        Guard::Key { key: Key::new(key), expect: there.map_or(Expect::Absent, Expect::Revision) }
    }

    /// A guard that everything below the prefix is as in this snapshot.
    pub fn range<V>(snapshot: &Snapshot<V>, prefix: &str) -> Self {
        let count = snapshot.range(prefix, None).count();
        Guard::Range { prefix: prefix.to_owned(), count, at: snapshot.revision() }
    }

    /// The bytes of the guard while it is queued.
    pub(crate) fn size(&self) -> usize {
        match self {
            Guard::Key { key, .. } => key.as_str().len(),
            Guard::Range { prefix, .. } => prefix.len(),
        }
    }
}

/// Whether all guards are met in this state; the first that is not is the conflict.
pub(crate) fn check<V>(guards: &[Guard], index: &Index<V>) -> Result<(), CommitError<V>> {
    for guard in guards {
        match guard {
            Guard::Key { key, expect } => {
                let there = index.get(key);
                let holds = match expect {
                    Expect::Absent => there.is_none(),
                    Expect::Revision(wanted) => there.is_some_and(|record| record.mod_revision == *wanted),
                };
                if !holds {
                    return Err(CommitError::Conflict { key: key.clone(), actual: there.cloned() });
                }
            }
            Guard::Range { prefix, count, at } => check_range(prefix, *count, *at, index)?,
        }
    }
    Ok(())
}

/// Checks for the same number of records and none newer. An added record would be newer, so an equal count
/// means that none was removed either.
fn check_range<V>(prefix: &str, count: usize, at: Revision, index: &Index<V>) -> Result<(), CommitError<V>> {
    let conflict = |key: Key, actual: Option<Arc<Record<V>>>| Err(CommitError::Conflict { key, actual });
    let bounds = (Bound::Included(prefix), Bound::Unbounded);
    let mut found = 0;
    for (key, record) in index.range::<_, str>(bounds) {
        if !key.as_str().starts_with(prefix) {
            break;
        }
        if record.mod_revision > at {
            return conflict(key.clone(), Some(record.clone()));
        }
        found += 1;
    }
    if found == count { Ok(()) } else { conflict(Key::new(prefix), None) }
}
