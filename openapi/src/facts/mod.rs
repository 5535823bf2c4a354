//! Facts about the API types that the published JSON schemas omit: the serialization of empty
//! values, how patches merge lists, and protobuf field numbers.
//!
//! The facts are in `types.txt`. A line `@prefix` sets the schema prefix of the lines after it; every
//! other line is a type and its fields, separated by spaces:
//!
//! ```text
//! Type{atomic} field=NUMBER... field=OUTER/INNER...
//! ```
//!
//! After the name: with `{atomic}`, server-side apply owns values of the type as a whole.
//! `OUTER/INNER` are the numbers of a field that is in the type itself in JSON and in a nested message
//! in protobuf, or in one nested deeper (`OUTER/MIDDLE/INNER`). The number is followed by these optional parts, in
//! this order:
//!
//! * presence: no character omits empty values, `?` is a pointer, `!` writes the zero value, `~`
//!   writes `null`;
//! * `+` strategic merge, by the key that follows, or as a set; `&` retains only listed keys;
//! * `[map:a,b]` or `[set]`, the list type of server-side apply; other lists are atomic;
//! * `{atomic}` or `{granular}`, how server-side apply owns this field, regardless of its type.
//!
//! Sources: the struct tags and markers of upstream's `types.go` at 1.36.

mod values;

pub(crate) use values::{document_default, values};

use std::collections::HashMap;

use crate::shape::{ListType, Presence, Strategic};

/// The facts about one type.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TypeFacts {
    /// Server-side apply owns values of the type as a whole.
    pub(crate) atomic: bool,
    /// The facts about its fields, by JSON name.
    pub(crate) fields: HashMap<&'static str, FieldFacts>,
}

/// The facts about one field.
#[derive(Debug, PartialEq)]
pub(crate) struct FieldFacts {
    /// Protobuf number; the number within the innermost message if `outer` has numbers.
    pub(crate) number: u32,
    /// Protobuf numbers of the nested messages that contain the field, the outermost first.
    pub(crate) outer: Vec<u32>,
    /// How an empty value is serialized.
    pub(crate) presence: Presence,
    /// Whether the zero value that is always written is `null`.
    pub(crate) nullable: bool,
    /// Strategic merge, for lists.
    pub(crate) strategic: Strategic,
    /// Strategic merge with `retainKeys`.
    pub(crate) retain_keys: bool,
    /// List type of server-side apply, if it is not atomic.
    pub(crate) list_type: Option<ListType>,
    /// `Some(true)` is `{atomic}`, `Some(false)` is `{granular}`.
    pub(crate) atomic: Option<bool>,
}

/// The facts about every type, by schema name.
pub(crate) fn load() -> HashMap<String, TypeFacts> {
    parse(include_str!("types.txt")).expect("the table is part of the program and a test parses it")
}

fn parse(text: &'static str) -> Result<HashMap<String, TypeFacts>, String> {
    let mut types = HashMap::new();
    let mut prefix = "";
    for (index, line) in text.lines().enumerate() {
        let at = |why: &str| format!("line {}: {why}", index + 1);
        if let Some(name) = line.strip_prefix('@') {
            prefix = name;
            continue;
        }
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let Some(head) = words.next() else { continue };
        let (name, atomic) = match head.strip_suffix("{atomic}") {
            Some(name) => (name, true),
            None => (head, false),
        };
        let mut facts = TypeFacts { atomic, fields: HashMap::new() };
        for word in words {
            let (field, rest) = word.split_once('=').ok_or_else(|| at(word))?;
            let parsed = parse_field(rest).ok_or_else(|| at(word))?;
            if facts.fields.insert(field, parsed).is_some() {
                return Err(at(field));
            }
        }
        if types.insert(format!("{prefix}.{name}"), facts).is_some() {
            return Err(at(name));
        }
    }
    Ok(types)
}

/// Parses a field without its name, such as `2/19?+name&[map:name]{atomic}`.
fn parse_field(text: &'static str) -> Option<FieldFacts> {
    let numbers_end = text.find(|c: char| !c.is_ascii_digit() && c != '/').unwrap_or(text.len());
    let (numbers, mut rest) = text.split_at(numbers_end);
    let (outer, number) = match numbers.rsplit_once('/') {
        Some((outer, number)) => {
            (outer.split('/').map(|part| part.parse().ok()).collect::<Option<_>>()?, number)
        }
        None => (Vec::new(), numbers),
    };
    let mut take = |prefix: char| match rest.strip_prefix(prefix) {
        Some(tail) => {
            rest = tail;
            true
        }
        None => false,
    };
    let (presence, nullable) = if take('?') {
        (Presence::Pointer, false)
    } else if take('!') {
        (Presence::Always, false)
    } else if take('~') {
        (Presence::Always, true)
    } else {
        (Presence::OmitEmpty, false)
    };
    let mut strategic = Strategic::Replace;
    if let Some(tail) = rest.strip_prefix('+') {
        let end = tail.find(['&', '[', '{']).unwrap_or(tail.len());
        strategic = match &tail[..end] {
            "" => Strategic::MergeSet,
            key => Strategic::MergeBy(key.to_owned()),
        };
        rest = &tail[end..];
    }
    let retain_keys = rest.starts_with('&');
    rest = rest.strip_prefix('&').unwrap_or(rest);
    let mut list_type = None;
    if let Some(tail) = rest.strip_prefix('[') {
        let (body, tail) = tail.split_once(']')?;
        list_type = Some(match body.strip_prefix("map:") {
            Some(keys) => ListType::Map(keys.split(',').map(str::to_owned).collect()),
            None if body == "set" => ListType::Set,
            None => return None,
        });
        rest = tail;
    }
    let atomic = match rest {
        "" => None,
        "{atomic}" => Some(true),
        "{granular}" => Some(false),
        _ => return None,
    };
    let number = number.parse().ok()?;
    Some(FieldFacts { number, outer, presence, nullable, strategic, retain_keys, list_type, atomic })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_with_all_parts_is_parsed() {
        let plain = FieldFacts {
            number: 7,
            outer: Vec::new(),
            presence: Presence::OmitEmpty,
            nullable: false,
            strategic: Strategic::Replace,
            retain_keys: false,
            list_type: None,
            atomic: None,
        };
        assert_eq!(parse_field("7"), Some(FieldFacts { ..plain }));
        let full = parse_field("2/19?+name&[map:a,b]{granular}");
        assert_eq!(
            full,
            Some(FieldFacts {
                number: 19,
                outer: vec![2],
                presence: Presence::Pointer,
                nullable: false,
                strategic: Strategic::MergeBy("name".into()),
                retain_keys: true,
                list_type: Some(ListType::Map(vec!["a".into(), "b".into()])),
                atomic: Some(false),
            })
        );
        let set = parse_field("14~+[set]").expect("well formed");
        assert_eq!(set.strategic, Strategic::MergeSet);
        assert_eq!(set.list_type, Some(ListType::Set));
        assert_eq!((set.presence, set.nullable), (Presence::Always, true));
    }

    #[test]
    fn malformed_fields_are_rejected() {
        for text in ["", "x", "1x", "1[foo]", "1[map:a", "1{odd}", "/1", "1/"] {
            assert_eq!(parse_field(text), None, "{text}");
        }
    }

    #[test]
    fn types_table_is_well_formed() {
        let types = parse(include_str!("types.txt")).expect("the table is well formed");
        assert!(types.len() > 200, "{}", types.len());
    }
}
