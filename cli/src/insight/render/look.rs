//! Colours, and the reference time of relative times.

use jiff::Timestamp;

/// The appearance of text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Use colours.
    pub(crate) colour: bool,
    /// The reference of relative times such as "in 4 min".
    pub(crate) now: Timestamp,
}
