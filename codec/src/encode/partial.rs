//! Reads parts of stored bytes without decoding the rest.
//!
//! Users determine the size of an object, and requests of other users depend on it. [`super::stored`] writes the members in a fixed
//! order: the identity is at the beginning, so reading it costs the same for every object.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// What distinguishes an object from others of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `metadata.uid`; `""` without one.
    pub uid: String,
    /// `metadata.deletionTimestamp`, if deletion has begun.
    pub deletion_timestamp: Option<String>,
}

/// The members of `metadata` that can be large. All of them follow the identity.
const LARGE: [&str; 5] = ["labels", "annotations", "ownerReferences", "finalizers", "managedFields"];

/// Reads the identity of a stored object.
pub fn identity(value: &[u8]) -> Identity {
    let mut identity = Identity::default();
    read(value, Member { name: "metadata", seed: ReadIdentity(&mut identity) });
    identity
}

/// Decodes one member of a stored object, such as `spec`; `None` without it. Skips the members before it.
pub fn member(value: &[u8], name: &str) -> Option<Value> {
    let mut member = None;
    read(value, Member { name, seed: Keep(&mut member) });
    member
}

/// Decodes a member of a member of a stored object, such as `data` and `token`; `None` without it. Skips what is before it.
pub fn nested_member(value: &[u8], outer: &str, name: &str) -> Option<Value> {
    let mut member = None;
    read(value, Member { name: outer, seed: Member { name, seed: Keep(&mut member) } });
    member
}

/// Which parts of a value to decode.
#[derive(Debug)]
pub enum Parts {
    /// The whole value.
    All,
    /// Some members of an object. Any other value becomes null.
    Members(&'static [(&'static str, Parts)]),
}

/// Decodes some parts of a stored object in one pass, and skips the rest; `None` if the bytes are no JSON.
pub fn parts(value: &[u8], parts: &'static Parts) -> Option<Value> {
    parts.deserialize(&mut serde_json::Deserializer::from_slice(value)).ok()
}

/// The range of the value of `metadata` in bytes that [`super::stored`] has written; `None` for others.
pub fn metadata_range(value: &[u8]) -> Option<Range<usize>> {
    const BEFORE: &[u8] = b"{\"metadata\":";
    let rest = value.strip_prefix(BEFORE)?;
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(BEFORE.len()..BEFORE.len() + values.byte_offset())
}

fn read<'de>(value: &'de [u8], seed: impl DeserializeSeed<'de>) {
    // Reading stops early, which is an error: the rest of the object is missing.
    let _ = seed.deserialize(&mut serde_json::Deserializer::from_slice(value));
}

/// Passes one member of an object to a seed, and reads no further.
struct Member<'n, S> {
    name: &'n str,
    seed: S,
}

impl<'de, S: DeserializeSeed<'de, Value = ()>> DeserializeSeed<'de> for Member<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de, Value = ()>> Visitor<'de> for Member<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            if name == self.name {
                return members.next_value_seed(self.seed);
            }
            members.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Keeps a value.
struct Keep<'o>(&'o mut Option<Value>);

impl<'de> DeserializeSeed<'de> for Keep<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        *self.0 = Some(serde::Deserialize::deserialize(deserializer)?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &'static Parts {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self {
            Parts::All => serde::Deserialize::deserialize(deserializer),
            Parts::Members(members) => deserializer.deserialize_any(ReadMembers(members)),
        }
    }
}

/// Decodes members of an object.
struct ReadMembers(&'static [(&'static str, Parts)]);

impl<'de> Visitor<'de> for ReadMembers {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            match self.0.iter().find(|(wanted, _)| *wanted == name) {
                Some((wanted, parts)) => {
                    drop(read.insert((*wanted).to_owned(), members.next_value_seed(parts)?))
                }
                None => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Value::Object(read))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// Reads the identity from `metadata`, up to its first large member after the uid.
struct ReadIdentity<'o>(&'o mut Identity);

