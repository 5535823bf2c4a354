//! How often a write is repeated when other writers change its object meanwhile. Each attempt decodes the object, applies
//! the change, validates and encodes again, so large objects have fewer attempts.

use crate::verbs::request::Request;

/// Attempts for a small object, and for the largest (upstream: MaxRetryWhenPatchConflicts for all).
const MOST: usize = 32;
const LEAST: usize = 5;
/// The bytes that all attempts together may process.
const BYTES: usize = 16 << 20;

/// The number of attempts for a write to an object.
pub(crate) fn attempts(request: &Request, name: &str) -> usize {
    let stored = request.head().get(&request.resource.key(name)).map_or(0, |record| record.value.len());
    for_size(request.body.len() + stored)
}

/// The number of attempts that process this many bytes each.
pub(crate) fn for_size(bytes: usize) -> usize {
    (BYTES / bytes.max(1)).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_objects_have_fewer_attempts() {
        for (bytes, want) in [(0, 32), (64 << 10, 32), (1 << 20, 16), (5 << 20, 5), (usize::MAX, 5)] {
            assert_eq!(for_size(bytes), want, "{bytes} bytes");
        }
    }
}
