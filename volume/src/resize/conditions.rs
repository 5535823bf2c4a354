//! The conditions of a claim about its resize. Pure. A condition with unchanged content keeps its time, so that an attempt
//! that changes nothing writes nothing.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaimCondition as Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A resize is in progress.
pub const RESIZING: &str = "Resizing";
/// The file system has to be resized on the node.
pub const FILE_SYSTEM_PENDING: &str = "FileSystemResizePending";
/// The driver refused.
pub const CONTROLLER_ERROR: &str = "ControllerResizeError";
/// The node failed.
pub const NODE_ERROR: &str = "NodeResizeError";

/// The user's instruction for [`FILE_SYSTEM_PENDING`].
pub const PENDING_MESSAGE: &str =
    "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";

fn is_of_resize(condition: &Condition) -> bool {
    matches!(condition.type_.as_str(), RESIZING | FILE_SYSTEM_PENDING | CONTROLLER_ERROR | NODE_ERROR)
}

/// A condition that is true since `now`.
pub fn holds(type_: &str, message: Option<String>, now: Timestamp) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        message,
        // API timestamps have a resolution of one second.
        last_transition_time: Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
        ..Condition::default()
    }
}

/// Equality except for times.
fn says_the_same(a: &Condition, b: &Condition) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    a.status == b.status && text(&a.message) == text(&b.message) && text(&a.reason) == text(&b.reason)
}

/// Merges `new` into the conditions. Other conditions of a resize are preserved with `keep`; all others are always preserved.
pub fn merged(old: &[Condition], new: Option<Condition>, keep: bool) -> Vec<Condition> {
    let of_new = |condition: &Condition| new.as_ref().is_some_and(|new| new.type_ == condition.type_);
    let mut all: Vec<Condition> = old
        .iter()
        .filter(|condition| keep || !is_of_resize(condition) || of_new(condition))
        .cloned()
        .collect();
    let Some(new) = new else { return all };
    match all.iter_mut().find(|condition| condition.type_ == new.type_) {
        Some(old) if says_the_same(old, &new) => {}
        Some(old) => *old = new,
        None => all.push(new),
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn merged_conditions_replace_only_those_of_a_resize() {
        let other = Condition { type_: "Other".to_owned(), ..Condition::default() };
        let (error, resizing) =
            (holds(CONTROLLER_ERROR, Some("no".into()), at(1)), holds(RESIZING, None, at(2)));
        let old = [other.clone(), error.clone()];
        assert_eq!(merged(&old, Some(resizing.clone()), false), [other.clone(), resizing.clone()]);
        assert_eq!(
            merged(&old, Some(resizing.clone()), true),
            [other.clone(), error.clone(), resizing.clone()]
        );
        let all = [other.clone(), error, resizing.clone()];
        assert_eq!(merged(&all, None, false), all[..1]);
        let later = holds(RESIZING, None, at(9));
        let before = std::slice::from_ref(&resizing);
        assert_eq!(merged(before, Some(later), false), before, "the same since before");
        let (first, second) = (
            holds(CONTROLLER_ERROR, Some("a".into()), at(1)),
            holds(CONTROLLER_ERROR, Some("b".into()), at(2)),
        );
        assert_eq!(merged(&[first, other.clone()], Some(second.clone()), true), [second, other]);
    }
}
