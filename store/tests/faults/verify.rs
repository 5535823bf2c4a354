//! Verification of an existing store against the ledger: nothing is lost, nothing is there that was never
//! written, and the store accepts writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use orlop_store::{Embedded, Expect, Key, Kv, Op, Options, Retention, Revision, WatchError, Write};
use rand::Rng as _;
use rand::rngs::StdRng;

use crate::ledger::{Ledger, LedgerEvent, Records, write};
use crate::load::{TOPICS, options, tag_of, value_of};

/// The time limit for an open, a read or a close.
const PATIENCE: Duration = Duration::from_secs(100);

macro_rules! check {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}

/// Options without compaction, which would disturb the reads.
fn quiet() -> Options {
    let retention = Retention { revisions: 1 << 60, ..Retention::default() };
    Options { retention, ..options() }
}

/// Opens the store, compares everything, writes more, and closes. Returns the ledger with the new writes.
pub(crate) async fn verify(dir: &Path, ledger: &Ledger, random: &mut StdRng) -> Result<Ledger, String> {
    let path = dir.to_owned();
    let opening = tokio::task::spawn_blocking(move || Embedded::<()>::open(path, quiet()));
    let opened = tokio::time::timeout(PATIENCE, opening).await.map_err(|_| "opening hangs")?;
    let store = opened.map_err(|error| format!("opening panics: {error}"))?;
    let store = store.map_err(|error| format!("the store does not open: {error}"))?;
    let checked = tokio::time::timeout(PATIENCE, check(&store, ledger, random)).await;
    let after = checked.map_err(|_| "reading hangs".to_owned())?;
    tokio::time::timeout(PATIENCE, store.close()).await.map_err(|_| "closing hangs")?;
    after
}

