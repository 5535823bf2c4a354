//! Whole lists of a driver, page by page. A driver may give any number of pages, but not the same one twice.

use std::collections::HashSet;

use crate::driver::Driver;
use crate::error::CallError;
use crate::v1::{ListSnapshotsRequest, ListVolumesRequest, list_snapshots_response, list_volumes_response};

/// More entries than this are no list but a fault.
const MOST: usize = 10_000_000;

impl Driver {
    /// All volumes. What is made or removed meanwhile may be in it or not.
    ///
    /// # Errors
    /// The answer to one of the calls, or pages that never end.
    pub async fn all_volumes(&self) -> Result<Vec<list_volumes_response::Entry>, CallError> {
        let mut pages = Pages::new("ListVolumes");
        let mut starting_token = String::new();
        loop {
            let page = self.list_volumes(ListVolumesRequest { max_entries: 0, starting_token }).await?;
            match pages.take(page.entries, page.next_token)? {
                Some(next) => starting_token = next,
                None => return Ok(pages.entries),
            }
        }
    }

    /// All snapshots.
    ///
    /// # Errors
    /// As [`all_volumes`](Self::all_volumes).
    pub async fn all_snapshots(&self) -> Result<Vec<list_snapshots_response::Entry>, CallError> {
        let mut pages = Pages::new("ListSnapshots");
        let mut starting_token = String::new();
        loop {
            let page =
                self.list_snapshots(ListSnapshotsRequest { starting_token, ..Default::default() }).await?;
            match pages.take(page.entries, page.next_token)? {
                Some(next) => starting_token = next,
                None => return Ok(pages.entries),
            }
        }
    }
}

/// What the pages said so far.
struct Pages<T> {
    call: &'static str,
    entries: Vec<T>,
    tokens: HashSet<String>,
}

impl<T> Pages<T> {
    fn new(call: &'static str) -> Self {
        Pages { call, entries: Vec::new(), tokens: HashSet::new() }
    }

    /// Takes a page; answers the token of the next one, if there is one.
    fn take(&mut self, page: Vec<T>, next: String) -> Result<Option<String>, CallError> {
        self.entries.extend(page);
        if next.is_empty() {
            return Ok(None);
        }
        if self.entries.len() > MOST || !self.tokens.insert(next.clone()) {
            return Err(CallError::broken(format!("{}: the pages of the list do not end", self.call)));
        }
        Ok(Some(next))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn pages_end() {
        let mut pages = Pages::new("ListVolumes");
        assert_eq!(pages.take(vec![1, 2], "2".to_owned()).unwrap().as_deref(), Some("2"));
        assert_eq!(pages.take(vec![3], "3".to_owned()).unwrap().as_deref(), Some("3"));
        let error = pages.take(vec![4], "2".to_owned()).unwrap_err();
        assert!(error.is_uncertain() && error.message.contains("do not end"), "{error}");
        assert_eq!(pages.take(vec![5], String::new()).unwrap(), None);
        assert_eq!(pages.entries, [1, 2, 3, 4, 5]);
    }
}
