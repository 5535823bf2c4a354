//! What is recorded: operations with the instants between which they took place, and every stream of every watcher.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Nanoseconds of a monotonic clock since the history began.
pub(crate) type At = u64;
pub(crate) type Revision = u64;

/// One version of an object, as far as rules name its parts; `sum` stands for all of it but the revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// `configmaps/NAMESPACE/NAME`, `persistentvolumes/NAME`.
    pub(crate) key: String,
    pub(crate) revision: Revision,
    pub(crate) uid: String,
    /// Every write has one of its own.
    pub(crate) value: String,
    /// What selectors ask for.
    pub(crate) color: String,
    /// It has finalizers.
    pub(crate) held: bool,
    pub(crate) deleting: bool,
    pub(crate) sum: u64,
}

/// The annotation with the value.
pub(crate) const VALUE: &str = "value";
/// The label with the color.
pub(crate) const COLOR: &str = "color";

impl State {
    /// What an answer, an item or an event shows; `resource` is the first part of the key.
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

/// The revision of an object or a list; 0 for what has none, which no rule lets pass.
pub(crate) fn revision(object: &Value) -> Revision {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A number for everything that an object says, but for what differs between a list and an event: its type and revision.
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
    // FNV-1a: the same number in every build, so that kept histories stay readable.
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

/// What a list or a watch selects.
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

    /// Its part of a query, with `&` in front.
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

/// Which state a list is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wants {
    Newest,
    NotOlder(Revision),
    Exact(Revision),
    /// The state of the first page.
    Page(Revision),
}

/// How a write says what it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    Put,
    Merge,
    Json,
}

/// What is asked.
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
        /// Finalizers afterwards; `None` leaves them.
        hold: Option<bool>,
        /// Only over this revision.
        expect: Option<Revision>,
        /// Only over this value.
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
        /// Only keys behind this one.
        after: Option<String>,
        /// 0 for all.
        limit: usize,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Object(State),
    /// The object is gone by this operation; what was shown of it last, where it was shown.
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
    /// It has not happened, and this is why.
    Refused {
        code: u16,
        reason: String,
    },
    /// The connection broke, or a 5xx: it may have happened, may happen still, or never will.
    Unknown(String),
}

/// One operation of one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) client: u32,
    pub(crate) start: At,
    pub(crate) end: At,
    /// Method and path, for people.
    pub(crate) request: String,
    pub(crate) ask: Ask,
    pub(crate) outcome: Outcome,
}

impl Operation {
    /// Whether it is known to have changed something.
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

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum From {
    /// With everything there is, at this revision or a later one.
    Initial(Revision),
    /// Behind a revision.
    After(Revision),
    /// With what happens next, and no revision was named.
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
pub(crate) struct Heard {
    pub(crate) at: At,
    pub(crate) what: What,
}

impl Heard {
    /// The revision that whoever heard this knows of.
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
    /// It goes on where the watcher's stream before it ended.
    pub(crate) resumed: bool,
    pub(crate) opened: At,
    /// When the answer began.
    pub(crate) answered: At,
    pub(crate) request: String,
    pub(crate) prefix: String,
    pub(crate) selector: Selector,
    pub(crate) from: From,
    pub(crate) bookmarks: bool,
    pub(crate) heard: Vec<Heard>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct History {
    /// The revision before the first operation.
    pub(crate) begin: Revision,
    /// So many of the newest revisions are always kept.
    pub(crate) retention: Revision,
    /// Watchers whose streams are the log, together: everything of every kind.
    pub(crate) recorders: Vec<u32>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) streams: Vec<Stream>,
    /// What the sums stand for.
    pub(crate) objects: BTreeMap<u64, Value>,
}
