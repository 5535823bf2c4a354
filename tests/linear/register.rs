//! One object as a compare-and-set register, for the search. The log is used only to decide which writes of
//! unknown outcome can be omitted, and to which state a revision in a precondition refers. Its order is not used.

use std::marker::PhantomData;

use super::causes::Causes;
use super::history::{Ask, Form, History, Operation, Outcome, Revision, Selector, State, Wants};
use super::log::{Faults, Log};
use super::search::{Model, Timed, explain};

/// The value of the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Version<'a> {
    value: &'a str,
    color: &'a str,
    uid: &'a str,
    held: bool,
    deleting: bool,
}

impl<'a> Version<'a> {
    fn of(state: &'a State) -> Version<'a> {
        let State { value, color, uid, held, deleting, .. } = state;
        Version { value, color, uid, held: *held, deleting: *deleting }
    }

    /// The result of a delete.
    fn deleted(self) -> Option<Version<'a>> {
        self.held.then_some(Version { deleting: true, ..self })
    }
}

/// A precondition of a write.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Only<'a> {
    /// This version; `Some(None)` is one that never existed.
    version: Option<Option<Version<'a>>>,
    uid: Option<&'a str>,
    value: Option<&'a str>,
}

impl Only<'_> {
    fn allows(&self, over: Version<'_>) -> bool {
        self.version.is_none_or(|version| version == Some(over))
            && self.uid.is_none_or(|uid| uid == over.uid)
            && self.value.is_none_or(|value| value == over.value)
    }
}

/// The effect of an operation on one key.
#[derive(Clone, Debug)]
pub(crate) enum Act<'a> {
    Read(Option<Version<'a>>),
    /// A list with a selector did not contain it.
    Lacks(&'a str, &'a Selector),
    Create(Version<'a>),
    /// Value, color, finalizers afterwards, precondition, and whether the write removed the object, if known.
    Write(&'a str, &'a str, Option<bool>, Only<'a>, Option<bool>),
    /// Precondition, and whether the object was removed immediately, if known.
    Delete(Only<'a>, Option<bool>),
    /// Deleted by a delete of its collection.
    Swept,
    /// Rejected, because it exists.
    Exists,
    /// Rejected, because the precondition does not hold.
    Forbidden(Only<'a>),
}

struct Register<'a>(PhantomData<&'a ()>);

impl<'a> Model for Register<'a> {
    type Act = Act<'a>;
    type State = Option<Version<'a>>;

    fn step(&self, act: &Act<'a>, state: &Option<Version<'a>>) -> Option<Option<Version<'a>>> {
        match (act, *state) {
            (Act::Read(seen), now) => (*seen == now).then_some(now),
            (Act::Lacks(key, selector), now) => {
                now.is_none_or(|now| !selector.matches(key, now.color)).then_some(now)
            }
            (Act::Create(version), None) => Some(Some(*version)),
            (Act::Write(value, color, hold, only, gone), Some(over)) if only.allows(over) => {
                let held = hold.unwrap_or(over.held);
                let goes = over.deleting && !held;
                let left = (!goes).then_some(Version { value, color, held, ..over });
                gone.is_none_or(|gone| gone == goes).then_some(left)
            }
            (Act::Delete(only, gone), Some(over)) if only.allows(over) => {
                let left = over.deleted();
                gone.is_none_or(|gone| gone == left.is_none()).then_some(left)
            }
            (Act::Swept, now) => Some(now.and_then(Version::deleted)),
            (Act::Exists, Some(over)) => Some(Some(over)),
            (Act::Forbidden(only), Some(over)) => (!only.allows(over)).then_some(Some(over)),
            (Act::Create(_), Some(_))
            | (Act::Write(..) | Act::Delete(..) | Act::Exists | Act::Forbidden(_), None)
            | (Act::Write(..) | Act::Delete(..), Some(_)) => None,
        }
    }
}

/// Checks each key separately.
pub(crate) fn check(history: &History, log: &Log, causes: &Causes, faults: &mut Faults) {
    let mut keys: Vec<&str> = log.keys().collect();
    for operation in &history.operations {
        if let Some(key) = key(&operation.ask) {
            keys.push(key);
        }
    }
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let found = acts(history, log, causes, key);
        let (operations, timed): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        if let Err(stuck) = explain(&Register(PhantomData), None, &timed) {
            let none_of: Vec<&Operation> = stuck.iter().map(|index| operations[*index]).collect();
            faults.add("linearizable", format!("{key}: none of these can be next: {none_of:#?}"));
        }
    }
}

fn key(ask: &Ask) -> Option<&str> {
    match ask {
        Ask::Create { key, .. } | Ask::Get { key, .. } | Ask::Write { key, .. } | Ask::Delete { key, .. } => {
            Some(key)
        }
        Ask::DeleteAll { .. } | Ask::List { .. } => None,
    }
}

type Found<'a> = Vec<(&'a Operation, Timed<Act<'a>>)>;

fn acts<'a>(history: &'a History, log: &'a Log, causes: &Causes, wanted: &'a str) -> Found<'a> {
    let entries = || log.entries().iter().filter(|entry| entry.key == wanted);
    // Whether the cause of a deletion of the object may be an operation of unknown outcome.
    let uncertain = entries().any(|entry| causes.uncertain(entry.revision));
    let happened = |value: &str| {
        entries().find_map(|entry| entry.now.as_ref().filter(|now| now.value == value)).map(Version::of)
    };
    let version = |expect: Option<Revision>| {
        expect.map(|revision| {
            log.entry(revision)
                .filter(|entry| entry.key == wanted)
                .and_then(|entry| entry.now.as_ref())
                .map(Version::of)
        })
    };
    let mut found = Found::new();
    for operation in &history.operations {
        let mut push = |known: bool, act: Act<'a>| {
            let timed = Timed { call: operation.start, ret: known.then_some(operation.end), act };
            found.push((operation, timed));
        };
        match (&operation.ask, &operation.outcome) {
            (Ask::List { prefix, selector, wants, after, limit }, Outcome::Listed { items, more, .. }) => {
                let current = match wants {
                    Wants::Newest | Wants::NotOlder(_) => true,
                    Wants::Exact(_) | Wants::Page(_) => false,
                };
                let behind = after.as_ref().is_none_or(|after| wanted > after.as_str());
                let cut = *limit > 0 && *more && items.last().is_none_or(|last| wanted > last.key.as_str());
                if current && wanted.starts_with(prefix.as_str()) && behind && !cut {
                    push(true, listed(items, wanted, selector));
                }
            }
            (Ask::DeleteAll { prefix, selector }, Outcome::Listed { items, .. })
                if wanted.starts_with(prefix.as_str()) =>
            {
                let seen = listed(items, wanted, selector);
                let swept = matches!(seen, Act::Read(_));
                push(true, seen);
                if swept {
                    push(true, Act::Swept);
                }
            }
            (Ask::DeleteAll { prefix, .. }, Outcome::Unknown(_)) => {
                if wanted.starts_with(prefix.as_str()) && uncertain {
                    push(false, Act::Swept);
                }
            }
            (ask, outcome) if key(ask) == Some(wanted) => {
                if let Some((known, act)) = single(ask, outcome, uncertain, &happened, &version) {
                    push(known, act);
                }
            }
            (_, _) => {}
        }
    }
    found
}

