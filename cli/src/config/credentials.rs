//! Validation of the flags of `orlop token` and `orlop kubeconfig`.

use super::caller::Caller;
use super::error::ConfigError;
use super::insight;
use crate::args::{KubeconfigCreateArgs, TokenCommand};
use crate::kubeconfig::KubeconfigOrder;
use crate::token::{Token, TokenDeed};

pub(super) fn token(command: TokenCommand, caller: Caller) -> Result<Token, ConfigError> {
    let (deed, remote) = match command {
        TokenCommand::Create(mut args) => {
            let remote = std::mem::take(&mut args.remote);
            (TokenDeed::Create(args), remote)
        }
        TokenCommand::List(args) => (TokenDeed::List, args.remote),
        TokenCommand::Delete(args) => (TokenDeed::Delete(args.ids), args.remote),
    };
    let server = insight::server(remote, None, caller)?;
    Ok(Token { deed, server })
}

pub(super) fn kubeconfig(args: KubeconfigCreateArgs, caller: Caller) -> Result<KubeconfigOrder, ConfigError> {
    let server = insight::server(args.remote, None, caller)?;
    let (user, groups, lifetime, output) = (args.user, args.group, args.validity_period, args.output);
    Ok(KubeconfigOrder { user, groups, lifetime, output, server })
}
