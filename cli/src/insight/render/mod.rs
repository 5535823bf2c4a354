//! Formats the server's answers as text or as JSON and YAML. Pure: an answer and a [`Style`] in, text out.
//!
//! `page` wraps lines at 80 columns and colours them, `characters` escapes what a terminal would interpret; every
//! string of the API passes through both. Missing fields are skipped: a newer server may send more or fewer
//! fields.

mod changes;
mod characters;
mod fields;
mod format;
mod history;
mod look;
mod page;
mod plan;
mod table;
mod time;
mod why;

#[cfg(test)]
mod tests;

pub(super) use self::characters::visible;
pub(super) use self::format::{json, yaml};
pub(super) use self::history::{diff, history};
pub(super) use self::look::Style;
pub(super) use self::plan::{brief, done, nothing_changed, plan};
pub(super) use self::table::table;
pub(super) use self::time::short;
pub(super) use self::why::why;
