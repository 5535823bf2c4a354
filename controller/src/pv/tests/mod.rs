//! The behaviour cases as tables (one file per numbered set), the runners that execute them, and two properties
//! checked over all cases: every sync is idempotent, and any single write may fail.
#![allow(clippy::unwrap_used)]

mod functions;
mod links;
mod mock;
mod new;
mod notation;
mod own_attributes;
mod own_class;
mod own_fit;
mod own_index;
mod own_index_modes;
mod own_provision;
mod own_reclaim;
mod own_repair;
mod own_wish;
mod play;
mod proof;
mod recycler;
mod requeue;
mod resync_skip;
mod safety;
mod search;
mod set_1;
mod set_10;
mod set_11;
mod set_12;
mod set_13;
mod set_14;
mod set_15;
mod set_2;
mod set_3;
mod set_4;
mod set_5;
mod set_6;
mod set_8_9;
mod table;
mod volume_handoff;

use table::Case;

/// Runs every case and reports all problems together.
fn report(problems: Vec<(&Case, Vec<String>)>) {
    let failed: Vec<String> = problems
        .into_iter()
        .filter(|(_, problems)| !problems.is_empty())
        .map(|(case, problems)| format!("{} ({})\n  {}", case.id, case.about, problems.join("\n  ")))
        .collect();
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn single_sync_produces_the_expected_state() {
    let mut problems = Vec::new();
    for case in table::all() {
        problems.push((case, play::play_once(case).await));
    }
    report(problems);
}

#[tokio::test(start_paused = true)]
async fn controller_settles_in_an_expected_state() {
    let mut problems = Vec::new();
    for case in table::all() {
        problems.push((case, play::play_settled(case).await));
    }
    report(problems);
}
