//! `orlop snapshot`: saves, inspects and restores snapshots of a store.
//!
//! `save` creates a file from a running server or from the directory of a stopped one; `status` reports the
//! content of a file.

mod save;
mod status;

use std::error::Error;

use orlop_apiserver::OMITTED_FROM_SNAPSHOTS;
use orlop_apiserver::service_account::key_file::KEY_FILE;
use orlop_store::archive::{self, Header};
use orlop_store::embedded::Options;

use crate::args::RestoreArgs;
use crate::config::SnapshotTask;
use crate::owner;

/// Runs the task and returns the text to print.
pub(crate) fn run(task: SnapshotTask) -> Result<String, Box<dyn Error>> {
    match task {
        SnapshotTask::Fetch { file, from } => {
            let file = save::target(&file)?;
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let header = runtime.block_on(save::fetch(file, from))?;
            Ok(format!("saved {}: {}\n", file.display(), describe(&header)))
        }
        SnapshotTask::Take { file, data_dir } => {
            let file = save::target(&file)?;
            let header = save::take(file, &data_dir)?;
            Ok(format!("saved {}: {}\n", file.display(), describe(&header)))
        }
        SnapshotTask::Status { file, output } => Ok(status::render(&archive::check(&file)?, output)),
        SnapshotTask::Restore(args) => restore(&args),
    }
}

fn restore(args: &RestoreArgs) -> Result<String, Box<dyn Error>> {
    let RestoreArgs { file, data_dir, bump_revision } = args;
    owner::create_private_files();
    let restored =
        archive::restore(file, data_dir, *bump_revision, &OMITTED_FROM_SNAPSHOTS, &Options::default())?;
    Ok(format!(
        "restored {}, as a new store in {}: its resourceVersion is {}, and all older resourceVersions are Expired\n\
         snapshots contain no signing keys: to keep existing service account tokens valid, copy {} from the old data directory; \
         otherwise, the server creates a new key\n",
        describe(&restored.from),
        data_dir.display(),
        restored.revision,
        KEY_FILE,
    ))
}

fn describe(header: &Header) -> String {
    format!(
        "{} objects of revision {}, taken {}",
        header.records,
        header.revision,
        status::time(header.time_ms)
    )
}
