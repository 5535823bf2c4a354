//! The ledger of reported writes: every write that was requested, acknowledged, or seen. Pure bookkeeping,
//! against which a store is verified later.
//!
//! The reports of a process, one per line (a tag names the value: [`value_of`](crate::load::value_of)):
//!
//! | line | meaning |
//! |---|---|
//! | `O head oldest` | the store is open |
//! | `E revision key=tag` | it has this event (`-` for a delete), or at its oldest revision this record |
//! | `R head records crc` | it has these records; everything up to the head has been reported |
//! | `T writer n key=tag ...` | one commit is requested |
//! | `A writer n revision` | it was acknowledged, with this revision for its last write |
//! | `W revision` | a watch has seen everything of its prefix up to here |
//! | `F text` | the store did not open |

use std::collections::BTreeMap;

/// A write: the key, and the tag of the value; `None` for a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LedgerEvent {
    pub(crate) key: String,
    pub(crate) tag: Option<String>,
}

/// An expected record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Should {
    pub(crate) tag: String,
    pub(crate) create: u64,
    pub(crate) modified: u64,
}

pub(crate) type Records = BTreeMap<String, Should>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// The events that were acknowledged or read back, by revision.
    pub(crate) events: BTreeMap<u64, LedgerEvent>,
    /// The requested commits without an answer, by writer.
    open: BTreeMap<String, (u64, Vec<LedgerEvent>)>,
    /// The newest revision in any report.
    pub(crate) seen: u64,
    /// The oldest revision of the process that currently reports what it has found.
    opening_oldest: u64,
    /// The events that it has reported so far.
    reread: BTreeMap<u64, LedgerEvent>,
    /// All events up to this revision are known, and `records` are the records there.
    pub(crate) floor: u64,
    records: Records,
    /// The number of acknowledged commits.
    pub(crate) acknowledged: u64,
}

impl Ledger {
    /// Processes one line. An error describes a contradiction.
    pub(crate) fn take(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split(' ').collect();
        let fault = |what: &str| Err(format!("{what}: {line:?}"));
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        match (words[0], number(1), number(2), number(3)) {
            ("O", Some(head), Some(oldest), None) => {
                if head < self.lowest_head() {
                    return fault(&format!("revision {} was reported before", self.lowest_head()));
                }
                self.seen = self.seen.max(head);
                self.opening_oldest = oldest;
                self.reread.clear();
            }
            ("E", Some(revision), None, None) => {
                let event = words.get(2).and_then(|word| parse_event(word));
                self.reread.insert(revision, event.ok_or("an event without a key")?);
            }
            ("R", Some(head), Some(records), Some(crc)) => {
                let reread = std::mem::take(&mut self.reread);
                self.events = self.settled(&reread, head, self.opening_oldest, |_| true)?;
                self.open.clear();
                self.advance();
                let crc_now = digest(&self.records);
                if (records, crc) != (self.records.len() as u64, u64::from(crc_now)) {
                    return fault(&format!("there should be {} records, crc {crc_now}", self.records.len()));
                }
            }
            ("T", Some(_), Some(n), _) => {
                let writes = words[3..].iter().filter_map(|word| parse_event(word)).collect();
                self.open.insert(words[1].to_owned(), (n, writes));
            }
            ("A", Some(_), Some(n), Some(last)) => {
                let Some((asked, writes)) = self.open.remove(words[1]) else {
                    return fault("not requested");
                };
                if asked != n {
                    return fault(&format!("{asked} was asked for"));
                }
                let first = last + 1 - writes.len() as u64;
                for (revision, write) in (first..).zip(writes) {
                    if let Some(before) = self.events.insert(revision, write) {
                        return fault(&format!("revision {revision} was used before, for {before:?}"));
                    }
                }
                self.acknowledged += 1;
                self.seen = self.seen.max(last);
                self.advance();
            }
            ("W", Some(revision), None, None) => self.seen = self.seen.max(revision),
            ("F", ..) => return fault("the store did not open"),
            _ => return fault("no such report"),
        }
        Ok(())
    }

