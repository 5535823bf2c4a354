//! Errors of `orlop lab`.

use std::error::Error;

use orlop_cli::config::ConfigError;
use orlop_cli::error::chain;
use orlop_client::client::ConnectError;
use orlop_csi_hostpath::ServeError;

use crate::api::ApiError;
use crate::play::PlayError;

/// Why a laboratory or a story failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    #[error("there is no story {name:?}; there are {}", names.join(", "))]
    NoScenario { name: String, names: Vec<&'static str> },
    #[error("no threads to run on, or no signals: {0}")]
    System(#[from] std::io::Error),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the laboratory's server: {}", chain(&**.0))]
    Server(Box<dyn Error + Send + Sync>),
    #[error("the laboratory's driver: {}", chain(.0))]
    Driver(#[from] ServeError),
    #[error("{0} of the laboratory ended by itself")]
    Ended(&'static str),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Play(#[from] PlayError),
}
