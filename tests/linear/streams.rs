//! The guarantees of a watch, stream by stream, named as in etcd's documentation:
//!
//! * **filter**: only objects that are below the prefix and selected (or were, for deletions);
//! * **ordered**: by revision;
//! * **unique**: no event twice, also not after a resume;
//! * **atomic**: the initial events are the state of one revision, and a revision is one event;
//! * **bookmarkable**: no event after a bookmark is older than the bookmark;
//! * **reliable**: no event is missing between the first and the last line received;
//! * **resumable**: the first event is the first one after the requested revision;
//! * **previous value**: a deletion shows the last state, and every other event the state at its revision;
//! * **is-create**: ADDED is an object that the watcher did not have, MODIFIED one that it had and still has,
//!   DELETED one that it no longer has.
//!
//! And two more: **existing**: no revision is sent before it can exist; **expired**: only revisions older than
//! the retention expire.

use super::causes::Causes;
use super::history::{Change, From, History, Revision, State, Stream, What};
use super::log::{Entry, Fault, Faults, Log};
use super::revisions::KnownRevisions;

/// The event that a watcher receives for an entry of the log.
fn to_watcher<'a>(stream: &Stream, entry: &'a Entry) -> Option<(Change, &'a State)> {
    if !entry.key.starts_with(&stream.prefix) {
        return None;
    }
    let before = entry.before.as_ref().filter(|state| stream.selector.takes(state));
    let now = entry.now.as_ref().filter(|state| stream.selector.takes(state));
    match (before, now) {
        (Some(_), Some(now)) => Some((Change::Modified, now)),
        (None, Some(now)) => Some((Change::Added, now)),
        (Some(before), None) => Some((Change::Deleted, before)),
        (None, None) => None,
    }
}

/// Checks all streams.
pub(crate) fn check(
    history: &History,
    log: &Log,
    causes: &Causes,
    known: &KnownRevisions,
    faults: &mut Faults,
) {
    let mut last_of = std::collections::BTreeMap::new();
    for stream in &history.streams {
        let judge = Judge { stream, log, causes, known, retention: history.retention };
        let before: Option<Revision> = last_of.get(&stream.watcher).copied().filter(|_| stream.resumed);
        let mut own = Faults::default();
        judge.judge(before, &mut own);
        let located = own.0.into_iter().map(|Fault { rule, what }| Fault {
            rule,
            what: format!("{what}\n  watcher {}, {}", stream.watcher, stream.request),
        });
        faults.0.extend(located);
        let last = stream.heard.iter().rev().find_map(super::history::StreamLine::revision);
        if let Some(last) = last.or(before) {
            last_of.insert(stream.watcher, last);
        }
    }
}

struct Judge<'a> {
    stream: &'a Stream,
    log: &'a Log,
    causes: &'a Causes,
    known: &'a KnownRevisions,
    retention: Revision,
}