    /// A ledger with exactly these events.
    pub(crate) fn of(events: BTreeMap<u64, LedgerEvent>, acknowledged: u64) -> Ledger {
        let seen = events.last_key_value().map_or(0, |(revision, _)| *revision);
        let mut ledger = Ledger { events, seen, acknowledged, ..Ledger::default() };
        ledger.advance();
        ledger
    }

    /// Lines that transfer this ledger to another one.
    pub(crate) fn lines(&self) -> Vec<String> {
        let writes =
            |writes: &[LedgerEvent]| writes.iter().map(|event| format!(" {event}")).collect::<String>();
        // Each acknowledged write is its own commit, of a writer that never writes again.
        let mut lines = Vec::new();
        for (n, (revision, event)) in self.events.iter().enumerate() {
            lines.push(format!("T {} {n} {event}", u64::MAX));
            lines.push(format!("A {} {n} {revision}", u64::MAX));
        }
        for (writer, (n, open)) in &self.open {
            lines.push(format!("T {writer} {n}{}", writes(open)));
        }
        lines.push(format!("W {}", self.seen));
        lines
    }

    /// A head below this revision means that writes were lost.
    pub(crate) fn lowest_head(&self) -> u64 {
        self.seen.max(self.events.last_key_value().map_or(0, |(revision, _)| *revision))
    }

    /// The events up to the head of a store: the acknowledged ones, and the others from `found`. The latter must be complete requested
    /// commits. At or before `oldest`, the history is compacted, so that `gone` is the only sign of a delete.
    pub(crate) fn settled(
        &self,
        found: &BTreeMap<u64, LedgerEvent>,
        head: u64,
        oldest: u64,
        gone: impl Fn(&str) -> bool,
    ) -> Result<BTreeMap<u64, LedgerEvent>, String> {
        if head < self.lowest_head() {
            return Err(format!("the head is {head}, but revision {} was reported", self.lowest_head()));
        }
        let mut events = self.events.clone();
        for (revision, found) in found {
            if let Some(event) = events.get(revision)
                && event != found
            {
                return Err(format!("revision {revision} is {found}, but {event} was acknowledged"));
            }
        }
        let is = |revision: u64, write: &LedgerEvent| match found.get(&revision) {
            Some(found) => found == write,
            None => revision <= oldest && write.tag.is_none() && gone(&write.key),
        };
        let mut open: Vec<_> = self.open.values().map(|(_, writes)| &**writes).collect();
        let mut furthest = self.floor + 1;
        if !place(&mut events, &mut open, self.floor + 1, head, &is, &mut furthest) {
            let there = found.get(&furthest).map_or("missing".to_owned(), LedgerEvent::to_string);
            return Err(format!(
                "revision {furthest} (of {oldest}..{head}) is {there}, and no whole commit of these was asked for: {open:?}"
            ));
        }
        if events.last_key_value().is_some_and(|(last, _)| *last > head) {
            return Err(format!("a commit is there in part at the head {head}"));
        }
        Ok(events)
    }

    fn advance(&mut self) {
        while let Some(event) = self.events.get(&(self.floor + 1)) {
            self.floor += 1;
            write(&mut self.records, self.floor, event);
        }
    }
}

/// Adds commits of `open` to `events`, so that every revision up to the head has an event. A compacted delete leaves no trace and can be
/// a part of several commits, so that this tries all of them. Returns false and changes nothing if there is no solution; `furthest` is
/// then the highest revision without a commit.
fn place(
    events: &mut BTreeMap<u64, LedgerEvent>,
    open: &mut Vec<&[LedgerEvent]>,
    from: u64,
    head: u64,
    is: &dyn Fn(u64, &LedgerEvent) -> bool,
    furthest: &mut u64,
) -> bool {
    let Some(revision) = (from..=head).find(|revision| !events.contains_key(revision)) else { return true };
    *furthest = revision.max(*furthest);
    for at in 0..open.len() {
        let writes = open[at];
        let next = revision + writes.len() as u64;
        let fits = (revision..).zip(writes).all(|(at, write)| !events.contains_key(&at) && is(at, write));
        if !fits {
            continue;
        }
        open.remove(at);
        events.extend((revision..).zip(writes.iter().cloned()));
        if place(events, open, next, head, is, furthest) {
            return true;
        }
        (revision..next).for_each(|revision| drop(events.remove(&revision)));
        open.insert(at, writes);
    }
    false
}

