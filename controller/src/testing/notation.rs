//! Words that the one-line notations of the case tables share.

use orlop_volume::modes;
use serde_json::Value;

/// The list of access modes in `RWO,ROX`. Names without a short form stand for themselves.
pub(crate) fn access_modes(text: &str) -> Value {
    text.split(',').map(|short| modes::long(short).unwrap_or(short)).collect()
}

/// The namespace and name in `NS/NAME`.
pub(crate) fn key(text: &str) -> (&str, &str) {
    text.split_once('/').unwrap_or_else(|| panic!("{text} is not NS/NAME"))
}
