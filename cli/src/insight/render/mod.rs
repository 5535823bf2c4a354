//! Text for people of the server's answers, and the answers themselves for machines. All of it is pure: an answer and a [`Look`] in, text out.
//!
//! `page` keeps lines within 80 columns and paints them, `characters` makes visible what a terminal would obey; every text of the
//! API goes through both. A field that is missing is passed over: a newer server may say more or less than is known here.

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
pub(super) use self::look::Look;
pub(super) use self::plan::{brief, done, nothing_changed, plan};
pub(super) use self::table::table;
pub(super) use self::time::short;
pub(super) use self::why::why;
