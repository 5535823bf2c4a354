//! The behaviour cases as tables, the code that runs them, and other tests.
#![allow(clippy::unwrap_used)]

mod attach;
mod attacher;
mod decide;
mod forced;
mod links;
mod new;
mod nodes;
mod notation;
mod play;
mod pods;
mod proof;
mod requeue;
mod restart;
mod safety;
mod shared;
mod table;
mod words;

#[tokio::test(start_paused = true)]
async fn every_case() {
    let mut failed = Vec::new();
    for case in table::all() {
        let problems = play::play(case).await;
        if !problems.is_empty() {
            failed.push(format!("{} ({})\n  {}", case.id, case.about, problems.join("\n  ")));
        }
    }
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}
