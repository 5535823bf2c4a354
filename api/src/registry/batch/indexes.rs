//! Lists of indexes: `1,3-5`.

/// The first and the last index of an interval.
type Interval = (i64, i64);

fn interval(text: &str, completions: i64) -> Result<Interval, String> {
    let parts: Vec<&str> = text.split('-').take(3).collect();
    let index = |part: &str| {
        let index: i64 =
            part.parse().map_err(|_| format!("cannot convert string to integer for index: {part:?}"))?;
        if index >= completions { Err(format!("too large index: {part:?}")) } else { Ok(index) }
    };
    match parts.as_slice() {
        [one] => index(one).map(|one| (one, one)),
        [first, last] => {
            let (first, last) = (index(first)?, index(last)?);
            if first >= last {
                return Err(format!("non-increasing order, previous: {first}, current: {last}"));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at most two parts separated \
             by '-'"
        )),
    }
}

/// The number of indexes in a list.
///
/// # Errors
/// The reason, if an index is not a number, not below `completions`, or not greater than the previous index.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut previous, mut total) = (None, 0);
    if text.is_empty() {
        return Ok(total);
    }
    for part in text.split(',') {
        let (first, last) = interval(part, completions)?;
        if let Some(previous) = previous.filter(|previous| *previous >= first) {
            return Err(format!("non-increasing order, previous: {previous}, current: {first}"));
        }
        total += last - first + 1;
        previous = Some(last);
    }
    Ok(total)
}

/// The first index that is in both lists. Invalid intervals are skipped.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |list: &str| -> Vec<Interval> {
        list.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut completed, mut failed) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some(one), Some(other)) = (completed.peek(), failed.peek()) {
        if one.0 <= other.1 && other.0 <= one.1 {
            return Some(one.0.max(other.0));
        }
        if one.0 <= other.0 {
            completed.next();
        } else {
            failed.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_indexes_are_counted() {
        for (text, want) in [
            ("", Ok(0)),
            ("0", Ok(1)),
            ("1,3-5,7", Ok(5)),
            ("a", Err("cannot convert string to integer for index: \"a\"")),
            ("1-b", Err("cannot convert string to integer for index: \"b\"")),
            ("10", Err("too large index: \"10\"")),
            ("1-10", Err("too large index: \"10\"")),
            ("3-3", Err("non-increasing order, previous: 3, current: 3")),
            ("3,2", Err("non-increasing order, previous: 3, current: 2")),
            (
                "1-2-3",
                Err(
                    "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
                ),
            ),
        ] {
            assert_eq!(count_indexes(text, 10), want.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn overlaps_are_found() {
        for (completed, failed, want) in [
            ("0-2", "3", None),
            ("0,4", "1-3", None),
            ("0,2-4", "1,4-5", Some(4)),
            ("bad,2", "1-3", Some(2)),
            ("", "1", None),
        ] {
            assert_eq!(overlap(completed, failed, 10), want, "{completed} and {failed}");
        }
    }
}
