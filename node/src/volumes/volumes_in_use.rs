//! `node.status.volumesInUse`, and when `volumesAttached` may be believed (I7). Pure.
//!
//! The attach/detach controller takes a volume from `volumesAttached`, reads the Node, and detaches what is not in `volumesInUse`.
//! So a volume may be mounted when one version of the Node has it in both lists, and no write is under way any more that has it not
//! in `volumesInUse`. Whoever writes the list takes what is published here, now and then, and says what the server has. A name
//! therefore comes and goes in turns: it is put in only after the server was seen without it, and taken out only after the server
//! was seen with it. Whatever was taken for a write in between is older than what was seen.

use std::collections::{BTreeMap, BTreeSet};

/// Where a name is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListingStep {
    /// Published; the server has not been seen with it since.
    Entering,
    /// Published, and the server was seen with it.
    In,
    /// Taken out; the server has not been seen without it since.
    Leaving,
}

/// The names.
#[derive(Debug, Default)]
pub(super) struct VolumesInUse {
    steps: BTreeMap<String, ListingStep>,
    /// What the server had when it was last seen; none before that.
    reported: Option<BTreeSet<String>>,
}

impl VolumesInUse {
    /// What an agent finds on disk when it starts: published from the first moment on, so no write without it can be under way.
    pub(super) fn begin(found: impl IntoIterator<Item = String>) -> Self {
        Self { steps: found.into_iter().map(|name| (name, ListingStep::Entering)).collect(), reported: None }
    }

    /// What has to be in use now.
    pub(super) fn need(&mut self, needed: &BTreeSet<String>) {
        for name in needed {
            if !self.steps.contains_key(name) {
                let absent = self.reported.as_ref().is_some_and(|reported| !reported.contains(name));
                // An agent before this one may have left it on the server; a write of ours without it may be under way.
                let step = if absent { ListingStep::Entering } else { ListingStep::Leaving };
                self.steps.insert(name.clone(), step);
            }
        }
        self.turn(needed);
    }

    /// The server has these.
    pub(super) fn seen(&mut self, reported: &BTreeSet<String>, needed: &BTreeSet<String>) {
        for (name, step) in &mut self.steps {
            *step = match (*step, reported.contains(name)) {
                (ListingStep::Entering | ListingStep::In, true) => ListingStep::In,
                // Somebody else took it out; it has to come back before it is believed.
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

    /// What is to be written to the Node.
    pub(super) fn published(&self) -> BTreeSet<String> {
        let published = self.steps.iter().filter(|(_, step)| **step != ListingStep::Leaving);
        published.map(|(name, _)| name.clone()).collect()
    }

    /// Whether the server has it, and will have it until it is taken out here.
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

    /// Plays `need NAMES` and `seen NAMES`; after each what is published, and what is believed.
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
    fn i7_a_name_comes_and_goes_in_turns() {
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
            // A write without it may be under way: the server has it, and that is not believed.
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
    fn i7_what_an_agent_before_left_on_the_server_is_not_believed() {
        let wanted_before_the_node_was_seen =
            [("need", "a", "", ""), ("seen", "a", "", ""), ("seen", "", "a", ""), ("seen", "a", "a", "a")];
        play(VolumesInUse::default(), &wanted_before_the_node_was_seen);
        let wanted_after = [("seen", "a", "", ""), ("need", "a", "", ""), ("seen", "", "a", "")];
        play(VolumesInUse::default(), &wanted_after);
        let new_node = [("need", "a", "", ""), ("seen", "", "a", ""), ("seen", "a", "a", "a")];
        play(VolumesInUse::default(), &new_node);
    }

    #[test]
    fn what_is_found_on_disk_is_published_from_the_beginning() {
        let found = || VolumesInUse::begin(["a".to_owned()]);
        play(
            found(),
            &[("need", "a", "a", ""), ("seen", "a", "a", "a"), ("need", "", "", ""), ("seen", "", "", "")],
        );
        // Unmounted before the Node was seen: it stays until it can be taken out in turn.
        play(
            found(),
            &[("need", "", "a", ""), ("seen", "", "a", ""), ("seen", "a", "", ""), ("seen", "", "", "")],
        );
    }

    #[test]
    fn what_somebody_else_takes_out_is_not_believed_until_it_is_back() {
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
