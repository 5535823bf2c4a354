//! The query string of a request.

use std::fmt::Write as _;

use orlop_apimachinery::query::{query_bool, query_int};

use crate::status::ApiError;

/// Query parameters in their original order. The first of repeated parameters counts, except in
/// [`Query::all`].
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the part after the `?`, as Go's `url.Values`: a pair with a semicolon or a bad escape is left out, and the
    /// other pairs count.
    pub fn parse(raw: Option<&str>) -> Self {
        Query(raw.unwrap_or_default().split('&').filter_map(pair).collect())
    }

    /// The text of the query, as Go's `url.Values.Encode`: sorted by name, with all values of a name in their order.
    pub fn encode(&self) -> String {
        let mut pairs: Vec<&(String, String)> = self.0.iter().collect();
        pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut text = String::new();
        for (name, value) in pairs {
            if !text.is_empty() {
                text.push('&');
            }
            escape(name, &mut text);
            text.push('=');
            escape(value, &mut text);
        }
        text
    }

    /// The length of all names and values, bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the parameter is present.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The value of the parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The value; `""` if absent.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A boolean; absent means false.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(query_bool)
    }

    /// An integer; absent is `None`.
    ///
    /// # Errors
    /// 400 if it is not an integer. Like upstream (apimachinery `pkg/runtime/conversion.go`), an empty value is none.
    pub fn int(&self, name: &str) -> Result<Option<i64>, ApiError> {
        self.get(name).map(|text| query_int(text).map_err(ApiError::bad_request)).transpose()
    }
}

fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            // Writing into memory cannot fail.
            byte => _ = write!(out, "%{byte:02X}"),
        }
    }
}

/// A pair of a query; `None` if Go's `url.ParseQuery` leaves it out.
fn pair(text: &str) -> Option<(String, String)> {
    if text.is_empty() || text.contains(';') {
        return None;
    }
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    Some((unescape(key)?, unescape(value)?))
}

/// Decodes `+` and `%XX`; `None` if an escape is incomplete.
fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            byte => byte,
        });
    }
    Some(match String::from_utf8(out) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_parsed_as_in_go() {
        for (case, raw, want) in [
            ("1 pairs in order", "a=1&b=2&a=3", vec![("a", "1"), ("b", "2"), ("a", "3")]),
            ("2 no value", "a&b=", vec![("a", ""), ("b", "")]),
            ("3 escapes", "a%20b=c+d%2Be%c3%a9", vec![("a b", "c d+e\u{e9}")]),
            ("4 a bad escape", "a=%zz&b=2", vec![("b", "2")]),
            ("5 an incomplete escape", "a=1%2&b%=2&c=3", vec![("c", "3")]),
            ("6 a semicolon", "a=1;b=2&c=3", vec![("c", "3")]),
            ("7 an escaped semicolon", "a=1%3Bb", vec![("a", "1;b")]),
            ("8 empty pairs", "&&a=1&", vec![("a", "1")]),
            ("9 more equal signs", "a=b=c&=d", vec![("a", "b=c"), ("", "d")]),
            ("10 no UTF-8", "a=%ff", vec![("a", "\u{fffd}")]),
            ("11 nothing", "", vec![]),
        ] {
            let got = Query::parse(Some(raw)).0;
            let got: Vec<_> = got.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!(got, want, "{case}");
        }
    }

    #[test]
    fn queries_are_encoded_as_in_go() {
        for (raw, want) in [
            ("b=2&a=3&b=1", "a=3&b=2&b=1"),
            ("a&=b", "=b&a="),
            ("a=%20+%2b;x&c=-_.~%2a", "c=-_.~%2A"),
            ("a%3d=%c3%a9+/", "a%3D=%C3%A9+%2F"),
            ("", ""),
        ] {
            assert_eq!(Query::parse(Some(raw)).encode(), want, "{raw}");
        }
    }

    #[test]
    fn empty_number_is_an_error() {
        let number = |raw: &str| Query::parse(Some(raw)).int("limit").map_err(|error| error.message);
        assert_eq!(number(""), Ok(None));
        assert_eq!(number("limit=5&limit=x"), Ok(Some(5)));
        assert_eq!(number("limit="), Err("strconv.ParseInt: parsing \"\": invalid syntax".to_owned()));
    }
}
