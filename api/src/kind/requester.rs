//! The user of a request, as objects record it.

use std::collections::BTreeMap;

/// The user that creates an object.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The name.
    pub username: &'a str,
    /// An identifier that outlives renaming; may be empty.
    pub uid: &'a str,
    /// The groups.
    pub groups: &'a [String],
    /// Further attributes from the credentials.
    pub extra: &'a BTreeMap<String, Vec<String>>,
}
