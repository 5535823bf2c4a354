//! Lists and maps of which only the beginning is read.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::admission::outcome::{MAX_TEXT, cut};

/// The number of items of a list or a map that are read.
pub(super) const MAX_ITEMS: usize = 64;

/// An item of a list.
pub(super) trait Item {
    /// The item, with texts of limited size.
    fn bounded(self) -> Self;
}

impl Item for String {
    fn bounded(self) -> Self {
        if self.len() > MAX_TEXT { cut(&self, MAX_TEXT).to_owned() } else { self }
    }
}

/// Reads the first items of a list; `null` is an empty one.
pub(super) fn bounded_list<'de, D: Deserializer<'de>, T: Deserialize<'de> + Item>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(ListVisitor(PhantomData))
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Item> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut read = Vec::new();
        while read.len() < MAX_ITEMS {
            match items.next_element::<T>()? {
                Some(item) => read.push(item.bounded()),
                None => return Ok(read),
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(read)
    }
}

/// Reads the first entries of a map of texts; `null` is an empty one.
pub(super) fn bounded_map<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    deserializer.deserialize_any(MapVisitor)
}

struct MapVisitor;

impl<'de> Visitor<'de> for MapVisitor {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of texts")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut read = BTreeMap::new();
        while read.len() < MAX_ITEMS {
            match entries.next_entry::<String, String>()? {
                Some((key, value)) => read.insert(key.bounded(), value.bounded()),
                None => return Ok(read),
            };
        }
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(read)
    }
}
