//! Whole lists of a driver, page by page. A driver may give any number of pages, but not the same one twice, and not empty
//! ones for ever.

use std::collections::HashSet;

use crate::driver::Driver;
use crate::error::CallError;
use crate::v1::{ListSnapshotsRequest, ListVolumesRequest, list_snapshots_response, list_volumes_response};

/// More entries than this are no list but a fault.
const MOST: usize = 10_000_000;
/// So many pages without an entry may follow each other: a driver that filters what it lists may have gaps (CSI: a page may
/// hold fewer entries than were asked for), one that only goes on giving tokens has a fault.
const MOST_EMPTY: usize = 100;

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
    /// Pages without an entry since the last one that had any.
    empty: usize,
}

impl<T> Pages<T> {
    fn new(call: &'static str) -> Self {
        Pages { call, entries: Vec::new(), tokens: HashSet::new(), empty: 0 }
    }

    /// Takes a page; answers the token of the next one, if there is one.
    fn take(&mut self, page: Vec<T>, next: String) -> Result<Option<String>, CallError> {
        self.empty = if page.is_empty() { self.empty + 1 } else { 0 };
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

    #[test]
    fn empty_pages_with_ever_new_tokens_end() {
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
    fn an_empty_page_whose_token_repeats_ends() {
        let mut pages = Pages::<u8>::new("ListSnapshots");
        assert!(pages.take(Vec::new(), "a".to_owned()).unwrap().is_some());
        let error = pages.take(Vec::new(), "a".to_owned()).unwrap_err();
        assert!(error.message.contains("do not end"), "{error}");
    }
}
