//! A strict JSON reader with a depth limit. Its error messages are those of Go's `encoding/json`, which are
//! well known and searchable.
//!
//! It preserves details that a generic parser loses: the literal of a number (`1.0` is not an integer), the
//! order of members, and duplicate members.

use std::borrow::Cow;

use super::source::{Source, SyntaxError, Token};

/// Maximum nesting depth of arrays and objects (upstream: `maxNestingDepth`).
const MAX_DEPTH: usize = 10_000;

/// Reads one JSON document.
pub(super) struct Reader<'a> {
    body: &'a [u8],
    at: usize,
    depth: usize,
    /// Whether the reader is at the start of an array or object.
    first: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Reader { body, at: 0, depth: 0, first: false }
    }

    /// Checks that only whitespace remains.
    pub(super) fn end(&mut self) -> Result<(), SyntaxError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("after top-level value")),
        }
    }

    /// Returns the next byte that is not whitespace, without consuming it.
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.body.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Returns the error about the current byte, or about the end of the text.
    fn unexpected(&self, context: &str) -> SyntaxError {
        match self.body.get(self.at) {
            Some(byte) => SyntaxError(format!("invalid character {} {context}", quote(*byte))),
            None => SyntaxError("unexpected end of JSON input".to_owned()),
        }
    }

    fn begin(&mut self) -> Result<(), SyntaxError> {
        if self.depth >= MAX_DEPTH {
            return Err(self.unexpected("exceeded max depth"));
        }
        self.depth += 1;
        self.at += 1;
        self.first = true;
        Ok(())
    }

    fn finish(&mut self) {
        self.depth -= 1;
        self.at += 1;
        self.first = false;
    }

    /// Advances to the next member or item. At the end it consumes the closing byte and returns `false`.
    fn advance(&mut self, close: u8, context: &str) -> Result<bool, SyntaxError> {
        let next = self.peek();
        if next == Some(close) {
            self.finish();
            return Ok(false);
        }
        if !std::mem::replace(&mut self.first, false) {
            if next != Some(b',') {
                return Err(self.unexpected(context));
            }
            self.at += 1;
        }
        Ok(true)
    }

    fn literal(&mut self, word: &'static str, token: Token<'a>) -> Result<Token<'a>, SyntaxError> {
        for expected in word.bytes() {
            if self.body.get(self.at) != Some(&expected) {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(self.unexpected(&context));
            }
            self.at += 1;
        }
        Ok(token)
    }

    fn digits(&mut self, context: &str) -> Result<(), SyntaxError> {
        if !self.body.get(self.at).is_some_and(u8::is_ascii_digit) {
            return Err(self.unexpected(context));
        }
        while self.body.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Cow<'a, str>, SyntaxError> {
        let start = self.at;
        if self.body[self.at] == b'-' {
            self.at += 1;
        }
        if self.body.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.body.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.body.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.body.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(String::from_utf8_lossy(&self.body[start..self.at]))
    }

    /// Reads the string that starts at the current byte, an opening quote.
    fn string(&mut self) -> Result<Cow<'a, str>, SyntaxError> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.body.get(self.at) {
                Some(b'"') => {
                    let text = String::from_utf8_lossy(&self.body[start..self.at]);
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => return self.escaped_string(start).map(Cow::Owned),
                Some(0..0x20) | None => return Err(self.unexpected("in string literal")),
                Some(_) => self.at += 1,
            }
        }
    }

    /// Reads the rest of a string from the current escape sequence on.
    fn escaped_string(&mut self, start: usize) -> Result<String, SyntaxError> {
        let mut text = String::from_utf8_lossy(&self.body[start..self.at]).into_owned();
        loop {
            let plain = self.at;
            while !matches!(self.body.get(self.at), Some(b'"' | b'\\' | 0..0x20) | None) {
                self.at += 1;
            }
            text.push_str(&String::from_utf8_lossy(&self.body[plain..self.at]));
            match self.body.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut text)?;
                }
                Some(_) | None => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<(), SyntaxError> {
        let plain = match self.body.get(self.at) {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(text),
            Some(_) | None => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        text.push(plain);
        Ok(())
    }

    /// Reads `uXXXX`. An unpaired surrogate becomes U+FFFD, as in Go.
    fn unicode_escape(&mut self, text: &mut String) -> Result<(), SyntaxError> {
        let high = self.hex4()?;
        if (0xd800..0xdc00).contains(&high) && self.body[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 1;
            let low = self.hex4()?;
            if (0xdc00..0xe000).contains(&low) {
                let pair = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                text.push(char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER));
                return Ok(());
            }
            self.at = back;
        }
        text.push(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
        Ok(())
    }

    /// Reads the four hexadecimal digits after the current `u`.
    fn hex4(&mut self) -> Result<u32, SyntaxError> {
        self.at += 1;
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.body.get(self.at).and_then(|byte| char::from(*byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            value = value * 16 + digit;
            self.at += 1;
        }
        Ok(value)
    }
}

impl<'a> Source<'a> for Reader<'a> {
    fn value(&mut self) -> Result<Token<'a>, SyntaxError> {
        match self.peek() {
            Some(b'{') => self.begin().map(|()| Token::Object),
            Some(b'[') => self.begin().map(|()| Token::Array),
            Some(b'"') => self.string().map(Token::String),
            Some(b't') => self.literal("true", Token::Bool(true)),
            Some(b'f') => self.literal("false", Token::Bool(false)),
            Some(b'n') => self.literal("null", Token::Null),
            Some(b'-' | b'0'..=b'9') => self.number().map(Token::Number),
            Some(_) | None => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn key(&mut self) -> Result<Option<Cow<'a, str>>, SyntaxError> {
        if !self.advance(b'}', "after object key:value pair")? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        let key = self.string()?;
        if self.peek() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        self.at += 1;
        Ok(Some(key))
    }

    fn item(&mut self) -> Result<bool, SyntaxError> {
        self.advance(b']', "after array element")
    }

    /// Skips a value. Iterative, because skipped values have no depth limit of their own.
    fn skip(&mut self, token: &Token<'a>) -> Result<(), SyntaxError> {
        let mut open = match token {
            Token::Array => vec![false],
            Token::Object => vec![true],
            Token::Null | Token::Bool(_) | Token::Number(_) | Token::String(_) => return Ok(()),
        };
        while let Some(is_object) = open.last() {
            let more = if *is_object { self.key()?.is_some() } else { self.item()? };
            if !more {
                open.pop();
                continue;
            }
            match self.value()? {
                Token::Array => open.push(false),
                Token::Object => open.push(true),
                Token::Null | Token::Bool(_) | Token::Number(_) | Token::String(_) => {}
            }
        }
        Ok(())
    }
}

/// Formats a byte in single quotes, as Go does.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        7 => r"'\a'".to_owned(),
        8 => r"'\b'".to_owned(),
        11 => r"'\v'".to_owned(),
        12 => r"'\f'".to_owned(),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u00{byte:02x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests;
