//! Interns names for the lifetime of the process: metrics, discovery and tables need the names of kinds as static
//! references, and the names of custom kinds come from clients. Each distinct text is stored once, so memory
//! grows with the number of distinct names, not with the number of writes.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::LazyLock;

static TEXTS: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
static LISTS: LazyLock<Mutex<HashSet<&'static [&'static str]>>> = LazyLock::new(Mutex::default);

/// Returns the text as a static reference.
pub(crate) fn intern(text: &str) -> &'static str {
    let mut texts = TEXTS.lock();
    if let Some(known) = texts.get(text) {
        return known;
    }
    let kept: &'static str = Box::leak(text.into());
    texts.insert(kept);
    kept
}

/// Returns the list as a static reference.
pub(crate) fn intern_list(list: &[&str]) -> &'static [&'static str] {
    let list: Vec<&'static str> = list.iter().map(|text| intern(text)).collect();
    let mut lists = LISTS.lock();
    if let Some(known) = lists.get(list.as_slice()) {
        return known;
    }
    let kept: &'static [&'static str] = Box::leak(list.into_boxed_slice());
    lists.insert(kept);
    kept
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
}
