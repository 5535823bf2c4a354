//! The rule of revisions: they are a total order of all changes, and it agrees with time.
//!
//! Two bounds apply. `lo` of an instant is the highest revision that any client had received before it; `hi` is
//! the highest one that could exist then, because its cause and the causes of all revisions before it had been
//! sent. An operation takes effect at a revision from `lo` of its start to `hi` of its end.

use std::collections::BTreeMap;

use super::causes::Causes;
use super::history::{Ask, At, Form, History, Operation, Outcome, Revision, Selector, State, Wants};
use super::log::{Entry, Faults, Log, Span};

/// The highest known revision at each instant.
#[derive(Debug, Default)]
pub(crate) struct KnownRevisions(BTreeMap<At, Revision>);

impl KnownRevisions {
    /// Records that a client knows a revision at this instant.
    pub(crate) fn add(&mut self, at: At, revision: Revision) {
        if self.0.range(..=at).next_back().is_some_and(|(_, known)| *known >= revision) {
            return;
        }
        // The map increases in both time and revision.
        while let Some((later, _)) = self.0.range(at..).next().filter(|(_, known)| **known <= revision) {
            let later = *later;
            self.0.remove(&later);
        }
        self.0.insert(at, revision);
    }

    /// The highest revision that was known before an instant.
    pub(crate) fn before(&self, at: At) -> Revision {
        self.0.range(..at).next_back().map_or(0, |(_, known)| *known)
    }
}

/// The input for checking one operation.
struct Judge<'a> {
    log: &'a Log,
    causes: &'a Causes,
    retention: Revision,
    operation: &'a Operation,
    /// The bounds of the revision at which the operation took effect.
    lo: Revision,
    hi: Revision,
}

/// Checks all operations; returns the known revisions for the check of the streams.
pub(crate) fn check(history: &History, log: &Log, causes: &Causes, faults: &mut Faults) -> KnownRevisions {
    let mut known = KnownRevisions::default();
    known.add(0, log.begin());
    for stream in &history.streams {
        for heard in &stream.heard {
            known.add(heard.at, heard.revision().unwrap_or(0));
        }
    }
    let mut operations: Vec<&Operation> = history.operations.iter().collect();
    operations.sort_by_key(|operation| operation.end);
    for operation in &operations {
        if let Some(revision) = revision_of(log, operation) {
            known.add(operation.end, revision);
        }
    }
    // An answer without a revision ("not found") is also true of some revision. The check chooses the lowest match,
    // and later operations know that revision; so operations are checked in the order in which they ended.
    for operation in operations {
        let (lo, hi) = (known.before(operation.start), causes.newest(operation.end));
        let judge = Judge { log, causes, retention: history.retention, operation, lo, hi };
        if let Some(revision) = judge.judge(faults) {
            known.add(operation.end, revision);
        }
    }
    for entry in log.entries() {
        faults.unless(entry.revision <= causes.newest(entry.heard), "order", || {
            format!("revision {} was heard of before it, or one before it, was asked for", entry.revision)
        });
    }
    causes.check_known(&known, faults);
    known
}

/// The revision in an answer.
fn revision_of(log: &Log, operation: &Operation) -> Option<Revision> {
    match &operation.outcome {
        Outcome::Object(state) => Some(state.revision),
        Outcome::Gone { uid, .. } => log.deletion(uid).map(|entry| entry.revision),
        Outcome::Listed { revision, .. } => Some(*revision),
        Outcome::Refused { .. } | Outcome::Unknown(_) => None,
    }
}

impl<'a> Judge<'a> {
    fn say(&self, what: &str) -> String {
        let Operation { client, request, ask, outcome, start, end } = self.operation;
        let (lo, hi) = (self.lo, self.hi);
        format!(
            "{what}: client {client}, {request}\n  from {start} to {end}, at a revision of {lo}..={hi}\n  asked {ask:?}\n  \
             heard {outcome:?}"
        )
    }

    /// The lowest revision within the operation's bounds at which the state matches, if any.
    fn sometimes(&self, key: &str, fits: impl Fn(Option<&State>) -> bool) -> Option<Revision> {
        let spans = self.log.spans(key, self.lo, self.hi);
        spans.iter().find(|span| fits(span.state)).map(|span| span.from)
    }

    fn must(&self, found: Option<Revision>, rule: &'static str, faults: &mut Faults) -> Option<Revision> {
        faults.unless(found.is_some(), rule, || self.say("at none of its revisions is that so"));
        found
    }

