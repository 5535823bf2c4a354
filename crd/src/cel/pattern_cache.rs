//! The patterns that an evaluation has compiled last: a rule mostly uses one pattern for each item of a list.

use std::sync::Arc;

use crate::pattern::Pattern;

/// Number of compiled patterns that an evaluation keeps.
const KEPT: usize = 4;

/// The compiled patterns, the oldest first.
#[derive(Default)]
pub(super) struct PatternCache(Vec<(String, Arc<Pattern>)>);

impl PatternCache {
    /// A compiled pattern, if it is cached.
    pub(super) fn get(&self, pattern: &str) -> Option<Arc<Pattern>> {
        self.0.iter().find(|(known, _)| known == pattern).map(|(_, compiled)| compiled.clone())
    }

    /// Caches a pattern in the place of the oldest one.
    pub(super) fn insert(&mut self, pattern: &str, compiled: Arc<Pattern>) {
        if self.0.len() >= KEPT {
            self.0.remove(0);
        }
        self.0.push((pattern.to_owned(), compiled));
    }
}
