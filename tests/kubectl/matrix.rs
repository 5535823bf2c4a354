//! Compares the table of docs/use-kubectl.md with the tested commands.

use std::collections::BTreeSet;

use super::{access, certificates, change, custom, generators, get, nodes, tell, workloads};

/// Commands tested without a row: they need time, an editor, or several steps.
const STORIES: &[&str] = &[
    "apply",
    "apply -k",
    "apply --prune",
    "apply --server-side",
    "apply view-last-applied",
    "auth whoami",
    "delete",
    "delete --cascade",
    "delete --force",
    "diff",
    "edit",
    "edit --subresource",
    "events",
    "get -w",
    "get --watch-only",
    "logs",
    "replace",
    "replace --force",
    "rollout history",
    "rollout history --revision",
    "rollout status",
    "rollout undo",
    "rollout undo --to-revision",
    "wait --for=condition",
    "wait --for=delete",
    "wait --for=jsonpath",
];

/// The commands in the first column of the table, without backticks.
fn listed() -> BTreeSet<String> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/use-kubectl.md")).unwrap();
    let table = text.split("| kubectl ").nth(1).expect("docs/use-kubectl.md has the table of commands");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut listed = BTreeSet::new();
    for row in rows {
        let commands = row.split('|').nth(1).unwrap_or_default();
        listed.extend(commands.split('`').skip(1).step_by(2).map(str::to_owned));
    }
    listed
}

#[test]
fn documented_commands_are_the_tested_ones() {
    let rows = [
        access::rows(),
        certificates::rows(),
        change::rows(),
        custom::rows(),
        generators::rows(),
        get::rows(),
        nodes::rows(),
        tell::rows(),
        workloads::rows(),
    ];
    let mut tested: BTreeSet<String> = rows.iter().flatten().map(|row| row.command.to_owned()).collect();
    tested.extend(STORIES.iter().map(|story| (*story).to_owned()));
    assert_eq!(listed(), tested);
}
