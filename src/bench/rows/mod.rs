//! The rows, one file per kind of work. A row prepares, warms up, measures, checks and cleans up.

mod bind;
mod csi;
mod disk;
mod idle;
mod memory;
mod node;
mod requests;
mod start;
mod watch;

use super::args::RowName;
use super::error::BenchError;
use super::ground::Ground;
use super::report::Case;

/// What came of a row.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) cases: Vec<Case>,
    /// What was wrong although it could be measured.
    pub(crate) problems: Vec<String>,
}

/// Measures a row.
pub(crate) async fn run(name: RowName, ground: &Ground) -> Result<Done, BenchError> {
    match name {
        RowName::Create64 => requests::create_64(ground).await,
        RowName::Create1 => requests::create_1(ground).await,
        RowName::Get64 => requests::get_64(ground).await,
        RowName::List5000 => requests::list(ground).await,
        RowName::Patch64 => requests::patch_64(ground).await,
        RowName::Watch => watch::run(ground).await,
        RowName::Bind => bind::run(ground).await,
        RowName::Csi => csi::run(ground).await,
        RowName::Node => node::run(ground).await,
        RowName::Memory => memory::run(ground).await,
        RowName::Start => start::run(ground).await,
        RowName::Idle => idle::run(ground).await,
        RowName::Disk => disk::run(ground).await,
    }
}
