//! Mutations of real input: members of documents change their type, position or size, and bytes are changed,
//! inserted and removed.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A change to a document. Positions are taken modulo the number of values in the document.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Replaces the value at a position.
    Set(usize, Value),
    /// Removes a member.
    Remove(usize),
    /// Replaces the value at the first position with the value at the second.
    Copy(usize, usize),
    /// Wraps the value in nested lists, this many levels deep.
    Wrap(usize, usize),
    /// Appends the first item of a list this many times.
    Repeat(usize, usize),
    /// Adds a member.
    Add(usize, String, Value),
}

/// A change to bytes.
#[derive(Clone, Debug)]
pub(super) enum Cut {
    /// Truncates the input.
    End(usize),
    /// Replaces a byte.
    Byte(usize, u8),
    /// Inserts bytes.
    Insert(usize, Vec<u8>),
    /// Removes a range.
    Remove(usize, usize),
    /// Duplicates a range.
    Twice(usize, usize),
}

/// Values that few fields expect.
fn odd() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1.5),
        json!(1e300),
        json!(""),
        json!("a"),
        json!("\u{0}\u{fffd}\u{1f600}\u{85}"),
        json!("a/b/c"),
        json!("../.."),
        json!("9999999999999999999999Ei"),
        json!("1e1000000"),
        json!(".5"),
        json!("0000-00-00T00:00:00Z"),
        json!("9999-12-31T23:59:60.999999999+23:59"),
        json!("x".repeat(300)),
        json!([]),
        json!([null]),
        json!([[]]),
        json!({}),
        json!({"": null}),
        json!({"$patch": "delete"}),
        json!({"$patch": "replace"}),
        json!({"name": null}),
        json!({"f:a": {"k:{\"name\":1}": {"v:": {}, ".": {}, "i:-1": {}}}}),
    ])
}

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "",
        "name",
        "namespace",
        "uid",
        "spec",
        "status",
        "kind",
        "apiVersion",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "resourceVersion",
        "generateName",
        "managedFields",
        "deletionTimestamp",
        "ownerReferences",
        "finalizers",
        "a.b/c",
        "\u{1f600}",
        "f:",
        "k:{}",
        "volumes",
        "containers",
        "data",
        "capacity",
        "generation",
        "items",
    ])
    .prop_map(str::to_owned)
}

pub(super) fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = 0usize..4096;
    let change = prop_oneof![
        4 => (at.clone(), odd()).prop_map(|(at, value)| Change::Set(at, value)),
        1 => at.clone().prop_map(Change::Remove),
        2 => (at.clone(), at.clone()).prop_map(|(to, from)| Change::Copy(to, from)),
        1 => (at.clone(), 1usize..200).prop_map(|(at, times)| Change::Wrap(at, times)),
        1 => (at.clone(), 1usize..50).prop_map(|(at, times)| Change::Repeat(at, times)),
        3 => (at, key(), odd()).prop_map(|(at, key, value)| Change::Add(at, key, value)),
    ];
    prop::collection::vec(change, 0..5)
}

pub(super) fn cuts() -> impl Strategy<Value = Vec<Cut>> {
    let at = 0usize..8192;
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..8),
        prop::sample::select(vec![
            "\"",
            "{",
            "[",
            "}",
            "]",
            ",",
            ":",
            "\\",
            "\\u0000",
            "\\ud800",
            "&a ",
            "*a",
            "<<: ",
            "!!binary ",
            "---\n",
            "\n",
            "\t",
            "%",
            "%00",
            "%2f",
            "..",
            "(",
            ")",
            " in ",
            "notin",
            "!",
            "=",
            "\u{feff}",
            "\0",
            "1e99999",
            "-",
            "~",
            "/",
            "?",
            "&",
            ";",
            "q=",
            "\u{ff}",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    let cut = prop_oneof![
        1 => at.clone().prop_map(Cut::End),
        3 => (at.clone(), any::<u8>()).prop_map(|(at, byte)| Cut::Byte(at, byte)),
        3 => (at.clone(), piece).prop_map(|(at, piece)| Cut::Insert(at, piece)),
        2 => (at.clone(), 1usize..32).prop_map(|(at, length)| Cut::Remove(at, length)),
        1 => (at, 1usize..200).prop_map(|(at, length)| Cut::Twice(at, length)),
    ];
    prop::collection::vec(cut, 0..4)
}

pub(super) fn change(document: &mut Value, changes: &[Change]) {
    for change in changes {
        apply(document, change);
    }
}

fn apply(document: &mut Value, change: &Change) {
    let count = places(document);
    match change {
        Change::Set(at, value) => *place(document, at % count) = value.clone(),
        Change::Remove(at) => {
            if let Value::Object(members) = place(document, at % count) {
                let name = members.keys().nth(at % members.len().max(1)).cloned().unwrap_or_default();
                members.remove(&name);
            }
        }
        Change::Copy(to, from) => {
            let value = place(document, from % count).clone();
            *place(document, to % count) = value;
        }
        Change::Wrap(at, times) => {
            let place = place(document, at % count);
            for _ in 0..*times {
                *place = Value::Array(vec![place.take()]);
            }
        }
        Change::Repeat(at, times) => {
            if let Value::Array(items) = place(document, at % count)
                && let Some(first) = items.first().cloned()
            {
                items.extend(std::iter::repeat_n(first, *times));
            }
        }
        Change::Add(at, key, value) => {
            let place = place(document, at % count);
            match place {
                Value::Object(members) => {
                    members.insert(key.clone(), value.clone());
                }
                Value::Array(items) => items.push(value.clone()),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                    *place = Value::Object(Map::from_iter([(key.clone(), value.clone())]));
                }
            }
        }
    }
}

/// The number of values in a document, including the document itself.
fn places(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(places).sum(),
        Value::Object(members) => members.values().map(places).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The value with this number, in document order; 0 is the document itself.
fn place(value: &mut Value, at: usize) -> &mut Value {
    if at == 0 {
        return value;
    }
    let mut left = at - 1;
    let children: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(members) => members.values_mut().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    for child in children {
        let count = places(child);
        if left < count {
            return place(child, left);
        }
        left -= count;
    }
    unreachable!("a place beyond the number of places")
}

pub(super) fn cut(bytes: &mut Vec<u8>, cuts: &[Cut]) {
    for cut in cuts {
        let length = bytes.len();
        if length == 0 {
            return;
        }
        let range = |at: usize, count: usize| at % length..(at % length + count).min(length);
        match cut {
            Cut::End(at) => bytes.truncate(at % length),
            Cut::Byte(at, byte) => bytes[at % length] = *byte,
            Cut::Insert(at, piece) => {
                let at = at % length;
                bytes.splice(at..at, piece.iter().copied());
            }
            Cut::Remove(at, count) => {
                bytes.drain(range(*at, *count));
            }
            Cut::Twice(at, count) => {
                let part = bytes[range(*at, *count)].to_vec();
                let at = at % length;
                bytes.splice(at..at, part);
            }
        }
    }
}