    /// The lowest revision at which it may have taken effect, if that adds information.
    fn judge(&self, faults: &mut Faults) -> Option<Revision> {
        if self.lo > self.hi {
            faults.add("order", self.say("more was known before it than could exist behind it"));
            return None;
        }
        match (&self.operation.ask, &self.operation.outcome) {
            (_, Outcome::Unknown(_)) | (_, Outcome::Refused { code: 429, .. }) => None,
            (Ask::List { wants, .. }, Outcome::Refused { code: 410, .. }) => {
                self.expired(*wants, faults);
                None
            }
            (ask, Outcome::Refused { code, .. }) => self.refused(ask, *code, faults),
            (Ask::Get { key, at_least }, Outcome::Object(state)) => self.read(key, *at_least, state, faults),
            (Ask::Create { .. } | Ask::Write { .. }, Outcome::Object(state)) => {
                self.written(state, faults);
                None
            }
            (Ask::Write { .. } | Ask::Delete { .. }, Outcome::Gone { uid, last }) => {
                self.gone(uid, last.as_ref(), faults);
                None
            }
            (Ask::Delete { key, uid, expect }, Outcome::Object(state)) => {
                self.marked(key, uid.as_deref(), *expect, state, faults)
            }
            (Ask::DeleteAll { prefix, selector }, Outcome::Listed { revision, items, .. }) => {
                self.listed(prefix, selector, Wants::Newest, *revision, None, 0, faults);
                for item in items {
                    let spans = self.log.spans(&item.key, *revision, self.hi);
                    let went = |span: &Span<'_>| span.state.is_none_or(|state| state.deleting);
                    faults.unless(spans.iter().any(went), "deleted", || {
                        self.say(&format!("{} is still there", item.key))
                    });
                }
                None
            }
            (Ask::List { prefix, selector, wants, after, limit }, Outcome::Listed { revision, .. }) => {
                self.listed(prefix, selector, *wants, *revision, after.as_deref(), *limit, faults);
                None
            }
            (ask, outcome) => {
                faults.add("answer", self.say(&format!("{outcome:?} is no answer to {ask:?}")));
                None
            }
        }
    }

    fn read(&self, key: &str, at_least: Revision, state: &State, faults: &mut Faults) -> Option<Revision> {
        faults.unless(self.log.at(key, state.revision) == Some(state), "state", || {
            self.say(&format!("the log has {:?}", self.log.at(key, state.revision)))
        });
        faults.unless(state.revision <= self.hi, "read", || self.say("that is from the future"));
        let lo = self.lo.max(at_least);
        let there = |span: &Span<'_>| span.state.is_some_and(|now| now.revision == state.revision);
        let spans = self.log.spans(key, lo, self.hi.max(lo));
        let found = spans.iter().find(|span| there(span)).map(|span| span.from);
        self.must(found, "read", faults)
    }

    fn refused(&self, ask: &Ask, code: u16, faults: &mut Faults) -> Option<Revision> {
        let found = match (ask, code) {
            (Ask::Get { key, .. } | Ask::Write { key, .. } | Ask::Delete { key, .. }, 404) => {
                self.sometimes(key, |state| state.is_none())
            }
            (Ask::Create { key, .. }, 409) => self.sometimes(key, |state| state.is_some()),
            (Ask::Write { key, form: Form::Json, test: Some(test), .. }, 422) => {
                self.sometimes(key, |state| state.is_some_and(|state| state.value != *test))
            }
            (Ask::Write { key, expect: Some(expect), .. }, 409) => {
                self.sometimes(key, |state| state.is_some_and(|state| state.revision != *expect))
            }
            (Ask::Delete { key, uid, expect }, 409) => self.sometimes(key, |state| {
                state.is_some_and(|state| !allows(state, uid.as_deref(), *expect, None))
            }),
            (ask, _) => {
                faults.add("answer", self.say(&format!("{ask:?} must not be refused so")));
                return None;
            }
        };
        self.must(found, "refused", faults)
    }

    /// A successful write: its revision must be the one in the answer.
    fn written(&self, state: &State, faults: &mut Faults) {
        let Some(entry) = self.log.entry(state.revision).filter(|entry| entry.key == state.key) else {
            faults.add("lost", self.say("the log has no such revision of that key"));
            return;
        };
        faults.unless(entry.now.as_ref() == Some(state), "state", || {
            self.say(&format!("the log has {entry:?}"))
        });
        self.within(entry, faults);
        match &self.operation.ask {
            Ask::Create { key, value, .. } => {
                let fits = state.key == *key && state.value == *value && entry.before.is_none();
                faults.unless(fits, "write", || self.say(&format!("it was over {:?}", entry.before)));
            }
            Ask::Write { key, value, expect, test, .. } => {
                let allowed = entry.before.as_ref().is_some_and(|before| {
                    allows(before, Some(&state.uid), *expect, test.as_deref())
                        && before.deleting == state.deleting
                });
                let fits = state.key == *key && state.value == *value && allowed;
                faults.unless(fits, "write", || self.say(&format!("it was over {:?}", entry.before)));
            }
            Ask::Get { .. } | Ask::Delete { .. } | Ask::DeleteAll { .. } | Ask::List { .. } => {}
        }
    }

