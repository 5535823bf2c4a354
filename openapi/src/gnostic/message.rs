//! A protobuf message under construction.

use serde_json::{Map, Value};

/// A message under construction.
#[derive(Default)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
}

impl Message {
    /// `Any` with YAML in it; JSON is valid YAML.
    pub(super) fn yaml(value: &Value) -> Self {
        let mut any = Message::default();
        any.bytes(2, format!("{value}\n").as_bytes());
        any
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
    }

    pub(super) fn bytes(&mut self, number: u32, content: &[u8]) {
        self.varint(u64::from(number) << 3 | 2);
        self.varint(content.len() as u64);
        self.bytes.extend_from_slice(content);
    }

    /// Appends a string field; omits it if the value is not a string.
    pub(super) fn text(&mut self, number: u32, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(number, text.as_bytes());
        }
    }

    /// Appends an integer or boolean field.
    pub(super) fn integer(&mut self, number: u32, value: u64) {
        self.varint(u64::from(number) << 3);
        self.varint(value);
    }

    /// Appends a field of type double.
    pub(super) fn double(&mut self, number: u32, value: f64) {
        self.varint(u64::from(number) << 3 | 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn message(&mut self, number: u32, message: Message) {
        self.bytes(number, &message.bytes);
    }

    /// `{1: name, 2: value}`, gnostic's ordered representation of a map entry.
    pub(super) fn named(&mut self, number: u32, name: &str, value: Message) {
        let mut entry = Message::default();
        entry.bytes(1, name.as_bytes());
        entry.message(2, value);
        self.message(number, entry);
    }

    /// A message with this one as its only field.
    pub(super) fn within(self, number: u32) -> Message {
        let mut outer = Message::default();
        outer.message(number, self);
        outer
    }
}

/// Returns the members of an object; empty for any other value.
pub(super) fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}
