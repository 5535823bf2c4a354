//! The log: every revision with its change, as the recorders received it, and the resulting states.

use std::collections::BTreeMap;

use super::history::{At, Change, History, Revision, State, What};

/// A violation of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) rule: &'static str,
    pub(crate) what: String,
}

/// All violations in a history.
#[derive(Debug, Default)]
pub(crate) struct Faults(pub(crate) Vec<Fault>);

impl Faults {
    pub(crate) fn add(&mut self, rule: &'static str, what: impl Into<String>) {
        self.0.push(Fault { rule, what: what.into() });
    }

    /// Adds a fault unless the condition holds.
    pub(crate) fn unless(&mut self, holds: bool, rule: &'static str, what: impl FnOnce() -> String) {
        if !holds {
            self.add(rule, what());
        }
    }
}

/// One revision.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) revision: Revision,
    pub(crate) key: String,
    pub(crate) before: Option<State>,
    /// `None` for a deletion.
    pub(crate) now: Option<State>,
    /// When a recorder received it.
    pub(crate) heard: At,
}

/// A state of a key, and the range of revisions in which it is current, both ends included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    pub(crate) from: Revision,
    pub(crate) to: Revision,
    pub(crate) state: Option<&'a State>,
}

/// All changes, revision by revision.
#[derive(Debug)]
pub(crate) struct Log {
    begin: Revision,
    entries: Vec<Entry>,
    by_key: BTreeMap<String, Vec<usize>>,
    /// The entry that deleted the object with this uid.
    deletions: BTreeMap<String, usize>,
}

impl Log {
    /// Merges the recorders' streams. Rule `dense`: every revision is present, and belongs to one write.
    pub(crate) fn of(history: &History, faults: &mut Faults) -> Log {
        let mut heard: BTreeMap<Revision, (At, Change, &State)> = BTreeMap::new();
        let recorded = |watcher: u32| history.recorders.contains(&watcher);
        for stream in history.streams.iter().filter(|stream| recorded(stream.watcher)) {
            for line in &stream.heard {
                let What::Event(change, state) = &line.what else { continue };
                let first = *heard.entry(state.revision).or_insert((line.at, *change, state));
                faults.unless(first.2.key == state.key, "dense", || {
                    format!("revision {} is one of {} and of {}", state.revision, first.2.key, state.key)
                });
            }
        }
        let mut log = Log {
            begin: history.begin,
            entries: Vec::new(),
            by_key: BTreeMap::new(),
            deletions: BTreeMap::new(),
        };
        for (revision, (at, change, state)) in heard {
            let wanted = log.last() + 1;
            if revision != wanted {
                faults.add("dense", format!("behind revision {} comes {revision}", wanted - 1));
                break;
            }
            let now = (change != Change::Deleted).then(|| state.clone());
            let before = log.at(&state.key, revision).cloned();
            if let (None, Some(before)) = (&now, &before) {
                log.deletions.insert(before.uid.clone(), log.entries.len());
            }
            log.by_key.entry(state.key.clone()).or_default().push(log.entries.len());
            log.entries.push(Entry { revision, key: state.key.clone(), before, now, heard: at });
        }
        log
    }

    pub(crate) fn begin(&self) -> Revision {
        self.begin
    }

    pub(crate) fn last(&self) -> Revision {
        self.begin + self.entries.len() as u64
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn entry(&self, revision: Revision) -> Option<&Entry> {
        let index = revision.checked_sub(self.begin + 1)?;
        self.entries.get(usize::try_from(index).ok()?)
    }

    /// The revision that deleted an object.
    pub(crate) fn deletion(&self, uid: &str) -> Option<&Entry> {
        self.deletions.get(uid).map(|index| &self.entries[*index])
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.by_key.keys().map(String::as_str)
    }

    /// The state of a key at a revision.
    pub(crate) fn at(&self, key: &str, revision: Revision) -> Option<&State> {
        let entries = self.by_key.get(key)?;
        let count = entries.partition_point(|index| self.entries[*index].revision <= revision);
        let last = entries[count.checked_sub(1)?];
        self.entries[last].now.as_ref()
    }

    /// The objects below a prefix at a revision, in the order of keys.
    pub(crate) fn below<'a>(
        &'a self,
        prefix: &'a str,
        revision: Revision,
    ) -> impl Iterator<Item = &'a State> {
        let keys = self.by_key.keys().filter(move |key| key.starts_with(prefix));
        keys.filter_map(move |key| self.at(key, revision))
    }

    /// The states of a key at the revisions from `lo` to `hi`, both included.
    pub(crate) fn spans(&self, key: &str, lo: Revision, hi: Revision) -> Vec<Span<'_>> {
        let none = Vec::new();
        let entries = self.by_key.get(key).unwrap_or(&none);
        let first = entries.partition_point(|index| self.entries[*index].revision <= lo);
        let mut spans = vec![Span { from: lo, to: hi, state: self.at(key, lo) }];
        for index in &entries[first..] {
            let entry = &self.entries[*index];
            if entry.revision > hi {
                break;
            }
            if let Some(last) = spans.last_mut() {
                last.to = entry.revision - 1;
            }
            spans.push(Span { from: entry.revision, to: hi, state: entry.now.as_ref() });
        }
        spans
    }
}
