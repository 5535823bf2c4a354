//! An in-memory API server that can start controllers.

use std::ops::Deref;
use std::sync::Arc;

use orlop_client::failing::Failing;
use orlop_client::informers::Informers;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::context::{Context, Run};
use crate::options::Options;
use orlop_csi::drivers::Drivers;

/// An [`orlop_test_support::FakeApi`] that can start controllers. Clones share the server.
#[derive(Clone)]
pub(crate) struct FakeApi {
    api: orlop_test_support::FakeApi,
    drivers: Drivers,
}

impl Deref for FakeApi {
    type Target = orlop_test_support::FakeApi;

    fn deref(&self) -> &Self::Target {
        &self.api
    }
}

impl FakeApi {
    /// Creates an empty server.
    pub(crate) fn new() -> Self {
        Self {
            api: orlop_test_support::FakeApi::new(),
            drivers: Drivers::new(Options::default().csi_timeout),
        }
    }

    /// The drivers that controllers of this server find. A test adds its own driver, connected directly instead of
    /// through a socket ([`orlop_csi::driver::Line::over`]), so that paused time stays paused.
    pub(crate) fn drivers(&self) -> Drivers {
        self.drivers.clone()
    }

    /// The context of a controller. Cancelling `shutdown` ends all its tasks.
    pub(crate) fn context(&self, options: Options, shutdown: &CancellationToken) -> Context {
        let client = self.client();
        let events = self.event_sink(shutdown);
        let (drivers, failing) = (self.drivers(), Failing::default());
        let informers = Informers::new(client.clone(), shutdown.clone()).reporting_to(failing.clone());
        let (options, clock, shutdown) = (Arc::new(options), self.clock(), shutdown.clone());
        Context { client, informers, events, drivers, options, failing, clock, shutdown }
    }

    /// Starts controllers. Dropping the guard stops them.
    pub(crate) fn start(&self, controllers: &[Run], options: Options) -> DropGuard {
        let shutdown = CancellationToken::new();
        let context = self.context(options, &shutdown);
        for run in controllers {
            tokio::spawn(run(context.clone()));
        }
        shutdown.drop_guard()
    }
}
