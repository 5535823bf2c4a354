//! Who owns which field of an object (`metadata.managedFields`), and server-side apply.
//!
//! Every write through the API makes its manager the owner of what it changed; an apply says what
//! its manager wants to own. Reading order: `set` is a set of paths and `fields_v1` its wire form;
//! `typed` says how values of a type are owned; `compare` finds what a write changed; `entries` is
//! the list on the object; `update` tracks plain writes. For applies, `config` judges what is sent,
//! `merge` puts it onto the live object, `apply` does the whole, `conflicts` says no, and
//! `last_applied` takes over from client-side apply. `scale` translates for `/scale`. Everything is pure; the verbs call it.

mod apply;
mod compare;
mod config;
mod conflicts;
mod entries;
mod fields_v1;
mod last_applied;
mod merge;
pub mod scale;
mod set;
#[cfg(test)]
mod testing;
mod typed;
mod update;

/// The most bytes of a manager's name.
const MANAGER_MAX: usize = 128;

/// Who writes: the manager that the client names, else the beginning of its `User-Agent` up to the
/// first slash, as far as it can be printed.
pub fn manager_name(field_manager: &str, user_agent: &str) -> String {
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let mut name = String::new();
    let client = user_agent.split('/').next().unwrap_or_default();
    for c in client.chars().filter(|c| !c.is_control() && (*c == ' ' || !c.is_whitespace())) {
        if name.len() + c.len_utf8() > MANAGER_MAX {
            break;
        }
        name.push(c);
    }
    if name.is_empty() { "unknown".to_owned() } else { name }
}

pub use apply::apply;
pub use update::{Writer, keep_times, track};
