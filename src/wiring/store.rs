//! Opens the store, and fills it from a capture.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orlop_apiserver::Projection;
use orlop_apiserver::insight::redact::former_version;
use orlop_apiserver::insight::replay::{HeldClock, ReplayError, replay};
use orlop_cli::args::{StoreArgs, StoreBackend};
use orlop_encryption::Encryption;
use orlop_store::embedded::{Embedded, Options as StoreOptions, Retention};
use orlop_store::memory::{Memory, MemoryOptions};
use orlop_store::{Clock, Kv, MemoryBudget, Redact, Revision, Sensitive};

use super::error::RunError;
use crate::{data_dir, machine_memory};

/// The store of a server.
pub(super) type Store = Arc<dyn Kv<Projection>>;

/// Opens the store. Returns it with a description of its location.
pub(super) async fn open(
    args: &StoreArgs,
    encryption: Arc<Encryption>,
    memory: &Arc<MemoryBudget>,
) -> Result<(Store, String), RunError> {
    let clock = Arc::new(HeldClock::default());
    let opened = open_with(args, clock.clone(), encryption, memory.clone()).await?;
    if let Some(file) = &args.from {
        let done = fill(args, &*opened.0, &clock, file).await;
        if done.is_err() {
            opened.0.close().await;
        }
        done?;
    }
    Ok(opened)
}

/// Replays a capture into the store.
async fn fill(
    args: &StoreArgs,
    store: &dyn Kv<Projection>,
    clock: &HeldClock,
    file: &Path,
) -> Result<(), ReplayError> {
    if args.store_backend == StoreBackend::Embedded && store.head().revision() == Revision::ZERO {
        // The replay runs in memory first, so that an invalid file is detected before anything is written to the disk.
        let trial = Arc::new(HeldClock::default());
        let options = MemoryOptions { clock: trial.clone(), ..MemoryOptions::default() };
        replay(&Memory::with(options), &trial, file, args.at).await?;
    }
    let done = replay(store, clock, file, args.at).await?;
    let file = file.display();
    tracing::info!(
        "{} objects and {} writes of {file}, up to its revision {}",
        done.objects,
        done.writes,
        done.reached
    );
    if done.secrets > 0 {
        tracing::warn!(
            "captures do not contain the values of Secrets: {} Secrets have only their keys",
            done.secrets
        );
    }
    if let Some(why) = done.broken_off {
        tracing::warn!("{file} was broken off at revision {}: {why}", done.reached);
    }
    Ok(())
}

async fn open_with(
    args: &StoreArgs,
    clock: Arc<dyn Clock>,
    encryption: Arc<Encryption>,
    memory: Arc<MemoryBudget>,
) -> Result<(Store, String), RunError> {
    let half = || machine_memory::bytes().map_or(0, |bytes| bytes / 2);
    let max_data = args.store_max_bytes.unwrap_or_else(half);
    let retention = Retention {
        age: args.store_retention_age,
        revisions: args.store_retention_revisions,
        bytes: args.store_retention_bytes,
    };
    match args.store_backend {
        StoreBackend::Memory => {
            let sensitive = sensitive(args.store_retention_secrets);
            let options = MemoryOptions { clock, retention, sensitive, max_data, ..MemoryOptions::default() };
            Ok((Arc::new(Memory::with(options)), "in memory (lost when this process ends)".to_owned()))
        }
        StoreBackend::Embedded => {
            let dir = data_dir::prepare(args.data_dir.as_deref())?;
            let place = format!("in {}", dir.display());
            let options = StoreOptions {
                retention,
                sensitive: sensitive(args.store_retention_secrets),
                max_data,
                memory,
                min_free_bytes: args.store_min_free_bytes,
                clock,
                transformer: Some(encryption),
                // Events describe the past; the desired state is more important.
                shed_first: vec!["/registry/events/".to_owned()],
                ..StoreOptions::default()
            };
            // Opening reads and verifies all files, so it must not block a thread that serves requests.
            let opened = tokio::task::spawn_blocking(move || Embedded::open(dir, options)).await;
            let store = opened.map_err(|_| RunError::Panic("opening the store"))?.map_err(RunError::Store)?;
            Ok((Arc::new(store), place))
        }
    }
}

/// The retention of Secrets, and of the signing keys that earlier versions stored.
fn sensitive(age: Duration) -> Sensitive {
    let prefixes = ["/registry/secrets/", "/registry/orlop.serviceaccountkeys/"].map(str::to_owned).into();
    let default = Sensitive::default();
    let redact = Redact(Arc::new(former_version));
    Sensitive { prefixes, age: age.max(default.age), redact, ..default }
}
