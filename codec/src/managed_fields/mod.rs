//! Tracks the owner of each field of an object (`metadata.managedFields`) and implements server-side apply.
//!
//! A write through the API makes its manager the owner of the changed fields; an apply lists the fields that
//! its manager owns. Reading order: `set` is a set of paths and `fields_v1` its wire format; `typed` defines
//! how values of a type are owned; `compare` finds the changes of a write; `entries` is the list on the
//! object; `update` tracks plain writes. For server-side apply, `config` validates the configuration, `merge`
//! merges it into the live object, `apply` runs the whole operation, `conflicts` builds the conflict error,
//! and `last_applied` migrates from client-side apply. `scale` converts ownership for `/scale`. All functions
//! are pure; the verbs call them.

mod apply;
mod compare;
mod config;
mod conflicts;
mod entries;
mod fields_v1;
mod last_applied;
mod merge;
mod merge_configuration;
pub mod scale;
mod set;
#[cfg(test)]
mod testing;
mod typed;
mod update;

/// Maximum length of a manager's name, bytes.
const MANAGER_MAX: usize = 128;

/// Returns the manager name: the field manager from the request, or else the printable characters of its
/// `User-Agent` up to the first slash.
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
pub use merge_configuration::merge_configuration;
pub use update::{Writer, keep_times, track};
