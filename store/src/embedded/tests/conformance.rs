//! Runs the conformance suite on both backends.

use parking_lot::Mutex;
use std::sync::Arc;

use tempfile::TempDir;

use crate::testing::{Backend, Setup, Sum, run_all};
use crate::{Embedded, Kv, Memory, MemoryOptions, Options};

struct InMemory;

impl Backend for InMemory {
    fn open(&self, setup: Setup) -> Arc<dyn Kv<Sum>> {
        let Setup { max_value, rings, clock } = setup;
        Arc::new(Memory::with(MemoryOptions { max_value, rings, clock, ..MemoryOptions::default() }))
    }
}

#[derive(Default)]
struct OnDisk(Mutex<Vec<TempDir>>);

impl Backend for OnDisk {
    fn open(&self, setup: Setup) -> Arc<dyn Kv<Sum>> {
        let Setup { max_value, rings, clock } = setup;
        let dir = tempfile::tempdir().unwrap();
        let options = Options { max_value, rings, clock, ..Options::default() };
        let store = Embedded::open(dir.path(), options).unwrap();
        self.0.lock().push(dir);
        Arc::new(store)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_backend_conforms() {
    run_all(&InMemory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_backend_conforms() {
    run_all(&OnDisk::default()).await;
}
