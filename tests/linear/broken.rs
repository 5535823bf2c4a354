//! Histories of the real server, broken on purpose the way a faulty server would: the checkers must detect it.

use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;

use super::check::check;
use super::history::{Ask, Change, From, History, Outcome, StreamLine, What};
use super::{Round, judge, number, play, random};

/// Breaks one thing, if possible; returns a description of it.
type Break = fn(&mut History, &mut StdRng) -> Option<String>;

/// A position in the stream of a roaming watcher: an event followed by another one.
fn place(history: &History, random: &mut StdRng) -> Option<(usize, usize)> {
    let mut places = Vec::new();
    for (index, stream) in history.streams.iter().enumerate() {
        if history.recorders.contains(&stream.watcher) {
            continue;
        }
        // A stream that was cut off during its initial events does not miss the rest of them.
        let whole = |heard: &StreamLine| matches!(heard.what, What::Bookmark { initial_end: true, .. });
        if matches!(stream.from, From::Initial(_)) && !stream.heard.iter().any(whole) {
            continue;
        }
        let event = |at: usize| matches!(stream.heard[at].what, What::Event(..));
        let ends = stream.heard.len().saturating_sub(1);
        places.extend((0..ends).filter(|at| event(*at) && event(at + 1)).map(|at| (index, at)));
    }
    places.choose(random).copied()
}

fn drop_event(history: &mut History, random: &mut StdRng) -> Option<String> {
    let (stream, at) = place(history, random)?;
    let dropped = history.streams[stream].heard.remove(at);
    Some(format!("{dropped:?} of stream {stream}"))
}

fn double_event(history: &mut History, random: &mut StdRng) -> Option<String> {
    let (stream, at) = place(history, random)?;
    let doubled = history.streams[stream].heard[at].clone();
    history.streams[stream].heard.insert(at, doubled.clone());
    Some(format!("{doubled:?} of stream {stream}"))
}

fn swap_events(history: &mut History, random: &mut StdRng) -> Option<String> {
    let (stream, at) = place(history, random)?;
    let heard = &mut history.streams[stream].heard;
    let (first, second) = (heard[at].what.clone(), heard[at + 1].what.clone());
    (heard[at].what, heard[at + 1].what) = (second, first);
    Some(format!("{:?} of stream {stream}", heard[at]))
}

fn change_type(history: &mut History, random: &mut StdRng) -> Option<String> {
    let (stream, at) = place(history, random)?;
    let What::Event(change, _) = &mut history.streams[stream].heard[at].what else { return None };
    *change = match change {
        Change::Added => Change::Modified,
        Change::Modified | Change::Deleted => Change::Added,
    };
    Some(format!("{:?} of stream {stream}", history.streams[stream].heard[at]))
}

fn other_content(history: &mut History, random: &mut StdRng) -> Option<String> {
    let (stream, at) = place(history, random)?;
    let What::Event(_, state) = &mut history.streams[stream].heard[at].what else { return None };
    state.sum ^= 1;
    Some(format!("{state:?} of stream {stream}"))
}

fn bold_bookmark(history: &mut History, random: &mut StdRng) -> Option<String> {
    let (stream, at) = place(history, random)?;
    let (next, at_time) =
        (history.streams[stream].heard[at + 1].revision()?, history.streams[stream].heard[at].at);
    let what = What::Bookmark { revision: next, initial_end: false };
    history.streams[stream].heard.insert(at + 1, StreamLine { at: at_time, what });
    Some(format!("a bookmark of {next} in stream {stream}"))
}

/// A read that returns an earlier state of the object, although a newer one was known.
fn stale_read(history: &mut History, random: &mut StdRng) -> Option<String> {
    let mut found = Vec::new();
    for (index, operation) in history.operations.iter().enumerate() {
        let (Ask::Get { key, .. }, Outcome::Object(seen)) = (&operation.ask, &operation.outcome) else {
            continue;
        };
        let earlier = history.operations.iter().find_map(|other| match &other.outcome {
            Outcome::Object(state) if state.key == *key && state.revision < seen.revision => {
                Some(state.clone())
            }
            _ => None,
        });
        // The newer one was known before the read started.
        let known = history.operations.iter().any(|other| {
            other.end < operation.start
                && matches!(&other.outcome, Outcome::Object(state) if state.revision == seen.revision && state.key == *key)
        });
        found.extend(earlier.filter(|_| known).map(|earlier| (index, earlier)));
    }
    let (index, earlier) = found.choose(random)?.clone();
    let description = format!("{:?} shows {earlier:?}", history.operations[index]);
    history.operations[index].outcome = Outcome::Object(earlier);
    Some(description)
}

