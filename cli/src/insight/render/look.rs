//! Colours, and the time that relative times count from.

use jiff::Timestamp;

/// How text is to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// With colours.
    pub(crate) colour: bool,
    /// What "in 4 min" is counted from.
    pub(crate) now: Timestamp,
}
