//! Flags of `orlop page`.

use clap::Args;

use super::remote::RemoteArgs;

/// `orlop page`.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
