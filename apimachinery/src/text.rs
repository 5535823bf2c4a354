//! Comparisons of short texts that are often empty, such as the group of the core API and subresources.
//!
//! `==` and `cmp` of the standard library call memcmp for empty texts, too. With AVX-512 it reads with a mask, and an empty [`String`]
//! points to no memory: a masked read there takes about as long as 100 comparisons.

use std::cmp::Ordering;

/// `a == b`.
pub fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && (a.is_empty() || a == b)
}

/// `a.cmp(b)`.
pub fn compare(a: &str, b: &str) -> Ordering {
    if a.is_empty() || b.is_empty() { a.len().cmp(&b.len()) } else { a.cmp(b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_those_of_the_standard_library() {
        for a in ["", "a", "b", "ab"] {
            for b in ["", "a", "b", "ab"] {
                assert_eq!((is_same(a, b), compare(a, b)), (a == b, a.cmp(b)), "{a:?}, {b:?}");
            }
        }
    }
}
