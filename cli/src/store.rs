//! `orlop store`: checks and compacts the directory of a store that is not running.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use orlop_store::embedded::{Options, compact};
use orlop_store::{AcceptedLoss, CheckOptions, CheckOutcome, accept_loss};

use crate::args::StoreCommand;

/// A running store cannot be checked.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is in use ({holder}), so nothing was checked; stop that process, or save a snapshot of it (orlop snapshot save) \
     and check that (orlop snapshot status)",
    dir.display()
)]
pub(crate) struct StoreInUse {
    dir: PathBuf,
    holder: String,
}

/// Runs the command and returns the text to print.
pub(crate) fn run(command: StoreCommand) -> Result<String, Box<dyn Error>> {
    match command {
        StoreCommand::Check { dir, accept_loss: true } => {
            let options = Options { lock_wait: Duration::ZERO, ..Options::default() };
            let AcceptedLoss { kept, acknowledged, continues } = accept_loss(&dir, &options)?;
            Ok(format!(
                "{}: all writes up to revision {kept} are retained, the writes after it up to {acknowledged} are lost; the store continues at {continues}\n",
                dir.display()
            ))
        }
        StoreCommand::Check { dir, accept_loss: false } => {
            let report = orlop_store::check(&dir, &CheckOptions::default());
            if report.verdict.opens() {
                return Ok(format!("{report}\n"));
            }
            if let CheckOutcome::InUse(holder) = &report.verdict {
                return Err(StoreInUse { dir, holder: holder.clone() }.into());
            }
            // The findings are printed to stdout as a result; the exit code reports the verdict.
            println!("{report}");
            Err("the check has found something; see above".into())
        }
        StoreCommand::Compact { data_dir } => {
            let options = Options { lock_wait: Duration::ZERO, ..Options::default() };
            let done = compact(&data_dir, &options)?;
            Ok(format!(
                "{}: {} bytes before, {} after, at revision {}\n",
                data_dir.display(),
                done.before,
                done.after,
                done.revision
            ))
        }
    }
}