    fn within(&self, entry: &Entry, faults: &mut Faults) {
        faults.unless(self.lo < entry.revision && entry.revision <= self.hi, "order", || {
            self.say(&format!("it is revision {}", entry.revision))
        });
    }

    /// The operation removed the object.
    fn gone(&self, uid: &str, last: Option<&State>, faults: &mut Faults) {
        let Some(entry) = self.log.deletion(uid) else {
            faults.add("lost", self.say("the log has no such deletion"));
            return;
        };
        self.within(entry, faults);
        let Some(before) = &entry.before else { return };
        if let Some(last) = last {
            let same = last.revision == entry.revision && last.sum == before.sum;
            faults.unless(same, "state", || self.say(&format!("the log has {entry:?}")));
        }
        let fits = match &self.operation.ask {
            Ask::Delete { key, uid, expect } => {
                *key == entry.key && !before.held && allows(before, uid.as_deref(), *expect, None)
            }
            Ask::Write { key, expect, test, .. } => {
                *key == entry.key && before.deleting && allows(before, None, *expect, test.as_deref())
            }
            Ask::Create { .. } | Ask::Get { .. } | Ask::DeleteAll { .. } | Ask::List { .. } => false,
        };
        faults.unless(fits, "write", || self.say(&format!("it was over {before:?}")));
    }

    /// A delete of an object with finalizers: this operation or an earlier one marked it.
    fn marked(
        &self,
        key: &str,
        uid: Option<&str>,
        expect: Option<Revision>,
        state: &State,
        faults: &mut Faults,
    ) -> Option<Revision> {
        faults.unless(state.deleting && state.held, "write", || self.say("it is not marked"));
        let before = self.log.entry(state.revision).and_then(|entry| entry.before.as_ref());
        let marks = before.is_some_and(|before| !before.deleting);
        let over = if marks && expect != Some(state.revision) { before } else { Some(state) };
        faults.unless(over.is_some_and(|over| allows(over, uid, expect, None)), "write", || {
            self.say(&format!("it was over {over:?}"))
        });
        self.read(key, 0, state, faults)
    }

    #[allow(clippy::too_many_arguments)]
    fn listed(
        &self,
        prefix: &str,
        selector: &Selector,
        wants: Wants,
        revision: Revision,
        after: Option<&str>,
        limit: usize,
        faults: &mut Faults,
    ) {
        let Outcome::Listed { items, more, remaining, .. } = &self.operation.outcome else { return };
        let fits = match wants {
            Wants::Newest => (self.lo..=self.hi).contains(&revision),
            Wants::NotOlder(least) => (self.lo.max(least)..=self.hi).contains(&revision),
            Wants::Exact(wanted) | Wants::Page(wanted) => revision == wanted && revision <= self.hi,
        };
        faults.unless(fits, "read", || self.say("the list is of another time"));
        let behind = |state: &&State| after.is_none_or(|after| state.key.as_str() > after);
        let state = self.log.below(prefix, revision).filter(|state| selector.takes(state)).filter(behind);
        let mut wanted: Vec<&State> = state.collect();
        let rest = if limit == 0 { 0 } else { wanted.len().saturating_sub(limit) };
        wanted.truncate(wanted.len() - rest);
        faults.unless(items.iter().eq(wanted.iter().copied()), "atomic list", || {
            self.say(&format!("the state of revision {revision} is {wanted:?}"))
        });
        faults.unless(*more == (rest > 0), "atomic list", || self.say(&format!("{rest} more are left")));
        faults.unless(remaining.is_none_or(|remaining| remaining == rest as u64), "atomic list", || {
            self.say(&format!("{rest} more are left"))
        });
    }

    /// 410: allowed only for revisions older than the retention.
    fn expired(&self, wants: Wants, faults: &mut Faults) {
        let wanted = match wants {
            Wants::Exact(wanted) | Wants::Page(wanted) => Some(wanted),
            Wants::Newest | Wants::NotOlder(_) => None,
        };
        let newest = self.causes.newest(self.operation.end);
        let justified = wanted.is_some_and(|wanted| wanted + self.retention < newest);
        faults.unless(justified, "expired", || self.say("it must still be there"));
    }
}

/// Whether the preconditions of a write hold for the state that it replaces.
pub(crate) fn allows(over: &State, uid: Option<&str>, expect: Option<Revision>, test: Option<&str>) -> bool {
    uid.is_none_or(|uid| over.uid == uid)
        && expect.is_none_or(|expect| over.revision == expect)
        && test.is_none_or(|test| over.value == test)
}
