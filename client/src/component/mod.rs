//! The users that the parts of a process run as, and their clients.
//!
//! Upstream: `ControllerClientBuilder` in k8s.io/controller-manager `pkg/clientbuilder`.

pub mod accounts;

use kube::Client;

/// The namespace of the components' service accounts.
pub const NAMESPACE: &str = "kube-system";

/// A part of a process that has a user of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Component {
    /// The caches that all controllers share, and the manager itself: `system:kube-controller-manager`.
    ControllerManager,
    /// The scheduler: `system:kube-scheduler`.
    Scheduler,
    /// A controller: its service account in [`NAMESPACE`].
    Account(&'static str),
}

/// Creates the clients of components.
pub trait ClientBuilder: Send + Sync {
    /// A client whose requests are those of a component. Called inside a tokio runtime.
    fn client(&self, component: Component) -> Client;
}

/// One client, and so one user, for all components. Upstream: `SimpleControllerClientBuilder`.
pub struct SharedClient(pub Client);

impl ClientBuilder for SharedClient {
    fn client(&self, _: Component) -> Client {
        self.0.clone()
    }
}
