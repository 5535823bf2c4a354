//! The conditions of a claim about its modification. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaimCondition as Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A modification is in progress.
pub const MODIFYING: &str = "ModifyingVolume";
/// The driver refused, or did not answer.
pub const MODIFY_ERROR: &str = "ModifyVolumeError";

/// A condition that was observed `now`.
pub fn seen(type_: &str, reason: Option<String>, message: String, now: Timestamp) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason,
        message: Some(message),
        // API timestamps have a resolution of one second.
        last_probe_time: Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
        ..Condition::default()
    }
}

/// Merges the new conditions into the old ones. A transition time changes only with status or reason.
pub fn with(old: &[Condition], new: Vec<Condition>) -> Vec<Condition> {
    let mut all = old.to_vec();
    for mut new in new {
        match all.iter_mut().find(|condition| condition.type_ == new.type_) {
            Some(old) => {
                let same = old.status == new.status && old.reason == new.reason;
                let since = if same { &old.last_transition_time } else { &new.last_probe_time };
                new.last_transition_time = since.clone();
                *old = new;
            }
            None => {
                new.last_transition_time = new.last_probe_time.clone();
                all.push(new);
            }
        }
    }
    all
}

/// The conditions without those of these types.
pub fn without(old: &[Condition], types: &[&str]) -> Vec<Condition> {
    old.iter().filter(|condition| !types.contains(&condition.type_.as_str())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_time_changes_only_with_status_or_reason() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let error = |reason: &str, second| {
            seen(MODIFY_ERROR, Some(reason.to_owned()), format!("at {second}"), at(second))
        };
        let first = with(&[], vec![error("Internal", 1)]);
        assert_eq!(first[0].last_transition_time, Some(Time(at(1))));
        let same = with(&first, vec![error("Internal", 2)]);
        assert_eq!(
            (same[0].last_transition_time.clone(), same[0].message.as_deref()),
            (Some(Time(at(1))), Some("at 2"))
        );
        let other = with(&same, vec![error("Aborted", 3), seen(MODIFYING, None, String::new(), at(3))]);
        assert_eq!(other[0].last_transition_time, Some(Time(at(3))));
        assert_eq!(without(&other, &[MODIFY_ERROR]), other[1..]);
    }
}
