//! What a commit rests on without writing it: keys and whole ranges that must be as they were read.
//!
//! A decision that is made from many records and written as one commit is only right while all of them are still
//! so. Writing the unchanged ones again would do, but every such write has a revision and an event, and watchers
//! would see changes where there are none. A guard is checked with the expectations and leaves nothing behind.

use std::ops::Bound;
use std::sync::Arc;

use crate::snapshot::Index;
use crate::{CommitError, Expect, Key, Record, Revision, Snapshot};

/// What must hold for a commit besides the expectations of its writes. It is held against the state before the
/// first write of the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A key is as it was read.
    Key {
        /// The key.
        key: Key,
        /// What was read there.
        expect: Expect,
    },
    /// The records below a prefix are those that were read: no one more, no one less, none written since. Checking
    /// it takes a look at each of them in the committer, so it is for decisions of people and not for every write.
    Range {
        /// The prefix.
        prefix: String,
        /// How many there were.
        count: usize,
        /// The revision of the snapshot that they were read from.
        at: Revision,
    },
}

impl Guard {
    /// The key is as it is in this snapshot.
    pub fn key<V>(snapshot: &Snapshot<V>, key: &str) -> Self {
        let there = snapshot.get(key).map(|record| record.mod_revision);
        Guard::Key { key: Key::new(key), expect: there.map_or(Expect::Absent, Expect::Revision) }
    }

    /// Everything below the prefix is as it is in this snapshot.
    pub fn range<V>(snapshot: &Snapshot<V>, prefix: &str) -> Self {
        let count = snapshot.range(prefix, None).count();
        Guard::Range { prefix: prefix.to_owned(), count, at: snapshot.revision() }
    }

    /// Bytes that the guard takes while it waits.
    pub(crate) fn size(&self) -> usize {
        match self {
            Guard::Key { key, .. } => key.as_str().len(),
            Guard::Range { prefix, .. } => prefix.len(),
        }
    }
}

/// Whether all guards hold on this state; the first that does not is the conflict.
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

/// The same number of records and none newer: then nothing came (it would be newer), and so nothing went.
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