/// Applies an event to the records.
pub(crate) fn write(records: &mut Records, revision: u64, event: &LedgerEvent) {
    match &event.tag {
        None => {
            records.remove(&event.key);
        }
        Some(tag) => {
            let create = records.get(&event.key).map_or(revision, |there| there.create);
            let should = Should { tag: tag.clone(), create, modified: revision };
            records.insert(event.key.clone(), should);
        }
    }
}

/// The checksum of the records that an opening process reports.
pub(crate) fn digest(records: &Records) -> u32 {
    records.iter().fold(0, |crc, (key, should)| {
        let Should { tag, create, modified } = should;
        crc32c::crc32c_append(crc, format!("{key}={tag} {create} {modified}\n").as_bytes())
    })
}

fn parse_event(word: &str) -> Option<LedgerEvent> {
    let (key, tag) = word.split_once('=')?;
    Some(LedgerEvent { key: key.to_owned(), tag: (tag != "-").then(|| tag.to_owned()) })
}

impl std::fmt::Display for LedgerEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.key, self.tag.as_deref().unwrap_or("-"))
    }
}

#[test]
fn ledger_rejects_contradictory_reports() {
    let story = |lines: &[&str]| {
        let mut ledger = Ledger::default();
        lines.iter().try_for_each(|line| ledger.take(line))
    };
    let a = ["T 1 1 a=x b=y", "T 2 1 c=z", "A 2 1 1"];
    let with = |more: &[&str]| story(&[&a, more].concat());
    let crc = |records: &[(&str, &str, u64)]| {
        let records = records.iter().map(|(key, tag, revision)| {
            let should = Should { tag: (*tag).to_owned(), create: *revision, modified: *revision };
            ((*key).to_owned(), should)
        });
        digest(&records.collect())
    };
    let one = format!("R 1 1 {}", crc(&[("c", "z", 1)]));
    let three = format!("R 3 3 {}", crc(&[("a", "x", 2), ("b", "y", 3), ("c", "z", 1)]));
    let compacted = format!("R 6 2 {}", crc(&[("c", "z", 1), ("d", "w", 5)]));
    for (name, lines, wanted) in [
        ("1 the open commit is not there", vec!["O 1 0", "E 1 c=z", &one], true),
        ("2 the open commit is there", vec!["O 3 0", "E 1 c=z", "E 2 a=x", "E 3 b=y", &three], true),
        ("3 it is there in part", vec!["O 2 0", "E 1 c=z", "E 2 a=x", "R 2 2 0"], false),
        ("4 an acknowledged one is lost", vec!["O 0 0"], false),
        ("5 an acknowledged one is another", vec!["O 1 0", "E 1 c=y", &one], false),
        ("6 never written", vec!["O 2 0", "E 1 c=z", "E 2 d=x", "R 2 2 0"], false),
        ("7 a revision is used twice", vec!["A 1 1 2"], false),
        ("8 the records are others", vec!["O 1 0", "E 1 c=z", "R 1 1 7"], false),
        ("9 what was seen is lost", vec!["W 2", "O 1 0"], false),
        (
            "10 compacted deletes are of the only commits that fit",
            vec!["A 1 1 3", "T 1 2 a=-", "T 2 2 b=- d=w", "O 6 6", "E 1 c=z", "E 5 d=w", &compacted],
            true,
        ),
        (
            "11 a commit is missing between compacted deletes",
            vec!["A 1 1 3", "T 1 2 a=-", "T 2 2 b=- d=w", "O 7 7", "E 1 c=z", "E 6 d=w", "R 7 2 0"],
            false,
        ),
    ] {
        assert_eq!(with(&lines).is_ok(), wanted, "{name}: {:?}", with(&lines));
    }
}