impl<'de> DeserializeSeed<'de> for ReadIdentity<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ReadIdentity<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "uid" => self.0.uid = members.next_value()?,
                "deletionTimestamp" => self.0.deletion_timestamp = members.next_value()?,
                // Without the uid, the bytes are those of another program, whose order is unknown.
                large if LARGE.contains(&large) && !self.0.uid.is_empty() => return Ok(()),
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use orlop_api::object::Object;
    use orlop_api::registry::by_resource;
    use serde_json::json;

    use super::*;
    use crate::encode::stored;

    fn pod(metadata: Value) -> Vec<u8> {
        let kind = by_resource("", "v1", "pods").expect("a kind");
        let object = json!({"metadata": metadata, "spec": {"nodeName": "n", "volumes": [{"name": "v"}]}, "status": {"phase": "Running"}});
        stored::encode(kind, &Object::from_value(object)).0.to_vec()
    }

    #[test]
    fn identity_is_that_of_the_decoded_object() {
        let time = "2026-01-01T00:00:00Z";
        let labels = json!({"uid": "no", "deletionTimestamp": "no"});
        for (case, value, uid, deletion_timestamp) in [
            ("1 simple", pod(json!({"name": "a", "uid": "u"})), "u", None),
            (
                "2 terminating",
                pod(json!({"name": "a", "uid": "u", "deletionTimestamp": time, "labels": labels})),
                "u",
                Some(time),
            ),
            (
                "3 no deletion",
                pod(json!({"name": "a", "uid": "u", "creationTimestamp": time, "annotations": labels})),
                "u",
                None,
            ),
            ("4 no uid", pod(json!({"name": "a", "labels": labels})), "", None),
            (
                "5 alphabetical order",
                json!({"metadata": {"annotations": labels, "deletionTimestamp": time, "uid": "u"}})
                    .to_string()
                    .into_bytes(),
                "u",
                Some(time),
            ),
            ("6 escapes", br#"{"metadata":{"uid":"a\"b"}}"#.to_vec(), "a\"b", None),
            ("7 nothing", b"{}".to_vec(), "", None),
            ("8 no object", b"[".to_vec(), "", None),
        ] {
            let want =
                Identity { uid: uid.to_owned(), deletion_timestamp: deletion_timestamp.map(str::to_owned) };
            assert_eq!(identity(&value), want, "{case}");
        }
    }

    /// What follows the identity is never read, so it may be of any size.
    #[test]
    fn identity_is_read_without_the_rest() {
        let value = pod(json!({"name": "a", "uid": "u", "labels": {"a": "b"}, "managedFields": [{}]}));
        let labels = value.windows(8).position(|window| window == b"\"labels\"").expect("it has labels");
        let cut = &value[..labels + 9];
        assert_eq!(identity(cut), Identity { uid: "u".to_owned(), deletion_timestamp: None });
    }

    #[test]
    fn member_is_decoded_alone() {
        let value = pod(json!({"name": "a", "uid": "u"}));
        assert_eq!(member(&value, "spec"), Some(json!({"nodeName": "n", "volumes": [{"name": "v"}]})));
        assert_eq!(member(&value, "data"), None);
        let status = value.windows(8).position(|window| window == b"\"status\"").expect("it has a status");
        assert!(member(&value[..status], "spec").is_some(), "the members after it are not read");
        assert_eq!(member(&value[..status], "status"), None);
        assert_eq!(nested_member(&value, "spec", "nodeName"), Some(json!("n")));
        for (outer, name) in [("spec", "n"), ("status", "nodeName"), ("data", "nodeName")] {
            assert_eq!(nested_member(&value, outer, name), None, "{outer}.{name}");
        }
    }

    #[test]
    fn parts_are_those_of_the_whole_object() {
        const ANNOTATIONS: Parts = Parts::Members(&[("a/b", Parts::All)]);
        const METADATA: Parts = Parts::Members(&[("name", Parts::All), ("annotations", ANNOTATIONS)]);
        const STATUS: Parts = Parts::Members(&[("list", Parts::All)]);
        static PARTS: Parts =
            Parts::Members(&[("metadata", METADATA), ("spec", Parts::All), ("status", STATUS)]);
        for (case, object, want) in [
            (
                "1 members",
                json!({"metadata": {"annotations": {"a/b": "", "c": "d"}, "name": "a", "uid": "u"},
                    "spec": {"b": [{}]}, "status": {"x": 1}}),
                json!({"metadata": {"annotations": {"a/b": ""}, "name": "a"}, "spec": {"b": [{}]}, "status": {}}),
            ),
            (
                "2 no objects",
                json!({"metadata": null, "spec": null, "status": [{"list": 1}]}),
                json!({"metadata": null, "spec": null, "status": null}),
            ),
            (
                "3 other values",
                json!({"metadata": "a", "status": 1.5}),
                json!({"metadata": null, "status": null}),
            ),
            ("4 numbers", json!({"metadata": -1, "status": true}), json!({"metadata": null, "status": null})),
            ("5 escapes", json!({"sp\u{e9}c": 1, "spec": "\"\n"}), json!({"spec": "\"\n"})),
        ] {
            assert_eq!(parts(object.to_string().as_bytes(), &PARTS), Some(want), "{case}");
        }
        assert_eq!(parts(b"{\"spec\": ", &PARTS), None, "6 no JSON");
        assert_eq!(parts(br#"{"\u0073pec": 1}"#, &PARTS), Some(json!({"spec": 1})), "7 an escaped name");
    }
}
