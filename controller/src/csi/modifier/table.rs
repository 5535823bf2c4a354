//! Decides the next action for the attributes class that a claim requests. Pure.
//!
//! A modification whose outcome is unknown is finished before another one begins: the driver may have completed half of
//! it (upstream: external-resizer, pkg/modifycontroller).

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

/// `status.modifyVolumeStatus.status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The class does not exist.
    Pending,
    /// The driver was called, or is about to be.
    InProgress,
    /// The driver cannot do it.
    Infeasible,
}

impl Stage {
    /// The value in the API.
    pub fn text(self) -> &'static str {
        match self {
            Stage::Pending => "Pending",
            Stage::InProgress => "InProgress",
            Stage::Infeasible => "Infeasible",
        }
    }

    fn of(text: &str) -> Self {
        // An unknown status implies no running call: start again.
        let all = [Stage::InProgress, Stage::Infeasible];
        all.into_iter().find(|stage| stage.text() == text).unwrap_or(Stage::Pending)
    }
}

/// The last modification recorded in the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its progress.
    pub stage: Stage,
    /// The class; empty when it never existed.
    pub target: String,
}

/// The input of the decision.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The class that the claim requests; empty for none.
    pub wanted: &'a str,
    /// The volume's class; empty for none.
    pub current: &'a str,
    /// The recorded modification.
    pub record: Option<Record>,
    /// The last error in this process was final: no operation is in progress.
    pub settled: bool,
    /// The remaining delay of an infeasible attempt.
    pub rests: Option<Duration>,
    /// The claim reports that its volume is being modified.
    pub says_modifying: bool,
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The volume has the requested class, or no class is requested.
    Nothing,
    /// The same modification was infeasible recently.
    Later(Duration),
    /// No class is requested any more: the claim stops reporting a modification in progress.
    RollBack,
    /// Continue the recorded modification.
    Continue(String),
    /// Begin another one, if its class exists.
    Begin(String),
}

/// Decides the next action.
pub fn decide(facts: &Facts<'_>) -> Action {
    let Facts { wanted, current, record, settled, rests, says_modifying } = facts;
    let Some(record) = record else {
        return match (wanted == current, wanted.is_empty(), says_modifying) {
            (true, _, _) | (false, true, false) => Action::Nothing,
            (false, true, true) => Action::RollBack,
            (false, false, _) => Action::Begin((*wanted).to_owned()),
        };
    };
    if let Some(rests) = rests.filter(|_| record.target == *wanted) {
        return Action::Later(rests);
    }
    let under_way = record.stage == Stage::InProgress;
    match (under_way, wanted.is_empty()) {
        (true, true) => Action::Continue(record.target.clone()),
        (true, false) if !settled => Action::Continue(record.target.clone()),
        (false, true) if *says_modifying => Action::RollBack,
        (false, true) => Action::Nothing,
        (true | false, false) => Action::Begin((*wanted).to_owned()),
    }
}

/// The class that a claim requests; empty for none.
pub fn wanted(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref()).unwrap_or_default()
}

/// The class of its volume; empty for none.
pub fn current(claim: &PersistentVolumeClaim) -> &str {
    let status = claim.status.as_ref();
    status.and_then(|status| status.current_volume_attributes_class_name.as_deref()).unwrap_or_default()
}

/// The recorded modification.
pub fn record(claim: &PersistentVolumeClaim) -> Option<Record> {
    let status = claim.status.as_ref()?.modify_volume_status.as_ref()?;
    let target = status.target_volume_attributes_class_name.clone().unwrap_or_default();
    Some(Record { stage: Stage::of(&status.status), target })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_record(stage: Stage, target: &str) -> Option<Record> {
        Some(Record { stage, target: target.to_owned() })
    }

    fn facts<'a>(wanted: &'a str, current: &'a str, record: Option<Record>) -> Facts<'a> {
        Facts { wanted, current, record, settled: false, rests: None, says_modifying: false }
    }

    #[test]
    fn next_action_for_every_state() {
        use Stage::{InProgress, Infeasible, Pending};
        let begin = |class: &str| Action::Begin(class.to_owned());
        let goes_on = |class: &str| Action::Continue(class.to_owned());
        let says = |facts| Facts { says_modifying: true, ..facts };
        let settled = |facts| Facts { settled: true, ..facts };
        let table = [
            ("no class at all", facts("", "", None), Action::Nothing),
            ("as it is", facts("a", "a", None), Action::Nothing),
            ("another", facts("b", "a", None), begin("b")),
            ("first", facts("b", "", None), begin("b")),
            ("no wish", facts("", "a", None), Action::Nothing),
            ("rolled back", says(facts("", "a", None)), Action::RollBack),
            (
                "rolled back after a refusal",
                says(facts("", "", on_record(Infeasible, "b"))),
                Action::RollBack,
            ),
            ("rolled back before", facts("", "", on_record(Infeasible, "b")), Action::Nothing),
            ("rolled back, not begun", facts("", "", on_record(Pending, "")), Action::Nothing),
            ("class was missing", facts("b", "a", on_record(Pending, "")), begin("b")),
            ("under way", facts("b", "a", on_record(InProgress, "b")), goes_on("b")),
            ("under way, other wish", facts("c", "a", on_record(InProgress, "b")), goes_on("b")),
            ("under way, wish back", facts("a", "a", on_record(InProgress, "b")), goes_on("b")),
            ("under way, no wish", settled(facts("", "a", on_record(InProgress, "b"))), goes_on("b")),
            ("failed, other wish", settled(facts("c", "a", on_record(InProgress, "b"))), begin("c")),
            ("failed, wish back", settled(facts("a", "a", on_record(InProgress, "b"))), begin("a")),
            ("failed, same wish", settled(facts("b", "a", on_record(InProgress, "b"))), begin("b")),
            ("refused, other wish", facts("c", "a", on_record(Infeasible, "b")), begin("c")),
            ("refused, same wish", facts("b", "a", on_record(Infeasible, "b")), begin("b")),
        ];
        for (name, facts, wanted) in table {
            assert_eq!(decide(&facts), wanted, "{name}");
        }
    }

    #[test]
    fn infeasible_class_is_delayed_and_another_is_not() {
        let rests = Some(Duration::from_secs(5));
        let same = Facts { rests, ..facts("b", "a", on_record(Stage::Infeasible, "b")) };
        assert_eq!(decide(&same), Action::Later(Duration::from_secs(5)));
        let other = Facts { rests, ..facts("c", "a", on_record(Stage::Infeasible, "b")) };
        assert_eq!(decide(&other), Action::Begin("c".to_owned()));
    }
}
