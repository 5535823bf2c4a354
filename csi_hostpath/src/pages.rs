//! Pagination of lists. A token names the last returned entry, so that no entry is skipped or repeated when
//! others are added or deleted in the meantime.

use std::collections::BTreeMap;
use std::ops::Bound;

use tonic::Status;

const AFTER: &str = "after:";

/// Returns at most `most` entries (0: all) after a token, and the token of the next page (`""` for the last
/// page).
pub(crate) fn page<'a, T>(
    all: &'a BTreeMap<String, T>,
    matches: impl Fn(&T) -> bool,
    most: i32,
    token: &str,
) -> Result<(Vec<&'a T>, String), Status> {
    let most = usize::try_from(most).map_err(|_| Status::invalid_argument("max_entries is negative"))?;
    let start = match token.strip_prefix(AFTER) {
        Some(id) => Bound::Excluded(id.to_owned()),
        None if token.is_empty() => Bound::Unbounded,
        // The CSI specification's code for an invalid or expired token.
        None => return Err(Status::aborted(format!("starting_token {token:?} is not one of this driver"))),
    };
    let mut given = Vec::new();
    let mut last = "";
    for (id, entry) in all.range((start, Bound::Unbounded)).filter(|(_, entry)| matches(entry)) {
        if most > 0 && given.len() == most {
            return Ok((given, format!("{AFTER}{last}")));
        }
        given.push(entry);
        last = id;
    }
    Ok((given, String::new()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn pages_continue_after_the_token() {
        let all: BTreeMap<String, u32> = (0..5).map(|n| (format!("id{n}"), n)).collect();
        for (most, token, want, next) in [
            (0, "", vec![0, 1, 2, 3, 4], ""),
            (5, "", vec![0, 1, 2, 3, 4], ""),
            (2, "", vec![0, 1], "after:id1"),
            (2, "after:id1", vec![2, 3], "after:id3"),
            (2, "after:id3", vec![4], ""),
            (2, "after:id11", vec![2, 3], "after:id3"),
            (2, "after:x", vec![], ""),
        ] {
            let (given, token) = page(&all, |_| true, most, token).unwrap();
            assert_eq!((given.into_iter().copied().collect::<Vec<_>>(), token.as_str()), (want, next));
        }
        let (odd, next) = page(&all, |n| n % 2 == 1, 1, "").unwrap();
        assert_eq!((odd, next.as_str()), (vec![&1], "after:id1"));
        assert_eq!(page(&all, |_| true, -1, "").unwrap_err().code(), tonic::Code::InvalidArgument);
        assert_eq!(page(&all, |_| true, 1, "nonsense").unwrap_err().code(), tonic::Code::Aborted);
    }
}
