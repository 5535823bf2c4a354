//! The rows, one file per workload. A row prepares, warms up, measures, checks and cleans up.

mod bind;
mod csi;
mod disk;
mod idle;
mod memory;
mod node;
mod requests;
mod start;
mod watch;

use crate::args::RowName;
use crate::environment::Environment;
use crate::error::BenchError;
use crate::report::Case;

/// The result of a row.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) cases: Vec<Case>,
    /// Problems that did not prevent the measurement.
    pub(crate) problems: Vec<String>,
}

/// Measures a row.
pub(crate) async fn run(name: RowName, environment: &Environment) -> Result<Done, BenchError> {
    match name {
        RowName::Create64 => requests::create_64(environment).await,
        RowName::Create1 => requests::create_1(environment).await,
        RowName::Get64 => requests::get_64(environment).await,
        RowName::List5000 => requests::list(environment).await,
        RowName::Patch64 => requests::patch_64(environment).await,
        RowName::Watch => watch::run(environment).await,
        RowName::Bind => bind::run(environment).await,
        RowName::Csi => csi::run(environment).await,
        RowName::Node => node::run(environment).await,
        RowName::Memory => memory::run(environment).await,
        RowName::Start => start::run(environment).await,
        RowName::Idle => idle::run(environment).await,
        RowName::Disk => disk::run(environment).await,
    }
}