impl Judge<'_> {
    fn judge(&self, before: Option<Revision>, faults: &mut Faults) {
        for heard in &self.stream.heard {
            let revision = heard.revision().unwrap_or(0);
            faults.unless(revision <= self.causes.newest(heard.at), "existing", || {
                format!("at {} it received {:?}", heard.at, heard.what)
            });
            if let What::Event(_, state) = &heard.what {
                let selected =
                    state.key.starts_with(&self.stream.prefix) && self.stream.selector.takes(state);
                faults.unless(selected, "filter", || format!("{state:?} is not selected"));
            }
        }
        let (start, live) = self.start(faults);
        if let (Some(before), From::After(after)) = (before, self.stream.from) {
            faults.unless(before == after, "resumable", || {
                format!("it had heard of {before} and went on behind {after}")
            });
        }
        self.order(start, live, faults);
        self.contents(start, live, faults);
        self.failure(faults);
    }

    /// The revision after which the live events begin (`None`: unknown), and their index in the received lines. Also
    /// checks the initial events.
    fn start(&self, faults: &mut Faults) -> (Option<Revision>, usize) {
        let heard = &self.stream.heard;
        let least = match self.stream.from {
            From::After(after) => return (Some(after), 0),
            From::Now => return (None, 0),
            From::Initial(least) => least,
        };
        let end =
            heard.iter().position(|heard| matches!(heard.what, What::Bookmark { initial_end: true, .. }));
        let Some(end) = end else {
            // Without the bookmark, the end of the initial events is unknown; the lines before a cut are a part of some
            // state. A stream that requested no bookmarks is checked from its first event that is not an addition, or that
            // breaks the order of keys.
            return self.unmarked(least, faults);
        };
        let at = heard[end].revision().unwrap_or(0);
        let lo = least.max(self.known.before(self.stream.opened));
        faults.unless(lo <= at, "atomic", || format!("the initial state is that of {at}, {lo} was known"));
        let mut wanted =
            self.log.below(&self.stream.prefix, at).filter(|state| self.stream.selector.takes(state));
        for line in &heard[..end] {
            let wanted = wanted.next();
            let same = matches!(&line.what, What::Event(Change::Added, state) if Some(state) == wanted);
            faults.unless(same, "atomic", || {
                format!("the state of {at} has {wanted:?}, the watcher received {:?}", line.what)
            });
        }
        if let Some(left_out) = wanted.next() {
            faults
                .add("atomic", format!("the state of {at} has {left_out:?}, the watcher did not receive it"));
        }
        (Some(at), end + 1)
    }

    /// Initial events without a bookmark after them: some revision must explain all of them and the events that
    /// follow.
    fn unmarked(&self, least: Revision, faults: &mut Faults) -> (Option<Revision>, usize) {
        let heard = &self.stream.heard;
        let lo = least.max(self.known.before(self.stream.opened)).max(self.log.begin());
        let hi = self.causes.newest(self.stream.answered).min(self.log.last());
        // The events after the state of a revision may also be a part of the state of a later one. A candidate therefore
        // counts only if no other one explains the stream when it would require a bookmark, or when the events after it
        // are not in order.
        let mut without = None;
        let mut unordered = None;
        // Without bookmarks, an event that belongs to the state of one revision may also look like the first event after an
        // earlier one, for example after a state without objects.
        let mut unlikely = None;
        for at in lo..=hi.max(lo) {
            let state =
                self.log.below(&self.stream.prefix, at).filter(|state| self.stream.selector.takes(state));
            let state: Vec<&State> = state.collect();
            let is_added = |(line, wanted): (&super::history::StreamLine, &&State)| matches!(&line.what, What::Event(Change::Added, state) if state == *wanted);
            let all = heard.iter().zip(&state).all(is_added);
            let next = heard.get(state.len()).and_then(super::history::StreamLine::revision);
            if all && next.is_none_or(|next| next > at) {
                let begin = (Some(at), state.len().min(heard.len()));
                let rest = heard.iter().skip(state.len()).filter_map(super::history::StreamLine::revision);
                if !rest.is_sorted() {
                    unordered.get_or_insert(begin);
                    continue;
                }
                if next.is_none() {
                    return begin;
                }
                if !self.stream.bookmarks {
                    let mut trial = Faults::default();
                    self.contents(begin.0, begin.1, &mut trial);
                    if trial.0.is_empty() {
                        return begin;
                    }
                    unlikely.get_or_insert(begin);
                    continue;
                }
                without.get_or_insert((at, begin));
            }
        }
        if let Some((at, begin)) = without {
            faults.add("bookmarkable", format!("no bookmark ended the initial state of {at}"));
            return begin;
        }
        if let Some(begin) = unlikely.or(unordered) {
            return begin;
        }
        faults.add("atomic", format!("no state of {lo}..={hi} begins with {:?}", heard.first()));
        (None, heard.len())
    }

    /// Checks ordered, unique, atomic and bookmarkable.
    fn order(&self, start: Option<Revision>, live: usize, faults: &mut Faults) {
        let (mut last, mut last_key) = (start.unwrap_or(0), "");
        let mut promised = start.unwrap_or(0);
        for heard in self.stream.heard.get(live..).unwrap_or_default() {
            match &heard.what {
                What::Event(_, state) => {
                    let revision = state.revision;
                    if revision == last {
                        let rule =
                            if state.key == last_key || last_key.is_empty() { "unique" } else { "atomic" };
                        faults.add(rule, format!("revision {revision} comes again: {state:?}"));
                    }
                    faults.unless(revision >= last, "ordered", || format!("{revision} comes behind {last}"));
                    faults.unless(revision > promised, "bookmarkable", || {
                        format!("{revision} comes behind the bookmark of {promised}")
                    });
                    (last, last_key) = (last.max(revision), &state.key);
                }
                What::Bookmark { revision, .. } => {
                    faults.unless(*revision >= last.max(promised), "bookmarkable", || {
                        format!("a bookmark of {revision} comes behind {}", last.max(promised))
                    });
                    promised = promised.max(*revision);
                }
                What::Failed(_) => {}
            }
        }
    }

    /// Checks the guarantees `reliable`, `resumable`, `previous value` and `is-create`.
    fn contents(&self, start: Option<Revision>, live: usize, faults: &mut Faults) {
        let heard = self.stream.heard.get(live..).unwrap_or_default();
        let Some(end) = heard.iter().filter_map(super::history::StreamLine::revision).max() else { return };
        // "Now" was some instant between the request and its answer.
        let (from, surely) = match start {
            Some(start) => (start, start),
            None => {
                (self.known.before(self.stream.opened), self.causes.newest(self.stream.answered).min(end))
            }
        };
        let mut events = heard.iter().filter_map(|heard| match &heard.what {
            What::Event(change, state) => Some((*change, state)),
            What::Bookmark { .. } | What::Failed(_) => None,
        });
        let mut next = events.next();
        let mut first = true;
        for revision in from + 1..=end.min(self.log.last()) {
            let wanted = self.log.entry(revision).and_then(|entry| to_watcher(self.stream, entry));
            let Some((change, wanted)) = wanted else { continue };
            match next {
                Some((received, state)) if state.revision == revision => {
                    faults.unless(received == change, "is-create", || {
                        format!("revision {revision} is {change:?}, received {received:?}: {state:?}")
                    });
                    let same = State { revision, ..wanted.clone() } == *state;
                    faults.unless(same, "previous value", || {
                        format!("revision {revision} must show {wanted:?}, received {state:?}")
                    });
                    next = events.next();
                    first = false;
                }
                // Before the instant of "now".
                _ if first && start.is_none() && revision <= surely => {}
                _ => {
                    let rule = if first { "resumable" } else { "reliable" };
                    faults.add(rule, format!("behind {from}, revision {revision} is left out: {wanted:?}"));
                    first = false;
                }
            }
        }
        if let Some((change, state)) = next {
            faults.add("filter", format!("it received an unrelated event: {change:?} {state:?}"));
        }
    }

    fn failure(&self, faults: &mut Faults) {
        let heard = &self.stream.heard;
        let Some(index) = heard.iter().position(|heard| matches!(heard.what, What::Failed(_))) else {
            return;
        };
        faults.unless(index + 1 == heard.len(), "expired", || "something comes behind an error".to_owned());
        let at = match self.stream.from {
            From::After(after) => {
                heard[..index].iter().rev().find_map(|heard| heard.revision()).or(Some(after))
            }
            From::Initial(_) | From::Now => heard[..index].iter().rev().find_map(|heard| heard.revision()),
        };
        let newest = self.causes.newest(heard[index].at);
        let justified =
            heard[index].what == What::Failed(410) && at.is_some_and(|at| at + self.retention < newest);
        faults.unless(justified, "expired", || {
            format!("{:?} behind revision {at:?}, the newest is {newest}", heard[index].what)
        });
    }
}
