//! Errors of `orlop lab`.

use std::error::Error;

use orlop_cli::config::ConfigError;
use orlop_cli::error::chain;
use orlop_client::client::ConnectError;
use orlop_csi_hostpath::ServeError;

use crate::api::ApiError;
use crate::play::PlayError;

/// Why a lab or a scenario failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    #[error("there is no scenario {name:?}; the scenarios are {}", names.join(", "))]
    NoScenario { name: String, names: Vec<&'static str> },
    #[error("cannot start threads or handle signals: {0}")]
    System(#[from] std::io::Error),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the server of the lab: {}", chain(&**.0))]
    Server(Box<dyn Error + Send + Sync>),
    #[error("the driver of the lab: {}", chain(.0))]
    Driver(#[from] ServeError),
    #[error("{0} of the lab ended unexpectedly")]
    Ended(&'static str),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Play(#[from] PlayError),
}
