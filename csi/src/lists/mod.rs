//! Complete lists from a driver, page by page. A driver may return any number of pages, but not the same page
//! twice, and not an endless series of empty ones.

use std::collections::HashSet;

use crate::driver::Driver;
use crate::error::CallError;
use crate::v1::{ListSnapshotsRequest, ListVolumesRequest, list_snapshots_response, list_volumes_response};

mod entry_size;

use entry_size::EntrySize;

/// Maximum size of a list in memory, bytes; a longer list is a fault of the driver. An ordinary volume takes about 500 bytes, and an
/// empty one more than 200, although its message has only 2.
const MOST_BYTES: usize = 128 << 20;
/// Maximum number of consecutive pages without an entry. A driver that filters its list may have gaps (CSI: a
/// page may hold fewer entries than requested); one that returns only tokens has a fault.
const MOST_EMPTY: usize = 100;

impl Driver {
    /// Lists all volumes. Volumes created or deleted during the calls may or may not be included.
    ///
    /// # Errors
    /// One of the calls failed, or the pages never end.
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

    /// Lists all snapshots.
    ///
    /// # Errors
    /// As for [`all_volumes`](Self::all_volumes).
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

/// The content of the pages so far.
struct Pages<T> {
    call: &'static str,
    entries: Vec<T>,
    /// The size in memory.
    bytes: usize,
    tokens: HashSet<String>,
    /// Number of empty pages since the last page with an entry.
    empty: usize,
}

impl<T: EntrySize> Pages<T> {
    fn new(call: &'static str) -> Self {
        Pages { call, entries: Vec::new(), bytes: 0, tokens: HashSet::new(), empty: 0 }
    }

    /// Adds a page; returns the token of the next one, if any.
    fn take(&mut self, page: Vec<T>, next: String) -> Result<Option<String>, CallError> {
        self.empty = if page.is_empty() { self.empty + 1 } else { 0 };
        self.bytes += page.iter().map(EntrySize::in_memory).sum::<usize>() + next.len();
        if self.bytes > MOST_BYTES {
            return Err(CallError::broken(format!(
                "{}: the list is larger than {} MiB in memory",
                self.call,
                MOST_BYTES >> 20
            )));
        }
        self.entries.extend(page);
        if next.is_empty() {
            return Ok(None);
        }
        if self.empty > MOST_EMPTY {
            let call = self.call;
            return Err(CallError::broken(format!(
                "{call}: more than {MOST_EMPTY} pages in a row are empty, and each has a token of a next one"
            )));
        }
        if !self.tokens.insert(next.clone()) {
            return Err(CallError::broken(format!("{}: the pages of the list do not end", self.call)));
        }
        Ok(Some(next))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    impl EntrySize for i32 {
        fn in_memory(&self) -> usize {
            size_of::<i32>()
        }
    }

    #[test]
    fn repeated_page_token_is_an_error() {
        let mut pages = Pages::new("ListVolumes");
        assert_eq!(pages.take(vec![1, 2], "2".to_owned()).unwrap().as_deref(), Some("2"));
        assert_eq!(pages.take(vec![3], "3".to_owned()).unwrap().as_deref(), Some("3"));
        let error = pages.take(vec![4], "2".to_owned()).unwrap_err();
        assert!(error.is_uncertain() && error.message.contains("do not end"), "{error}");
        assert_eq!(pages.take(vec![5], String::new()).unwrap(), None);
        assert_eq!(pages.entries, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn too_many_empty_pages_with_new_tokens_are_an_error() {
        let mut pages = Pages::new("ListVolumes");
        let mut number = 0;
        let mut token = || {
            number += 1;
            format!("t{number}")
        };
        for gap in 0..2 {
            for _ in 0..MOST_EMPTY {
                assert!(pages.take(Vec::new(), token()).unwrap().is_some(), "gap {gap}");
            }
            assert!(pages.take(vec![gap], token()).unwrap().is_some(), "an entry ends gap {gap}");
        }
        for _ in 0..MOST_EMPTY {
            assert!(pages.take(Vec::new(), token()).unwrap().is_some());
        }
        assert_eq!(pages.take(Vec::new(), String::new()).unwrap(), None, "the last page may be empty");
        let error = pages.take(Vec::new(), token()).unwrap_err();
        assert!(error.is_uncertain() && error.message.contains("100 pages in a row are empty"), "{error}");
        assert_eq!(pages.entries, [0, 1]);
    }

    #[test]
    fn repeated_token_of_an_empty_page_is_an_error() {
        let mut pages = Pages::<i32>::new("ListSnapshots");
        assert!(pages.take(Vec::new(), "a".to_owned()).unwrap().is_some());
        let error = pages.take(Vec::new(), "a".to_owned()).unwrap_err();
        assert!(error.message.contains("do not end"), "{error}");
    }

    #[test]
    fn list_beyond_the_size_limit_is_an_error() {
        // Of empty entries, which are the smallest messages.
        let page = || vec![list_volumes_response::Entry::default(); 10_000];
        let mut pages = Pages::new("ListVolumes");
        let mut number = 0;
        let error = loop {
            number += 1;
            match pages.take(page(), format!("t{number}")) {
                Ok(_) => assert!(number < 100, "the list has no limit"),
                Err(error) => break error,
            }
        };
        assert!(error.is_uncertain() && error.message.contains("is larger than 128 MiB"), "{error}");
        assert!(pages.entries.len() * size_of::<list_volumes_response::Entry>() <= MOST_BYTES);
        // The last page counts too.
        let mut pages = Pages::new("ListSnapshots");
        let large = crate::v1::Snapshot { snapshot_id: "x".repeat(MOST_BYTES), ..Default::default() };
        let entry = list_snapshots_response::Entry { snapshot: Some(large) };
        assert!(pages.take(vec![entry], String::new()).is_err());
    }
}
