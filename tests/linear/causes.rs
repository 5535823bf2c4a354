//! Finds the cause of every revision: each was requested by one operation, once, and not before that was sent.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Ask, At, History, Operation, Outcome, Revision, State};
use super::log::{Entry, Faults, Log};
use super::revisions::KnownRevisions;

/// The causes of the revisions.
#[derive(Debug)]
pub(crate) struct Causes {
    begin: Revision,
    /// For each revision after `begin`: the earliest instant at which it can have existed. Never decreases.
    earliest: Vec<At>,
    /// The time at which the operation behind a revision was sent, where only one operation can be its cause.
    sent: BTreeMap<Revision, At>,
    /// Deletions and deletion marks that an operation of unknown outcome may have caused.
    uncertain: BTreeSet<Revision>,
}

impl Causes {
    /// Finds the causes. Rule `cause`: each revision was requested. Rule `once`: no write took effect twice, and no
    /// rejected write did.
    pub(crate) fn of(history: &History, log: &Log, faults: &mut Faults) -> Causes {
        let mut writes: BTreeMap<&str, &Operation> = BTreeMap::new();
        let mut ends: BTreeMap<&str, &Operation> = BTreeMap::new();
        for operation in &history.operations {
            if let Ask::Create { value, .. } | Ask::Write { value, .. } = &operation.ask {
                writes.insert(value, operation);
            }
            if let Outcome::Gone { uid, .. } = &operation.outcome
                && let Some(other) = ends.insert(uid, operation)
            {
                let both = format!("{uid} was deleted by\n  {operation:?}\nand by\n  {other:?}");
                faults.add("once", both);
            }
        }
        let (begin, earliest) = (log.begin(), Vec::new());
        let mut causes = Causes { begin, earliest, sent: BTreeMap::new(), uncertain: BTreeSet::new() };
        let mut written: BTreeMap<&str, Revision> = BTreeMap::new();
        for entry in log.entries() {
            let fresh = entry.now.as_ref().filter(|now| {
                entry.before.as_ref().is_none_or(|before| before.value != now.value || before.uid != now.uid)
            });
            let sent = if let Some(now) = fresh {
                if let Some(first) = written.insert(&now.value, entry.revision) {
                    faults.add(
                        "once",
                        format!("{:?} was written as revision {first} and as {}", now.value, entry.revision),
                    );
                }
                let cause = writes.get(now.value.as_str()).filter(|cause| causes_write(cause, entry, now));
                if let Some(cause) = cause {
                    causes.sent.insert(entry.revision, cause.start);
                }
                cause.map(|cause| cause.start)
            } else {
                causes.end(history, &ends, entry)
            };
            faults.unless(sent.is_some(), "cause", || {
                let asked = entry.now.as_ref().and_then(|now| writes.get(now.value.as_str()));
                format!("no request can have caused {entry:?}; its value is that of {asked:?}")
            });
            let before = causes.earliest.last().copied().unwrap_or(0);
            causes.earliest.push(before.max(sent.unwrap_or(0)));
        }
        causes
    }

    /// The earliest time at which a deletion, or its mark, was sent.
    fn end(&mut self, history: &History, ends: &BTreeMap<&str, &Operation>, entry: &Entry) -> Option<At> {
        let before = entry.before.as_ref()?;
        if let Some(now) = &entry.now
            && (before.deleting || !now.deleting)
        {
            return None;
        }
        if entry.now.is_none()
            && let Some(cause) = ends.get(before.uid.as_str())
        {
            self.sent.insert(entry.revision, cause.start);
            return Some(cause.start);
        }
        let mut uncertain = false;
        let mut earliest: Option<At> = None;
        for operation in &history.operations {
            let possible = match (&operation.ask, &operation.outcome) {
                // It is not certain that this delete set the mark: a delete of a marked object changes nothing and answers
                // with the object.
                (Ask::Delete { key, .. }, Outcome::Object(state)) => {
                    *key == entry.key && state.revision == entry.revision
                }
                (Ask::Delete { key, .. }, Outcome::Unknown(_)) => {
                    *key == entry.key && !before.held_end(entry)
                }
                // It is unknown which objects it selected, because colors change.
                (Ask::DeleteAll { prefix, .. }, Outcome::Unknown(_)) => {
                    entry.key.starts_with(prefix.as_str()) && !before.held_end(entry)
                }
                (Ask::DeleteAll { .. }, Outcome::Listed { items, .. }) => {
                    items.iter().any(|item| item.key == entry.key) && !before.held_end(entry)
                }
                (Ask::Write { key, hold: Some(false), .. }, Outcome::Unknown(_)) => {
                    *key == entry.key && before.held_end(entry)
                }
                (
                    Ask::Create { .. }
                    | Ask::Get { .. }
                    | Ask::Write { .. }
                    | Ask::Delete { .. }
                    | Ask::DeleteAll { .. }
                    | Ask::List { .. },
                    _,
                ) => false,
            };
            if possible && operation.start <= entry.heard {
                earliest = Some(earliest.map_or(operation.start, |earliest| earliest.min(operation.start)));
                uncertain |= matches!(operation.outcome, Outcome::Unknown(_));
            }
        }
        if uncertain {
            self.uncertain.insert(entry.revision);
        }
        earliest
    }

    /// The highest revision that can have existed at an instant.
    pub(crate) fn newest(&self, at: At) -> Revision {
        self.begin + self.earliest.partition_point(|earliest| *earliest <= at) as u64
    }

    /// Whether an operation of unknown outcome may have caused this deletion or mark.
    pub(crate) fn uncertain(&self, revision: Revision) -> bool {
        self.uncertain.contains(&revision)
    }

    /// The revision of a write is above every revision known when it was sent, acknowledged or not.
    pub(crate) fn check_known(&self, known: &KnownRevisions, faults: &mut Faults) {
        for (revision, sent) in &self.sent {
            let before = known.before(*sent);
            faults.unless(before < *revision, "order", || {
                format!("revision {revision} was sent at {sent}, when {before} was known")
            });
        }
    }
}

fn causes_write(cause: &Operation, entry: &Entry, now: &State) -> bool {
    let key = match &cause.ask {
        Ask::Create { key, .. } | Ask::Write { key, .. } => key,
        Ask::Get { .. } | Ask::Delete { .. } | Ask::DeleteAll { .. } | Ask::List { .. } => return false,
    };
    let happened = match &cause.outcome {
        Outcome::Object(state) => state.revision == entry.revision,
        Outcome::Unknown(_) => true,
        Outcome::Gone { .. } | Outcome::Listed { .. } | Outcome::Refused { .. } => false,
    };
    *key == entry.key && happened && now.key == entry.key
}

impl State {
    /// Whether an entry deletes this object by removing its finalizers.
    fn held_end(&self, entry: &Entry) -> bool {
        self.held && self.deleting && entry.now.is_none()
    }
}
