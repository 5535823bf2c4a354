//! Decodes objects without their `managedFields`. No controller reads them, and decoded they are most of an object: nested maps,
//! many times the size of the rest. So the decoder skips them instead of building them.
//!
//! A write of such an object contains no `managedFields`, and the server retains the existing ones.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Decodes the JSON of one object without its `managedFields`.
///
/// # Errors
/// Returns an error if the JSON is not an object of the kind, or if bytes follow it.
pub fn from_slice<'de, K: Deserialize<'de>>(json: &'de [u8]) -> serde_json::Result<K> {
    let mut decoder = serde_json::Deserializer::from_slice(json);
    let object = K::deserialize(Part { inner: &mut decoder, level: Level::Object })?;
    decoder.end()?;
    Ok(object)
}

/// The position of a decoder in an object. All other values go directly to the inner decoder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Object,
    Metadata,
}

/// A decoder of an object or of its metadata.
struct Part<D> {
    inner: D,
    level: Level,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Part<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(Part { inner: visitor, level: self.level })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(Part { inner: visitor, level: self.level })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(Part { inner: visitor, level: self.level })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_struct(name, fields, Part { inner: visitor, level: self.level })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct enum identifier ignored_any
    }
}

/// Accepts the shapes that an object and its metadata may have; any other input causes the usual error for a
/// wrong type.
impl<'de, V: Visitor<'de>> Visitor<'de> for Part<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Fields { inner: map, level: self.level, at_metadata: false })
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Part { inner: deserializer, level: self.level })
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }
}

/// The fields of an object or of its metadata.
struct Fields<A> {
    inner: A,
    level: Level,
    /// The next value is the object's metadata.
    at_metadata: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        loop {
            let Some(Key(key)) = self.inner.next_key()? else { return Ok(None) };
            if self.level == Level::Metadata && key == "managedFields" {
                self.inner.next_value::<IgnoredAny>()?;
                continue;
            }
            self.at_metadata = self.level == Level::Object && key == "metadata";
            return seed.deserialize(key.into_deserializer()).map(Some);
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.at_metadata {
            true => self.inner.next_value_seed(Metadata(seed)),
            false => self.inner.next_value_seed(seed),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// Decodes the metadata of an object.
struct Metadata<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Metadata<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Part { inner: deserializer, level: Level::Metadata })
    }
}

/// The name of a field, borrowed from the text if it occurs there unchanged.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor(PhantomData)).map(Key)
    }
}

struct KeyVisitor<'de>(PhantomData<&'de ()>);

impl<'de> Visitor<'de> for KeyVisitor<'de> {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a field")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use k8s_openapi::api::core::v1::{PersistentVolume, Pod};
    use kube::Resource;
    use kube::core::{DynamicObject, PartialObjectMeta};
    use serde_json::{Value, json};

    use super::*;

    fn with_managed_fields() -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}], "name": "pv-1", "resourceVersion": "7",
                "annotations": {"managedFields": "kept", "a\"b": "quoted"}, "labels": {"metadata": "kept"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]},
            "spec": {"capacity": {"storage": "1Gi"}, "csi": {"driver": "d", "volumeHandle": "h",
                "volumeAttributes": {"managedFields": "kept"}}},
            "status": {"phase": "Bound"}})
    }

    /// The result of a plain decoder, with the field removed afterwards.
    fn stripped<K: Resource + serde::de::DeserializeOwned>(value: Value) -> K {
        let mut object: K = serde_json::from_value(value).unwrap();
        assert!(object.meta_mut().managed_fields.take().is_some());
        object
    }

    #[test]
    fn only_managed_fields_are_removed() {
        let text = with_managed_fields().to_string();
        let volume: PersistentVolume = from_slice(text.as_bytes()).unwrap();
        assert_eq!(volume, stripped(with_managed_fields()));
        let found: PartialObjectMeta<DynamicObject> = from_slice(text.as_bytes()).unwrap();
        let wanted: PartialObjectMeta<DynamicObject> = stripped(with_managed_fields());
        assert_eq!((found.metadata, found.types), (wanted.metadata, wanted.types));
    }

    #[test]
    fn accepts_and_rejects_the_same_as_a_plain_decoder() {
        let table = [
            ("without metadata", r#"{"apiVersion":"v1","kind":"Pod"}"#),
            ("null metadata", r#"{"apiVersion":"v1","kind":"Pod","metadata":null}"#),
            ("managed fields without a value", r#"{"metadata":{"managedFields":null,"name":"a"}}"#),
            ("escaped names of fields", r#"{"meta\u0064ata":{"na\u006de":"a"}}"#),
            ("metadata of a wrong type", r#"{"metadata":"text"}"#),
            ("a list for metadata", r#"{"metadata":[]}"#),
            ("no object", r#""text""#),
            ("another kind", r#"{"apiVersion":"v1","kind":"Service","metadata":{}}"#),
            ("cut short", r#"{"metadata":{"name":"a""#),
            ("more than an object", r#"{"metadata":{"name":"a"}} 1"#),
            (
                "unknown fields",
                r#"{"metadata":{"name":"a","b":{"c":[1,2]}},"d":{"metadata":{"managedFields":1}}}"#,
            ),
        ];
        for (name, text) in table {
            let plain = serde_json::from_slice::<Pod>(text.as_bytes()).map_err(|error| error.to_string());
            let found = from_slice::<Pod>(text.as_bytes());
            assert_eq!(found.map_err(|error| error.to_string()), plain, "{name}");
        }
    }
}
