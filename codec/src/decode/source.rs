//! Reads a document one step at a time, so that the same walk handles text from the wire and documents in
//! memory.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The start of a value.
#[derive(Debug)]
pub(super) enum Token<'a> {
    Null,
    Bool(bool),
    /// The literal, as written.
    Number(Cow<'a, str>),
    String(Cow<'a, str>),
    /// An array; read its items with [`Source::item`].
    Array,
    /// An object; read its members with [`Source::key`].
    Object,
}

/// The document is not valid JSON; the text is upstream's.
#[derive(Debug)]
pub(super) struct SyntaxError(pub(super) String);

/// A document, read sequentially.
pub(super) trait Source<'a> {
    /// Reads the next value. Arrays and objects must then be read to their end, or skipped.
    fn value(&mut self) -> Result<Token<'a>, SyntaxError>;
    /// In an object: reads the next key, or returns `None` at the end.
    fn key(&mut self) -> Result<Option<Cow<'a, str>>, SyntaxError>;
    /// In an array: whether another item follows.
    fn item(&mut self) -> Result<bool, SyntaxError>;

    /// Skips the rest of a value that starts with `token`.
    fn skip(&mut self, token: &Token<'a>) -> Result<(), SyntaxError>;
}

/// A document in memory.
pub(super) struct InMemory {
    next: Option<Value>,
    stack: Vec<Level>,
}

enum Level {
    Array(std::vec::IntoIter<Value>),
    Object(<Map<String, Value> as IntoIterator>::IntoIter),
}

impl InMemory {
    pub(super) fn new(value: Value) -> Self {
        InMemory { next: Some(value), stack: Vec::new() }
    }
}

impl Source<'static> for InMemory {
    fn value(&mut self) -> Result<Token<'static>, SyntaxError> {
        Ok(match self.next.take().unwrap_or_default() {
            Value::Null => Token::Null,
            Value::Bool(value) => Token::Bool(value),
            Value::Number(number) => Token::Number(Cow::Owned(number.to_string())),
            Value::String(text) => Token::String(Cow::Owned(text)),
            Value::Array(items) => {
                self.stack.push(Level::Array(items.into_iter()));
                Token::Array
            }
            Value::Object(members) => {
                self.stack.push(Level::Object(members.into_iter()));
                Token::Object
            }
        })
    }

    fn key(&mut self) -> Result<Option<Cow<'static, str>>, SyntaxError> {
        if let Some(Level::Object(members)) = self.stack.last_mut()
            && let Some((key, value)) = members.next()
        {
            self.next = Some(value);
            return Ok(Some(Cow::Owned(key)));
        }
        self.stack.pop();
        Ok(None)
    }

    fn item(&mut self) -> Result<bool, SyntaxError> {
        if let Some(Level::Array(items)) = self.stack.last_mut()
            && let Some(value) = items.next()
        {
            self.next = Some(value);
            return Ok(true);
        }
        self.stack.pop();
        Ok(false)
    }

    fn skip(&mut self, token: &Token<'static>) -> Result<(), SyntaxError> {
        if matches!(token, Token::Array | Token::Object) {
            self.stack.pop();
        }
        Ok(())
    }
}
