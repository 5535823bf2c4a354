//! `orlop store`: looking after the directory of a store that is not running.

use std::error::Error;
use std::time::Duration;

use orlop_store::embedded::{Options, compact};

use crate::cli::StoreCommand;

/// Does it, and gives what there is to say.
pub(crate) fn run(command: StoreCommand) -> Result<String, Box<dyn Error>> {
    match command {
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