fn listed<'a>(items: &'a [State], key: &'a str, selector: &'a Selector) -> Act<'a> {
    match items.iter().find(|item| item.key == key) {
        Some(item) => Act::Read(Some(Version::of(item))),
        None => Act::Lacks(key, selector),
    }
}

/// The act of an operation on one key, and whether it is known to have taken effect; none if it has no
/// information.
fn single<'a>(
    ask: &'a Ask,
    outcome: &'a Outcome,
    uncertain: bool,
    happened: &dyn Fn(&str) -> Option<Version<'a>>,
    version: &dyn Fn(Option<Revision>) -> Option<Option<Version<'a>>>,
) -> Option<(bool, Act<'a>)> {
    let act = match (ask, outcome) {
        (_, Outcome::Refused { code: 429, .. }) | (Ask::Get { .. }, Outcome::Unknown(_)) => return None,
        (Ask::Get { .. }, Outcome::Object(state)) => Act::Read(Some(Version::of(state))),
        (_, Outcome::Refused { code: 404, .. }) => Act::Read(None),
        (Ask::Create { .. }, Outcome::Object(state)) => Act::Create(Version::of(state)),
        (Ask::Create { value, .. }, Outcome::Unknown(_)) => {
            return Some((false, Act::Create(happened(value)?)));
        }
        (Ask::Create { .. }, Outcome::Refused { code: 409, .. }) => Act::Exists,
        (Ask::Write { value, color, hold, expect, test, form, .. }, outcome) => {
            let only = Only { version: version(*expect), uid: None, value: test.as_deref() };
            let write = |gone| Act::Write(value, color, *hold, only, gone);
            match outcome {
                Outcome::Object(_) => write(Some(false)),
                Outcome::Gone { .. } => write(Some(true)),
                Outcome::Unknown(_) if happened(value).is_some() => return Some((false, write(Some(false)))),
                Outcome::Unknown(_) if uncertain && *hold == Some(false) => {
                    return Some((false, write(Some(true))));
                }
                Outcome::Refused { code: 409, .. } if expect.is_some() => Act::Forbidden(only),
                Outcome::Refused { code: 422, .. } if *form == Form::Json => Act::Forbidden(only),
                // The rule of revisions reports the fault, if there is one.
                Outcome::Unknown(_) | Outcome::Refused { .. } | Outcome::Listed { .. } => return None,
            }
        }
        (Ask::Delete { uid, expect, .. }, outcome) => {
            let only = Only { version: version(*expect), uid: uid.as_deref(), value: None };
            match outcome {
                Outcome::Gone { .. } => Act::Delete(only, Some(true)),
                Outcome::Object(_) => Act::Delete(only, Some(false)),
                Outcome::Unknown(_) if uncertain => return Some((false, Act::Delete(only, None))),
                Outcome::Refused { code: 409, .. } => Act::Forbidden(only),
                Outcome::Unknown(_) | Outcome::Refused { .. } | Outcome::Listed { .. } => return None,
            }
        }
        (Ask::Create { .. } | Ask::Get { .. } | Ask::DeleteAll { .. } | Ask::List { .. }, _) => return None,
    };
    Some((true, act))
}
