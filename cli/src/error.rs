//! Formats errors in one line.

use std::error::Error;

/// Formats an error and all its causes in one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // A transparent error has the same text as its cause.
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the roof leaks")]
    struct Roof(#[source] std::io::Error);

    #[test]
    fn all_causes_are_in_one_line() {
        let error = Roof(std::io::Error::other("rain"));
        assert_eq!(chain(&error), "the roof leaks: rain");
    }
}
