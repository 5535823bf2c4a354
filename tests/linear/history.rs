//! The recorded history: operations with their start and end, and every stream of every watcher.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Nanoseconds of a monotonic clock since the history began.
pub(crate) type At = u64;
pub(crate) type Revision = u64;

/// One version of an object, with the fields that the rules use; `sum` covers everything except the revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// `secrets/NAMESPACE/NAME`, `persistentvolumes/NAME`.
    pub(crate) key: String,
    pub(crate) revision: Revision,
    pub(crate) uid: String,
    /// Unique to each write.
    pub(crate) value: String,
    /// The label that selectors match.
    pub(crate) color: String,
    /// Whether it has finalizers.
    pub(crate) held: bool,
    pub(crate) deleting: bool,
    pub(crate) sum: u64,
}

/// The annotation with the value.
pub(crate) const VALUE: &str = "value";
/// The label with the color.
pub(crate) const COLOR: &str = "color";

impl State {
    /// The state in an answer, an item or an event; `resource` is the first part of the key.
    pub(crate) fn of(resource: &str, object: &Value) -> State {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        let key = if namespace.is_empty() {
            format!("{resource}/{name}")
        } else {
            format!("{resource}/{namespace}/{name}")
        };
        State {
            key,
            revision: revision(object),
            uid: text(&metadata["uid"]),
            value: text(&metadata["annotations"][VALUE]),
            color: text(&metadata["labels"][COLOR]),
            held: metadata["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()),
            deleting: metadata["deletionTimestamp"].is_string(),
            sum: sum(object),
        }
    }
}

/// The revision of an object or a list; 0 if it has none, which every rule rejects.
pub(crate) fn revision(object: &Value) -> Revision {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A hash of the whole object, except for the type and the revision, which differ between lists and events.
fn sum(object: &Value) -> u64 {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
    }
    let mut text = String::new();
    sorted(&object, &mut text);
    // FNV-1a: the same value in every build, so that saved histories remain readable.
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<_, _> = map.iter().collect();
            for (name, value) in ordered {
                text.push_str(name);
                text.push(':');
                sorted(value, text);
                text.push(';');
            }
        }
        Value::Array(items) => {
            for item in items {
                sorted(item, text);
                text.push(',');
            }
        }
        other => text.push_str(&other.to_string()),
    }
}

/// The selector of a list or a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Selector {
    Everything,
    Color(String),
    NotColor(String),
    Name(String),
    NotName(String),
}

impl Selector {
    pub(crate) fn matches(&self, key: &str, color: &str) -> bool {
        let name = key.rsplit('/').next().unwrap_or_default();
        match self {
            Selector::Everything => true,
            Selector::Color(wanted) => color == wanted,
            Selector::NotColor(wanted) => color != wanted,
            Selector::Name(wanted) => name == wanted,
            Selector::NotName(wanted) => name != wanted,
        }
    }

    pub(crate) fn takes(&self, state: &State) -> bool {
        self.matches(&state.key, &state.color)
    }

    /// Its part of the query, with a leading `&`.
    pub(crate) fn query(&self) -> String {
        match self {
            Selector::Everything => String::new(),
            Selector::Color(color) => format!("&labelSelector={COLOR}%3D{color}"),
            Selector::NotColor(color) => format!("&labelSelector={COLOR}%21%3D{color}"),
            Selector::Name(name) => format!("&fieldSelector=metadata.name%3D{name}"),
            Selector::NotName(name) => format!("&fieldSelector=metadata.name%21%3D{name}"),
        }
    }
}

/// The requested state of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wants {
    Newest,
    NotOlder(Revision),
    Exact(Revision),
    /// The state of the first page.
    Page(Revision),
}

/// The form of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    Put,
    Merge,
    Json,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ask {
    Create {
        key: String,
        value: String,
        color: String,
        held: bool,
    },
    Get {
        key: String,
        at_least: Revision,
    },
    Write {
        key: String,
        form: Form,
        value: String,
        color: String,
        /// Whether the object has finalizers afterwards; `None` leaves them unchanged.
        hold: Option<bool>,
        /// Precondition: this revision.
        expect: Option<Revision>,
        /// Precondition: this value.
        test: Option<String>,
    },
    Delete {
        key: String,
        uid: Option<String>,
        expect: Option<Revision>,
    },
    DeleteAll {
        prefix: String,
        selector: Selector,
    },
    List {
        prefix: String,
        selector: Selector,
        wants: Wants,
        /// Only keys after this one.
        after: Option<String>,
        /// 0 for no limit.
        limit: usize,
    },
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Object(State),
    /// The operation removed the object; `last` is its last state, if the answer contains it.
    Gone {
        uid: String,
        last: Option<State>,
    },
    Listed {
        revision: Revision,
        items: Vec<State>,
        more: bool,
        remaining: Option<u64>,
    },
    /// The operation had no effect, for this reason.
    Refused {
        code: u16,
        reason: String,
    },
    /// A broken connection, or a 5xx: the operation may have taken effect, may still do so, or never will.
    Unknown(String),
}

/// One operation of one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) client: u32,
    pub(crate) start: At,
    pub(crate) end: At,
    /// Method and path, for messages.
    pub(crate) request: String,
    pub(crate) ask: Ask,
    pub(crate) outcome: Outcome,
}

impl Operation {
    /// Whether it is known to have changed the state.
    pub(crate) fn changed(&self) -> bool {
        match (&self.ask, &self.outcome) {
            (Ask::Create { .. } | Ask::Write { .. } | Ask::Delete { .. }, Outcome::Object(_))
            | (_, Outcome::Gone { .. }) => true,
            (Ask::DeleteAll { .. }, Outcome::Listed { items, .. }) => !items.is_empty(),
            (
                _,
                Outcome::Object(_) | Outcome::Listed { .. } | Outcome::Refused { .. } | Outcome::Unknown(_),
            ) => false,
        }
    }
}

/// The start of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum From {
    /// With all existing objects, at this revision or a later one.
    Initial(Revision),
    /// After a revision.
    After(Revision),
    /// With the next change, without a revision.
    Now,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum What {
    Event(Change, State),
    Bookmark {
        revision: Revision,
        initial_end: bool,
    },
    /// An ERROR event with this code.
    Failed(u64),
}

/// One line of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamLine {
    pub(crate) at: At,
    pub(crate) what: What,
}

impl StreamLine {
    /// The revision in this line.
    pub(crate) fn revision(&self) -> Option<Revision> {
        match &self.what {
            What::Event(_, state) => Some(state.revision),
            What::Bookmark { revision, .. } => Some(*revision),
            What::Failed(_) => None,
        }
    }
}

/// One connection of a watcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stream {
    pub(crate) watcher: u32,
    /// It resumes where the watcher's previous stream ended.
    pub(crate) resumed: bool,
    pub(crate) opened: At,
    /// The time at which the response started.
    pub(crate) answered: At,
    pub(crate) request: String,
    pub(crate) prefix: String,
    pub(crate) selector: Selector,
    pub(crate) from: From,
    pub(crate) bookmarks: bool,
    pub(crate) heard: Vec<StreamLine>,
}

/// The whole history.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct History {
    /// The revision before the first operation.
    pub(crate) begin: Revision,
    /// The number of newest revisions that are always retained.
    pub(crate) retention: Revision,
    /// The watchers whose streams together form the log: all objects of every kind.
    pub(crate) recorders: Vec<u32>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) streams: Vec<Stream>,
    /// The objects behind the sums.
    pub(crate) objects: BTreeMap<u64, Value>,
}