async fn check(store: &Embedded<()>, ledger: &Ledger, random: &mut StdRng) -> Result<Ledger, String> {
    let head = store.head().revision().0;
    let oldest = store.oldest().0;
    check!(oldest <= head, "{oldest} is the oldest, but {head} the newest");

    // The records at the oldest revision, and all events after it in order.
    let begin = store.at(Revision(oldest), "").await.map_err(|error| error.to_string())?;
    let mut found: BTreeMap<u64, LedgerEvent> = BTreeMap::new();
    for record in begin.range("", None) {
        let event = LedgerEvent { key: record.key.to_string(), tag: Some(tag_of(&record.value)?) };
        found.insert(record.mod_revision.0, event);
    }
    let mut chain = Vec::new();
    let mut watcher = store.watch("", Revision(oldest)).map_err(|error| error.to_string())?;
    let mut at = oldest;
    while at < head {
        for event in watcher.next().await.map_err(|error| error.to_string())? {
            check!(event.revision.0 == at + 1, "revision {} follows {at}", event.revision);
            at += 1;
            let tag = event.record.as_ref().map(|record| tag_of(&record.value)).transpose()?;
            found.insert(at, LedgerEvent { key: event.key.to_string(), tag });
            chain.push(event);
        }
    }
    let events = ledger.settled(&found, head, oldest, |key| begin.get(key).is_none())?;

    // Each event has replaced the record in the ledger, and the records follow from the events.
    let mut records = Records::new();
    let mut past = None;
    let chosen = random.random_range(oldest..=head);
    let mut chain = chain.into_iter().peekable();
    for revision in 0..=head {
        if let Some(acknowledged) = events.get(&revision) {
            if let Some(event) = chain.next_if(|event| event.revision.0 == revision) {
                let should = records.get(&acknowledged.key).map(|there| (there.create, there.modified));
                let prev = event.prev.as_ref().map(|prev| (prev.create_revision.0, prev.mod_revision.0));
                // Records dropped by a snapshot are unknown.
                let forgotten = prev.is_none() && should.is_some_and(|(_, modified)| modified <= oldest);
                check!(prev == should || forgotten, "{revision} replaced {prev:?}, not {should:?}");
            }
            write(&mut records, revision, acknowledged);
        }
        if revision == chosen {
            past = Some(records.clone());
        }
    }
    same(&store.head(), &records).map_err(|what| format!("the head {head}: {what}"))?;
    let at = store.at(Revision(chosen), "").await.map_err(|error| error.to_string())?;
    same(&at, &past.unwrap_or_default()).map_err(|what| format!("the past at {chosen} of {head}: {what}"))?;
    for key in records.keys().take(5) {
        history(store, key, oldest, &events).await?;
    }
    for prefix in TOPICS {
        match store.watch(prefix, Revision(0)) {
            Ok(_) => check!(oldest == 0, "a watch from 0 starts, but {oldest} is the oldest"),
            Err(WatchError::Expired { oldest: reported, .. }) => {
                check!(
                    oldest > 0 && reported.0 >= oldest,
                    "a watch from 0 is expired, but {oldest} is the oldest"
                );
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    write_on(store, ledger, events, head).await
}

fn same(snapshot: &orlop_store::Snapshot<()>, should: &Records) -> Result<(), String> {
    let mut there = 0;
    for record in snapshot.range("", None) {
        let key = record.key.as_str();
        let Some(should) = should.get(key) else { return Err(format!("{key} is there and should not be")) };
        let tag = tag_of(&record.value).map_err(|error| format!("{key}: {error}"))?;
        let is = (&tag, record.create_revision.0, record.mod_revision.0);
        check!(is == (&should.tag, should.create, should.modified), "{key} is {is:?}, not {should:?}");
        there += 1;
    }
    check!(there == should.len(), "there are {there} records and should be {}", should.len());
    Ok(())
}

/// Checks that the history of one key has all events after the oldest revision; older events must match too.
async fn history(
    store: &Embedded<()>,
    key: &str,
    oldest: u64,
    events: &BTreeMap<u64, LedgerEvent>,
) -> Result<(), String> {
    let history = store.history(&Key::new(key), usize::MAX).await.map_err(|error| error.to_string())?;
    for event in &history {
        let tag = event.record.as_ref().map(|record| tag_of(&record.value)).transpose()?;
        let should = events.get(&event.revision.0).filter(|should| should.key == key && should.tag == tag);
        check!(should.is_some(), "the history of {key} tells {event:?}");
    }
    let revisions: Vec<u64> =
        history.iter().map(|event| event.revision.0).filter(|at| *at > oldest).collect();
    let after = events.range(oldest + 1..).rev();
    let should: Vec<u64> =
        after.filter(|(_, event)| event.key == key).map(|(revision, _)| *revision).collect();
    check!(revisions == should, "the history of {key} is {revisions:?}, not {should:?}");
    Ok(())
}

/// Writes three more records, whose revisions must be consecutive and never reported before.
async fn write_on(
    store: &Embedded<()>,
    ledger: &Ledger,
    mut events: BTreeMap<u64, LedgerEvent>,
    head: u64,
) -> Result<Ledger, String> {
    for n in 1..=3 {
        let (key, tag) = (format!("{}after-{n}", TOPICS[0]), format!("after.{head}.{n}"));
        let there = store.head().get(&key).map(|record| record.mod_revision);
        let expect = there.map_or(Expect::Absent, Expect::Revision);
        let op = Op::Put { value: value_of(&tag), view: () };
        let done = store.commit(vec![Write { key: Key::new(key.clone()), expect, op }]).await;
        let revision = done.map_err(|error| format!("a write is not taken: {error}"))?.revision().0;
        check!(revision == head + n, "revision {revision} is given, {} was due", head + n);
        check!(revision > ledger.lowest_head(), "revision {revision} was used before");
        events.insert(revision, LedgerEvent { key, tag: Some(tag) });
    }
    Ok(Ledger::of(events, ledger.acknowledged))
}
