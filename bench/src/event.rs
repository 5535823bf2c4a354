//! Finds names and revisions in the bytes of watch events without parsing them. Pure.
//!
//! An event is one line `{"type":"ADDED","object":{...,"metadata":{"name":...}}}`. The first `name` and
//! `resourceVersion` in the line are the object's own, because every API server writes `metadata` before
//! `spec` and `status`.

use memchr::memmem::Finder;

/// A scanner for events about the objects of one row.
pub(crate) struct Reader {
    named: Finder<'static>,
    version: Finder<'static>,
}

impl Reader {
    /// A scanner for objects whose names are `prefix` and a number.
    pub(crate) fn new(prefix: &str) -> Self {
        let named = format!("\"name\":\"{prefix}");
        Reader {
            named: Finder::new(&named).into_owned(),
            version: Finder::new("\"resourceVersion\":\"").into_owned(),
        }
    }

    /// The number in the object's name; `None` if the object does not belong to the row.
    pub(crate) fn number(&self, event: &[u8]) -> Option<usize> {
        digits(event, self.named.find(event)? + self.named.needle().len())
    }

    /// The resourceVersion of the object.
    pub(crate) fn revision(&self, event: &[u8]) -> Option<u64> {
        let found = digits(event, self.version.find(event)? + self.version.needle().len())?;
        u64::try_from(found).ok()
    }
}

/// Whether the event is an `ADDED` event.
pub(crate) fn is_added(event: &[u8]) -> bool {
    event.starts_with(b"{\"type\":\"ADDED\"")
}

/// Whether the event is an `ERROR` event, which ends the watch.
pub(crate) fn is_error(event: &[u8]) -> bool {
    event.starts_with(b"{\"type\":\"ERROR\"")
}

/// The number that begins at `at`.
fn digits(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = bytes.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit());
    let mut number = None;
    for digit in digits {
        let value = usize::from(digit - b'0');
        number = Some(number.unwrap_or(0usize).checked_mul(10)?.checked_add(value)?);
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_name_and_revision_are_the_objects_own() {
        let reader = Reader::new("b-1-");
        type Case<'a> = (&'a str, &'a str, Option<usize>, Option<u64>, bool);
        let cases: [Case<'_>; 5] = [
            (
                "1 ours",
                r#"{"type":"ADDED","object":{"kind":"X","metadata":{"name":"b-1-0000042","resourceVersion":"77"}}}"#,
                Some(42),
                Some(77),
                true,
            ),
            (
                "2 the first name counts",
                r#"{"type":"MODIFIED","object":{"metadata":{"name":"b-1-7","resourceVersion":"8"},"spec":{"claimRef":{"name":"b-1-9","resourceVersion":"1"}}}}"#,
                Some(7),
                Some(8),
                false,
            ),
            (
                "3 another's",
                r#"{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":"9"}}}"#,
                None,
                Some(9),
                true,
            ),
            ("4 no number", r#"{"type":"ADDED","object":{"metadata":{"name":"b-1-x"}}}"#, None, None, true),
            ("5 nothing", "", None, None, false),
        ];
        for (case, event, number, revision, added) in cases {
            let event = event.as_bytes();
            assert_eq!(
                (reader.number(event), reader.revision(event), is_added(event)),
                (number, revision, added),
                "{case}"
            );
        }
        assert!(is_error(br#"{"type":"ERROR","object":{"code":410}}"#) && !is_error(b"{}"));
    }

    #[test]
    fn too_large_numbers_are_ignored() {
        assert_eq!(digits(b"99999999999999999999999", 0), None);
        assert_eq!(digits(b"12", 9), None);
    }
}
