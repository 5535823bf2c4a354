//! The errors that end a process.

use orlop_apiserver::ServerError;
use orlop_apiserver::insight::replay::ReplayError;
use orlop_client::client::ConnectError;
use orlop_controller::certificates::authority::SigningAuthorityError;
use orlop_controller::manager::ManagerError;
use orlop_csi_hostpath as hostpath;
use orlop_encryption::EncryptionError;
use orlop_store::OpenError;

use crate::agent::AgentProcessError;
use crate::audit::AuditError;
use crate::authentication::AuthenticationError;
use crate::authority::AuthorityError;
use crate::authorization::AuthorizationError;
use crate::component_credentials::NoCredentials;
use crate::data_dir::DataDirError;
use crate::listen::ListenError;
use crate::nodes::NodeError;
use crate::pki::PkiError;

/// Why a process ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("signals cannot be received")]
    Signals(#[source] std::io::Error),
    #[error("the system has no threads left for the controllers")]
    Threads(#[source] std::io::Error),
    #[error(transparent)]
    Authorization(#[from] AuthorizationError),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Controllers(#[from] ManagerError),
    #[error(transparent)]
    Signing(#[from] SigningAuthorityError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Authentication(#[from] AuthenticationError),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    NoCredentials(#[from] NoCredentials),
    #[error("the driver cannot serve")]
    Driver(#[from] hostpath::ServeError),
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error(transparent)]
    Agent(#[from] AgentProcessError),
    #[error("the store cannot be opened")]
    Store(#[source] OpenError),
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    #[error("nothing is served of the file of --from")]
    Replay(#[from] ReplayError),
    /// A panic; its message is in the log already.
    #[error("{0} ended by a panic")]
    Panic(&'static str),
}
