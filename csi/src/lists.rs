//! Complete lists from a driver, page by page. A driver may return any number of pages, but not the same page
//! twice, and not an endless series of empty ones.

use std::collections::HashSet;

use prost::Message;

use crate::driver::Driver;
use crate::error::CallError;
use crate::v1::{ListSnapshotsRequest, ListVolumesRequest, list_snapshots_response, list_volumes_response};

/// Maximum number of entries; a longer list is a fault of the driver.
const MOST: usize = 10_000_000;
/// Maximum size of all pages of a list, bytes as received. A volume takes about 100 bytes.
const MOST_BYTES: usize = 256 << 20;
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
            match pages.take(page.encoded_len(), page.entries, page.next_token)? {
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
            match pages.take(page.encoded_len(), page.entries, page.next_token)? {
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
    bytes: usize,
    tokens: HashSet<String>,
    /// Number of empty pages since the last page with an entry.
    empty: usize,
}

impl<T> Pages<T> {
    fn new(call: &'static str) -> Self {
        Pages { call, entries: Vec::new(), bytes: 0, tokens: HashSet::new(), empty: 0 }
    }

    /// Adds a page of this many bytes; returns the token of the next one, if any.
    fn take(&mut self, bytes: usize, page: Vec<T>, next: String) -> Result<Option<String>, CallError> {
        self.empty = if page.is_empty() { self.empty + 1 } else { 0 };
        self.entries.extend(page);
        self.bytes += bytes;
        if next.is_empty() {
            return Ok(None);
        }
        if self.empty > MOST_EMPTY {
            let call = self.call;
            return Err(CallError::broken(format!(
                "{call}: more than {MOST_EMPTY} pages in a row are empty, and each has a token of a next one"
            )));
        }
        if self.bytes > MOST_BYTES {
            return Err(CallError::broken(format!(
                "{}: the list is larger than {MOST_BYTES} bytes",
                self.call
            )));
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
    fn repeated_page_token_is_an_error() {
        let mut pages = Pages::new("ListVolumes");
        assert_eq!(pages.take(1, vec![1, 2], "2".to_owned()).unwrap().as_deref(), Some("2"));
        assert_eq!(pages.take(1, vec![3], "3".to_owned()).unwrap().as_deref(), Some("3"));
        let error = pages.take(1, vec![4], "2".to_owned()).unwrap_err();
        assert!(error.is_uncertain() && error.message.contains("do not end"), "{error}");
        assert_eq!(pages.take(1, vec![5], String::new()).unwrap(), None);
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
                assert!(pages.take(1, Vec::new(), token()).unwrap().is_some(), "gap {gap}");
            }
            assert!(pages.take(1, vec![gap], token()).unwrap().is_some(), "an entry ends gap {gap}");
        }
        for _ in 0..MOST_EMPTY {
            assert!(pages.take(1, Vec::new(), token()).unwrap().is_some());
        }
        assert_eq!(pages.take(1, Vec::new(), String::new()).unwrap(), None, "the last page may be empty");
        let error = pages.take(1, Vec::new(), token()).unwrap_err();
        assert!(error.is_uncertain() && error.message.contains("100 pages in a row are empty"), "{error}");
        assert_eq!(pages.entries, [0, 1]);
    }

    #[test]
    fn repeated_token_of_an_empty_page_is_an_error() {
        let mut pages = Pages::<u8>::new("ListSnapshots");
        assert!(pages.take(1, Vec::new(), "a".to_owned()).unwrap().is_some());
        let error = pages.take(1, Vec::new(), "a".to_owned()).unwrap_err();
        assert!(error.message.contains("do not end"), "{error}");
    }

    #[test]
    fn list_beyond_the_size_limit_is_an_error() {
        let mut pages = Pages::<u8>::new("ListSnapshots");
        assert!(pages.take(MOST_BYTES, vec![1], "a".to_owned()).unwrap().is_some());
        let error = pages.take(1, vec![2], "b".to_owned()).unwrap_err();
        assert!(error.is_uncertain() && error.message.contains("is larger than"), "{error}");
    }
}
