//! Field selectors: `metadata.name=a,status.phase!=Running`.
//!
//! Upstream: apimachinery `pkg/fields`. Each kind defines the fields it supports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

/// A list of terms that must all match. The default selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    terms: Vec<Term>,
    /// The terms of each field, merged, so that a selector with thousands of terms looks up each field once.
    rules: BTreeMap<String, FieldRule>,
}

/// The requirement on one field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FieldRule {
    /// The values that it must equal: more than one never match.
    equal: BTreeSet<String>,
    /// The values that it must differ from.
    differ: BTreeSet<String>,
}

/// A comparison of one field with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The field, such as `metadata.name`.
    pub field: String,
    /// Whether the field must equal the value (`true`) or differ from it (`false`).
    pub equal: bool,
    /// The value to compare the field with.
    pub value: String,
}

impl Selector {
    /// Parses a selector; the empty string matches everything.
    ///
    /// # Errors
    /// Returns upstream's error text.
    pub fn parse(text: &str) -> Result<Selector, String> {
        let mut parts = split(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, equal, value)) = comparison(part) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
            };
            terms.push(Term { field: field.to_owned(), equal, value: unescape(value)? });
        }
        Ok(Selector::new(terms))
    }

    fn new(terms: Vec<Term>) -> Selector {
        let mut rules: BTreeMap<String, FieldRule> = BTreeMap::new();
        for Term { field, equal, value } in &terms {
            let rule = rules.entry(field.clone()).or_default();
            let values = if *equal { &mut rule.equal } else { &mut rule.differ };
            values.insert(value.clone());
        }
        Selector { terms, rules }
    }

    /// The terms, sorted by their text.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Returns whether the selector matches everything.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns whether an object matches; `field` returns the value of a field. A field without a value
    /// counts as empty.
    pub fn matches<V: AsRef<str>>(&self, field: impl Fn(&str) -> Option<V>) -> bool {
        self.rules.iter().all(|(name, rule)| {
            let value = field(name);
            let value = value.as_ref().map_or("", AsRef::as_ref);
            rule.equal.iter().all(|wanted| wanted == value) && !rule.differ.contains(value)
        })
    }

    /// Returns the only value of the field that the selector can match, if there is one.
    pub fn requires_exact(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }
}

/// Splits at unescaped commas.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (i, b) in text.bytes().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Splits at the first operator.
fn comparison(part: &str) -> Option<(&str, bool, &str)> {
    let equals = part.find('=')?;
    let (before, after) = (&part[..equals], &part[equals + 1..]);
    if let Some(field) = before.strip_suffix('!') {
        return Some((field, false, after));
    }
    Some((before, true, after.strip_prefix('=').unwrap_or(after)))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                Some(c) => return Err(format!("invalid field selector: invalid escape sequence: \\{c}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            // Upstream prints the character's code point.
            ',' | '=' => {
                let number = u32::from(c);
                return Err(format!("invalid field selector: unescaped character in value: {number}"));
            }
            c => plain.push(c),
        }
    }
    Ok(plain)
}

impl Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{}{}", term.field, if term.equal { "=" } else { "!=" })?;
            for c in term.value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parsed_selectors_format_canonically() {
        for (text, shown) in [
            ("", Ok("")),
            (",", Ok("")),
            ("a=b", Ok("a=b")),
            ("a==b", Ok("a=b")),
            ("a!=b", Ok("a!=b")),
            ("b=1,,a=2", Ok("a=2,b=1")),
            ("a=", Ok("a=")),
            ("=a", Ok("=a")),
            ("a = b", Ok("a = b")),
            (r"a=x\,y\=z\\", Ok(r"a=x\,y\=z\\")),
            ("nonsense", Err("invalid selector: 'nonsense'; can't understand 'nonsense'")),
            ("b=1,x in (a)", Err("invalid selector: 'b=1,x in (a)'; can't understand 'x in (a)'")),
            (
                "metadata.name>a",
                Err("invalid selector: 'metadata.name>a'; can't understand 'metadata.name>a'"),
            ),
            ("a=b=c", Err("invalid field selector: unescaped character in value: 61")),
            (r"a=\n", Err(r"invalid field selector: invalid escape sequence: \n")),
            (r"a=b\", Err(r"invalid field selector: invalid escape sequence: \")),
        ] {
            let read = Selector::parse(text).map(|selector| selector.to_string());
            assert_eq!(read, shown.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn matching() {
        let field = |name: &str| (name == "metadata.name").then_some("a");
        for (text, expected) in [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            ("metadata.name!=b,metadata.name!=c", true),
            ("metadata.name=a,status.phase=x", false),
            ("status.phase=", true),
            ("status.phase!=", false),
        ] {
            assert_eq!(Selector::parse(text).unwrap().matches(field), expected, "{text}");
        }
    }

    #[test]
    fn exact() {
        let selector = Selector::parse("metadata.name=a,b!=c").unwrap();
        assert_eq!(selector.requires_exact("metadata.name"), Some("a"));
        assert_eq!(selector.requires_exact("b"), None);
        assert_eq!(selector.terms().len(), 2);
        assert!(!selector.is_everything() && Selector::default().is_everything());
    }

    proptest! {
        #[test]
        fn formatted_selectors_parse_back(
            terms in prop::collection::vec(("[a-c.]{1,5}", any::<bool>(), "[a-c,=!\\\\ ]{0,4}"), 0..4),
        ) {
            let terms = terms.into_iter().map(|(field, equal, value)| Term { field, equal, value }).collect();
            let selector = Selector::new(terms);
            let again = Selector::parse(&selector.to_string()).unwrap();
            // Parsing sorts the terms, so compare from the second parse on, and compare the meaning.
            prop_assert_eq!(again.terms().len(), selector.terms().len());
            for term in &selector.terms {
                prop_assert!(again.terms.contains(term), "{} lost in {}", term.field, again);
            }
            prop_assert_eq!(&Selector::parse(&again.to_string()).unwrap(), &again);
        }

        #[test]
        fn parsing_never_panics(text in "(\\PC|[a-c,=!\\\\]){0,20}") {
            let _ = Selector::parse(&text);
        }
    }
}
