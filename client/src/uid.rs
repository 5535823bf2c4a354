//! UIDs in little memory: millions of map keys are UIDs, and nearly all of them are UUIDs.

use std::fmt;

use uuid::Uuid;

/// The UID of an object. Two UIDs are equal if and only if their texts are equal.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Uid {
    /// A UUID in its canonical form.
    Uuid([u8; 16]),
    /// Any other text.
    Other(Box<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        match Uuid::try_parse(text) {
            // Other notations of a UUID are different texts.
            Ok(uuid) if uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text => {
                Self::Uuid(uuid.into_bytes())
            }
            Ok(_) | Err(_) => Self::Other(text.into()),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(bytes) => Uuid::from_bytes(*bytes).hyphenated().fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_restored_and_only_uuids_are_small() {
        let table = [
            ("a UUID", "1f0c2a4e-9a31-4c55-8d0e-0123456789ab", true),
            ("capitals", "1F0C2A4E-9a31-4c55-8d0e-0123456789ab", false),
            ("no hyphens", "1f0c2a4e9a314c558d0e0123456789ab", false),
            ("braces", "{1f0c2a4e-9a31-4c55-8d0e-0123456789ab}", false),
            ("any text", "uid-c-1", false),
            ("nothing", "", false),
        ];
        for (name, text, small) in table {
            let uid = Uid::from(text);
            assert_eq!(uid.to_string(), text, "{name}");
            assert_eq!(matches!(uid, Uid::Uuid(_)), small, "{name}");
        }
        assert_ne!(Uid::from(table[0].1), Uid::from(table[1].1));
    }
}
