//! Upstream's message about an unschedulable pod. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// Upstream's message when there are no nodes.
pub const NO_NODES: &str = "no nodes available to schedule pods";
/// Removing pods does not help.
pub const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
/// There are no pods of a lower priority.
pub const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
/// There are, but this scheduler does not preempt.
pub const NO_PREEMPTION: &str = "Preemption would help, but this scheduler evicts no pods";

/// The longest message in bytes: reasons that name a node's resources may differ from node to node.
const LONGEST: usize = 8 * 1024;

/// The message, cut to a length that a condition and an event can hold.
pub fn bounded(message: &str) -> Cow<'_, str> {
    match message.len() > LONGEST {
        true => format!("{} ...", &message[..message.floor_char_boundary(LONGEST)]).into(),
        false => message.into(),
    }
}

/// The message: the reasons with the number of nodes for each, or the problem of the pod itself, and whether preemption would
/// help.
pub fn unfit<'a>(
    nodes: usize,
    alone: Option<&str>,
    reasons: impl Iterator<Item = &'a str>,
    preemption: &str,
) -> String {
    let mut sentence = format!("0/{nodes} nodes are available:");
    match alone {
        Some(alone) => sentence.push_str(&format!(" {alone}.")),
        None => {
            let listed = histogram(reasons);
            if !listed.is_empty() {
                sentence.push_str(&format!(" {listed}."));
            }
        }
    }
    format!("{sentence} no new claims to deallocate, preemption: {preemption}")
}

/// The part about preemption, from the reason of each node.
pub fn preemption<'a>(nodes: usize, reasons: impl Iterator<Item = &'a str>) -> String {
    format!("0/{nodes} nodes are available: {}.", histogram(reasons))
}

/// The part about preemption for a pod that must not preempt.
pub const NEVER: &str = "not eligible due to preemptionPolicy=Never.";

/// Each reason with its count, sorted as text.
fn histogram<'a>(reasons: impl Iterator<Item = &'a str>) -> String {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *numbers.entry(reason).or_insert(0) += 1;
    }
    let mut listed: Vec<String> =
        numbers.into_iter().map(|(reason, number)| format!("{number} {reason}")).collect();
    listed.sort();
    listed.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_message_is_cut() {
        let long = "ä".repeat(LONGEST);
        assert_eq!(bounded(&long), format!("{} ...", "ä".repeat(LONGEST / 2)));
        let short = "a".repeat(LONGEST);
        assert_eq!(bounded(&short), short);
    }

    #[test]
    fn message_matches_upstream() {
        let reasons = ["Insufficient cpu", "node(s) had untolerated taint(s)", "Insufficient cpu"];
        let preemption = preemption(3, [NO_VICTIMS, NOT_HELPFUL, NO_VICTIMS].into_iter());
        assert_eq!(
            unfit(3, None, reasons.into_iter(), &preemption),
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. no new claims to \
             deallocate, preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No \
             preemption victims found for incoming pod."
        );
        let alone = Some("pod has unbound immediate PersistentVolumeClaims");
        assert_eq!(
            unfit(1, alone, [].into_iter(), NEVER),
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. no new claims to \
             deallocate, preemption: not eligible due to preemptionPolicy=Never."
        );
    }
}
