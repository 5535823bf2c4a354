//! Interns names for the lifetime of the process: metrics, discovery and tables need the names of kinds as static
//! references, and the names of custom kinds come from clients. Each distinct text is stored once, so memory
//! grows with the number of distinct names, not with the number of writes.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::LazyLock;

static NAMES: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// The size of the names after which no definition may add more, bytes. Definitions come and go, their names remain.
const MAX_SIZE: usize = 16 << 20;

#[derive(Default)]
struct Table {
    texts: HashSet<&'static str>,
    lists: HashSet<&'static [&'static str]>,
    size: usize,
}

impl Table {
    fn text(&mut self, text: &str) -> &'static str {
        if let Some(known) = self.texts.get(text) {
            return known;
        }
        let kept: &'static str = Box::leak(text.into());
        self.texts.insert(kept);
        // With the place in the table.
        self.size += kept.len() + 2 * size_of::<&str>();
        kept
    }

    fn list(&mut self, list: &[&str]) -> &'static [&'static str] {
        let list: Vec<&'static str> = list.iter().map(|text| self.text(text)).collect();
        if let Some(known) = self.lists.get(list.as_slice()) {
            return known;
        }
        let kept: &'static [&'static str] = Box::leak(list.into_boxed_slice());
        self.lists.insert(kept);
        self.size += (kept.len() + 2) * size_of::<&str>();
        kept
    }

    fn has_room(&self) -> bool {
        self.size < MAX_SIZE
    }
}

/// Returns the text as a static reference.
pub(crate) fn intern(text: &str) -> &'static str {
    NAMES.lock().text(text)
}

/// Returns the list as a static reference.
pub(crate) fn intern_list(list: &[&str]) -> &'static [&'static str] {
    NAMES.lock().list(list)
}

/// Whether a definition may have new names.
pub(crate) fn has_room() -> bool {
    NAMES.lock().has_room()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_and_lists_are_interned_once() {
        let (a, b) = (intern("widgets.example.com"), intern(&format!("widgets.{}", "example.com")));
        assert!(std::ptr::eq(a, b));
        let (a, b) = (intern_list(&["wd", "w"]), intern_list(&["wd", "w"]));
        assert!(std::ptr::eq(a, b));
        assert_eq!(intern_list(&["w", "wd"]), ["w", "wd"]);
    }

    #[test]
    fn names_are_refused_when_the_table_is_full() {
        let mut table = Table::default();
        let mut add = |numbers: std::ops::Range<usize>| {
            for n in numbers {
                table.text(&format!("{n:010000}"));
            }
            table.has_room()
        };
        assert!(add(0..1_600));
        assert!(add(0..1_600), "known names take no room");
        assert!(!add(1_600..1_700));
    }
}