/// A list in which one object is missing.
fn torn_list(history: &mut History, random: &mut StdRng) -> Option<String> {
    let lists = history.operations.iter().enumerate().filter(
        |(_, operation)| matches!(&operation.outcome, Outcome::Listed { items, .. } if !items.is_empty()),
    );
    let lists: Vec<usize> = lists.map(|(index, _)| index).collect();
    let index = *lists.choose(random)?;
    let Outcome::Listed { items, .. } = &mut history.operations[index].outcome else { return None };
    let torn = random.random_range(0..items.len());
    items.remove(torn);
    Some(format!("{:?}", history.operations[index]))
}

/// An acknowledged write that is missing from the log: all later revisions have moved up by one.
fn lost_write(history: &mut History, random: &mut StdRng) -> Option<String> {
    let written =
        history.operations.iter().filter_map(|operation| match (&operation.ask, &operation.outcome) {
            (Ask::Create { .. } | Ask::Write { .. }, Outcome::Object(state)) => Some(state.revision),
            _ => None,
        });
    let written: Vec<u64> = written.collect();
    let lost = *written.choose(random)?;
    for stream in &mut history.streams {
        stream.heard.retain(|heard| heard.revision() != Some(lost));
        for heard in &mut stream.heard {
            match &mut heard.what {
                What::Event(_, state) if state.revision > lost => state.revision -= 1,
                What::Bookmark { revision, .. } if *revision > lost => *revision -= 1,
                What::Event(..) | What::Bookmark { .. } | What::Failed(_) => {}
            }
        }
    }
    Some(format!("revision {lost}"))
}

/// A write that took effect although the answer was a conflict.
fn false_refusal(history: &mut History, random: &mut StdRng) -> Option<String> {
    let written = history.operations.iter().enumerate().filter(|(_, operation)| {
        matches!((&operation.ask, &operation.outcome), (Ask::Write { .. }, Outcome::Object(_)))
    });
    let written: Vec<usize> = written.map(|(index, _)| index).collect();
    let index = *written.choose(random)?;
    let operation = &mut history.operations[index];
    operation.outcome = Outcome::Refused { code: 409, reason: String::new() };
    Some(format!("{operation:?}"))
}

/// A write that takes effect before it was sent.
fn early_write(history: &mut History, random: &mut StdRng) -> Option<String> {
    let last = history.operations.iter().map(|operation| operation.end).max()?;
    let written = history.operations.iter().enumerate().filter(|(_, operation)| {
        matches!((&operation.ask, &operation.outcome), (Ask::Create { .. }, Outcome::Object(_)))
    });
    let written: Vec<usize> = written.map(|(index, _)| index).collect();
    let index = *written[..written.len() / 2].choose(random)?;
    let operation = &mut history.operations[index];
    (operation.start, operation.end) = (last, last + 1);
    Some(format!("{operation:?}"))
}

/// Each break with rules, at least one of which must report a fault.
const BREAKS: [(&str, Break, &[&str]); 11] = [
    ("an event is dropped", drop_event, &["reliable", "resumable", "atomic"]),
    ("an event is doubled", double_event, &["unique", "atomic"]),
    ("two events are swapped", swap_events, &["ordered", "atomic", "previous value"]),
    ("an event has another type", change_type, &["is-create", "atomic"]),
    ("an event has another content", other_content, &["previous value", "atomic"]),
    ("a bookmark promises too much", bold_bookmark, &["bookmarkable", "existing", "atomic"]),
    ("a read is stale", stale_read, &["read"]),
    ("a list is torn", torn_list, &["atomic list"]),
    ("a write is lost", lost_write, &["lost", "state", "read", "order"]),
    ("a write that was refused happened", false_refusal, &["cause"]),
    ("a write was known before it was asked for", early_write, &["order", "existing"]),
];

#[tokio::test]
async fn broken_history_is_rejected() {
    let seed = number("ORLOP_LINEAR_SEED").unwrap_or_else(|| rand::random::<u64>() >> 16);
    eprintln!("broken: ORLOP_LINEAR_SEED={seed}");
    let round = Round { name: "broken", seed, clients: 4, watchers: 4, restarts: 1, answers: 250, keep: 0 };
    let played = play(round).await;
    let history = played.recorder.history().clone();
    judge(&history);
    let mut random = random(seed, 1);
    for (name, broken, rules) in BREAKS {
        for _ in 0..5 {
            let mut history = history.clone();
            let what =
                broken(&mut history, &mut random).unwrap_or_else(|| panic!("{name}: nothing to break"));
            let faults = check(&history).0;
            assert!(
                faults.iter().any(|fault| rules.contains(&fault.rule)),
                "{name} is not refused by {rules:?}: {what}\n{faults:#?}"
            );
        }
    }
}
