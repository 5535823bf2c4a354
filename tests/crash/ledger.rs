//! The knowledge of the writers in a crash test: every acknowledged write, and every write with an unknown
//! outcome. Pure bookkeeping: if the server contradicts the ledger, the check panics and shows both.

use std::collections::BTreeMap;

use serde_json::Value;

/// The state of an object as known to its writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownState {
    pub(crate) revision: u64,
    pub(crate) value: String,
}

/// A requested write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Create or update.
    Put(String),
    Delete,
}

/// A write that has happened; the answer to a deletion does not contain its revision.
#[derive(Clone, Debug)]
struct Happened {
    kind: &'static str,
    value: Option<String>,
    revision: Option<u64>,
}

/// The history of one name.
#[derive(Debug, Default)]
struct Item {
    now: Option<KnownState>,
    /// Sent, but the server died before it answered.
    open: Option<Wish>,
    happened: Vec<Happened>,
}

/// The knowledge of the writers.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    items: BTreeMap<String, Item>,
    /// The number of acknowledged writes.
    pub(crate) acknowledged: u64,
    /// The highest revision seen by any writer.
    pub(crate) highest: u64,
}

/// The fields of a watch event that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenEvent {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) revision: u64,
}

/// The revision of an object or a list.
pub(crate) fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no revision in {object:#}"))
}

/// Identifies a state of an object.
pub(crate) fn value(object: &Value) -> String {
    object["data"]["value"].as_str().unwrap_or_default().to_owned()
}

impl KnownState {
    pub(crate) fn of(object: &Value) -> KnownState {
        KnownState { revision: revision(object), value: value(object) }
    }
}

impl SeenEvent {
    pub(crate) fn of(event: &Value) -> SeenEvent {
        let (kind, object) = (event["type"].as_str().unwrap_or_default().to_owned(), &event["object"]);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let value = (kind != "DELETED").then(|| value(object));
        SeenEvent { kind, name, value, revision: revision(object) }
    }
}

impl Ledger {
    /// The current object with this name, and its pending write.
    pub(crate) fn at(&self, name: &str) -> (Option<KnownState>, Option<Wish>) {
        self.items.get(name).map_or((None, None), |item| (item.now.clone(), item.open.clone()))
    }

    /// Records that a write was sent.
    pub(crate) fn sent(&mut self, name: &str, wish: Wish) {
        self.items.entry(name.to_owned()).or_default().open = Some(wish);
    }

    /// Records an acknowledged write and the new state. `floor` is the highest revision that was known when the write
    /// was sent; the new one is above it (I11).
    pub(crate) fn acknowledged(&mut self, name: &str, now: Option<KnownState>, floor: u64) {
        self.acknowledged += 1;
        if let Some(now) = &now {
            assert!(now.revision > floor, "{name}: revision {} after {floor}", now.revision);
        }
        self.settle(name, now);
    }

    /// Records that the server rejected the write and wrote nothing.
    pub(crate) fn refused(&mut self, name: &str) {
        self.items.entry(name.to_owned()).or_default().open = None;
    }

    /// Records the server's state of a name with a pending write: either that write, or the state before it.
    pub(crate) fn resolved(&mut self, name: &str, now: Option<KnownState>) {
        let item = &self.items[name];
        if item.shows_wish(&now) {
            self.settle(name, now);
        } else {
            assert_eq!(
                now, item.now,
                "{name}: neither the last acknowledged state nor the open write: {item:?}"
            );
            self.items.entry(name.to_owned()).or_default().open = None;
        }
    }

    fn settle(&mut self, name: &str, now: Option<KnownState>) {
        self.highest = self.highest.max(now.as_ref().map_or(0, |now| now.revision));
        let item = self.items.entry(name.to_owned()).or_default();
        let kind = match (&item.now, &now) {
            (None, Some(_)) => "ADDED",
            (Some(_), Some(_)) => "MODIFIED",
            (_, None) => "DELETED",
        };
        let (value, revision) =
            (now.as_ref().map(|now| now.value.clone()), now.as_ref().map(|now| now.revision));
        item.happened.push(Happened { kind, value, revision });
        item.now = now;
        item.open = None;
    }

    /// A list after a restart: no acknowledged write is lost, and no object appears that was not written (I4).
    pub(crate) fn check_list(&mut self, list: &Value) {
        assert!(revision(list) >= self.highest, "{} was seen, now it is {}", self.highest, revision(list));
        let mut listed: BTreeMap<&str, KnownState> = BTreeMap::new();
        for object in list["items"].as_array().expect("a list has items") {
            listed.insert(object["metadata"]["name"].as_str().unwrap_or_default(), KnownState::of(object));
        }
        for (name, item) in &self.items {
            let found = listed.remove(name.as_str());
            assert!(found == item.now || item.shows_wish(&found), "{name} is {found:?}, but {item:?}");
        }
        assert!(listed.is_empty(), "no client wrote {listed:?}");
        self.highest = self.highest.max(revision(list));
    }

    /// The whole history: for every name exactly the recorded writes, in this order, and nothing else.
    pub(crate) fn check_history(&self, history: &[SeenEvent]) {
        let mut by_name: BTreeMap<&str, Vec<&SeenEvent>> = BTreeMap::new();
        for event in history {
            by_name.entry(&event.name).or_default().push(event);
        }
        for (name, item) in &self.items {
            assert_eq!(item.open, None, "{name} is settled");
            let seen = by_name.remove(name.as_str()).unwrap_or_default();
            let same = |seen: &&SeenEvent, happened: &Happened| {
                seen.kind == happened.kind
                    && seen.value == happened.value
                    && happened.revision.is_none_or(|revision| revision == seen.revision)
            };
            let all = seen.len() == item.happened.len();
            let fits = all && seen.iter().zip(&item.happened).all(|(seen, happened)| same(seen, happened));
            assert!(fits, "{name}\nhas the history {seen:#?}\nbut was written {:#?}", item.happened);
        }
        assert!(by_name.is_empty(), "no client wrote {by_name:#?}");
    }
}

impl Item {
    fn shows_wish(&self, found: &Option<KnownState>) -> bool {
        match (&self.open, found) {
            (Some(Wish::Put(value)), Some(found)) => {
                found.value == *value && self.now.as_ref().is_none_or(|now| found.revision > now.revision)
            }
            (Some(Wish::Delete), None) => true,
            (Some(Wish::Put(_)), None) | (Some(Wish::Delete), Some(_)) | (None, _) => false,
        }
    }
}

#[test]
fn ledger_accepts_only_possible_states() {
    let known = |revision, value: &str| Some(KnownState { revision, value: value.to_owned() });
    let item = |now, open| Item { now, open, happened: Vec::new() };
    let put = |value: &str| Some(Wish::Put(value.to_owned()));
    let cases = [
        ("1 created unseen", item(None, put("a")), known(1, "a"), true),
        ("2 not created", item(None, put("a")), None, false),
        ("3 another owner's", item(None, put("a")), known(1, "b"), false),
        ("4 updated unseen", item(known(1, "a"), put("b")), known(2, "b"), true),
        ("5 time went back", item(known(3, "a"), put("b")), known(2, "b"), false),
        ("6 deleted unseen", item(known(1, "a"), Some(Wish::Delete)), None, true),
        ("7 lost", item(known(1, "a"), None), None, false),
    ];
    for (name, item, found, wanted) in cases {
        assert_eq!(item.shows_wish(&found), wanted, "{name}");
    }
}
