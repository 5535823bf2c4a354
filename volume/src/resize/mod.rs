//! The expansion of a volume: its stages and the conditions that report them.

pub mod conditions;
pub mod target;
