//! Maintains `node.status.volumesInUse` and decides when `volumesAttached` is reliable (I7). Pure.
//!
//! The attach/detach controller removes a volume from `volumesAttached`, reads the Node, and detaches the volume
//! if it is not in `volumesInUse`. So a volume may be mounted when one version of the Node has it in both lists,
//! and no write without it in `volumesInUse` is still in progress. The writer of the list reads the names from here
//! at any time, and reports the list on the server. Additions and removals of a name therefore alternate: a name is added
//! only after the server reported a list without it, and removed only after the server reported a list with it. Any write that
//! was prepared in between is older than the reported version.

use std::collections::{BTreeMap, BTreeSet};

/// The step of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListingStep {
    /// Published; the server was not seen with it since.
    Entering,
    /// Published, and the server was seen with it.
    In,
    /// Removed; the server was not seen without it since.
    Leaving,
}

/// The names and their steps.
#[derive(Debug, Default)]
pub(super) struct VolumesInUse {
    steps: BTreeMap<String, ListingStep>,
    /// The list on the server when it was last seen; `None` before.
    reported: Option<BTreeSet<String>>,
}

impl VolumesInUse {
    /// Starts with the volumes that the agent found on disk: they are published from the beginning, so no write
    /// without them can be in progress.
    pub(super) fn begin(found: impl IntoIterator<Item = String>) -> Self {
        Self { steps: found.into_iter().map(|name| (name, ListingStep::Entering)).collect(), reported: None }
    }

    /// Sets the volumes that must be in use.
    pub(super) fn need(&mut self, needed: &BTreeSet<String>) {
        for name in needed {
            if !self.steps.contains_key(name) {
                let absent = self.reported.as_ref().is_some_and(|reported| !reported.contains(name));
                // An earlier agent may have left it on the server, and a write of this agent without it may be in progress.
                let step = if absent { ListingStep::Entering } else { ListingStep::Leaving };
                self.steps.insert(name.clone(), step);
            }
        }
        self.turn(needed);
    }

    /// Handles the list on the server.
    pub(super) fn seen(&mut self, reported: &BTreeSet<String>, needed: &BTreeSet<String>) {
        for (name, step) in &mut self.steps {
            *step = match (*step, reported.contains(name)) {
                (ListingStep::Entering | ListingStep::In, true) => ListingStep::In,
                // Another writer removed it; it must reappear before it counts.
                (ListingStep::Entering | ListingStep::In, false) => ListingStep::Entering,
                (ListingStep::Leaving, true) => ListingStep::Leaving,
                (ListingStep::Leaving, false) if needed.contains(name) => ListingStep::Entering,
                (ListingStep::Leaving, false) => continue,
            };
        }
        self.steps.retain(|name, step| *step != ListingStep::Leaving || reported.contains(name));
        self.reported = Some(reported.clone());
        self.turn(needed);
    }

    fn turn(&mut self, needed: &BTreeSet<String>) {
        for (name, step) in &mut self.steps {
            if *step == ListingStep::In && !needed.contains(name) {
                *step = ListingStep::Leaving;
            }
        }
    }

    /// The list to write to the Node.
    pub(super) fn published(&self) -> BTreeSet<String> {
        let published = self.steps.iter().filter(|(_, step)| **step != ListingStep::Leaving);
        published.map(|(name, _)| name.clone()).collect()
    }

    /// Whether the server has the name and keeps it until it is removed here.
    pub(super) fn is_in(&self, name: &str) -> bool {
        self.steps.get(name) == Some(&ListingStep::In)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &str) -> BTreeSet<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    /// Runs `need NAMES` and `seen NAMES` steps; after each one it checks the published and the reliable names.
    fn play(mut listing: VolumesInUse, steps: &[(&str, &str, &str, &str)]) {
        let mut needed = BTreeSet::new();
        for (at, (verb, names, published, believed)) in steps.iter().enumerate() {
            match *verb {
                "need" => {
                    needed = set(names);
                    listing.need(&needed);
                }
                _ => listing.seen(&set(names), &needed),
            }
            let is_in: BTreeSet<String> =
                ["a", "b"].iter().filter(|name| listing.is_in(name)).map(|name| (*name).to_owned()).collect();
            assert_eq!(
                (listing.published(), is_in),
                (set(published), set(believed)),
                "step {at}: {verb} {names}"
            );
        }
    }

    #[test]
    fn i7_name_is_added_and_removed_in_turns() {
        let simple = [
            ("seen", "", "", ""),
            ("need", "a", "a", ""),
            ("seen", "", "a", ""),
            ("seen", "a", "a", "a"),
            ("need", "a b", "a b", "a"),
            ("seen", "a b", "a b", "a b"),
            ("need", "b", "b", "b"),
            ("seen", "a b", "b", "b"),
            ("seen", "b", "b", "b"),
        ];
        play(VolumesInUse::default(), &simple);
        let again_while_leaving = [
            ("seen", "", "", ""),
            ("need", "a", "a", ""),
            ("seen", "a", "a", "a"),
            ("need", "", "", ""),
            // A write without the name may be in progress, so the list on the server is not reliable.
            ("need", "a", "", ""),
            ("seen", "a", "", ""),
            ("seen", "", "a", ""),
            ("seen", "a", "a", "a"),
        ];
        play(VolumesInUse::default(), &again_while_leaving);
        let dropped_before_it_was_written = [
            ("seen", "", "", ""),
            ("need", "a", "a", ""),
            ("need", "", "a", ""),
            ("need", "a", "a", ""),
            ("seen", "a", "a", "a"),
            ("need", "", "", ""),
            ("seen", "", "", ""),
            ("need", "", "", ""),
        ];
        play(VolumesInUse::default(), &dropped_before_it_was_written);
    }

    #[test]
    fn i7_remains_of_an_earlier_agent_on_the_server_do_not_count() {
        let wanted_before_the_node_was_seen =
            [("need", "a", "", ""), ("seen", "a", "", ""), ("seen", "", "a", ""), ("seen", "a", "a", "a")];
        play(VolumesInUse::default(), &wanted_before_the_node_was_seen);
        let wanted_after = [("seen", "a", "", ""), ("need", "a", "", ""), ("seen", "", "a", "")];
        play(VolumesInUse::default(), &wanted_after);
        let new_node = [("need", "a", "", ""), ("seen", "", "a", ""), ("seen", "a", "a", "a")];
        play(VolumesInUse::default(), &new_node);
    }

    #[test]
    fn volumes_found_on_disk_are_published_immediately() {
        let found = || VolumesInUse::begin(["a".to_owned()]);
        play(
            found(),
            &[("need", "a", "a", ""), ("seen", "a", "a", "a"), ("need", "", "", ""), ("seen", "", "", "")],
        );
        // Unmounted before the first report of the list: the name stays until a report contains it.
        play(
            found(),
            &[("need", "", "a", ""), ("seen", "", "a", ""), ("seen", "a", "", ""), ("seen", "", "", "")],
        );
    }

    #[test]
    fn name_removed_by_another_writer_does_not_count_until_it_is_back() {
        let steps = [
            ("seen", "", "", ""),
            ("need", "a", "a", ""),
            ("seen", "a", "a", "a"),
            ("seen", "", "a", ""),
            ("seen", "a", "a", "a"),
        ];
        play(VolumesInUse::default(), &steps);
    }
}
