//! Which clients a server on loopback accepts without credentials. Pure.

use clap::Parser as _;

use crate::args::{AuthenticationArgs, AuthorizationArgs, Cli, Command};

/// The clients that a server on loopback accepts without credentials, as its administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopbackAccess {
    /// Processes of the server's own user and of root.
    OwnUser,
    /// Every process of this machine (`--insecure-loopback`).
    EveryProcess,
    /// None: loopback is an address like any other.
    Closed,
}

/// The reasons for which a server requires credentials on loopback.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CredentialDemand {
    /// A flag of authentication or authorization is set.
    pub(super) has_flags: bool,
    /// The server runs a node agent: containers may share the network of the machine and run as root, and the agent itself connects to
    /// addresses that pods name.
    pub(super) has_node: bool,
}

/// `--insecure-loopback` with a node agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InsecureNode;

impl CredentialDemand {
    pub(super) fn of(
        authentication: &AuthenticationArgs,
        authorization: &AuthorizationArgs,
        has_node: bool,
    ) -> Self {
        CredentialDemand { has_flags: differs(authentication, authorization), has_node }
    }

    /// Decides. `is_insecure`: the user accepts every process.
    ///
    /// # Errors
    /// Containers would be administrators.
    pub(super) fn access(self, is_insecure: bool) -> Result<LoopbackAccess, InsecureNode> {
        match (is_insecure, self.has_flags || self.has_node) {
            (true, _) if self.has_node => Err(InsecureNode),
            (true, _) => Ok(LoopbackAccess::EveryProcess),
            (false, true) => Ok(LoopbackAccess::Closed),
            (false, false) => Ok(LoopbackAccess::OwnUser),
        }
    }
}

/// Whether a flag differs from its default.
fn differs(authentication: &AuthenticationArgs, authorization: &AuthorizationArgs) -> bool {
    let Ok(Cli { command: Command::Apiserver(defaults) }) = Cli::try_parse_from(["orlop", "apiserver"])
    else {
        return true;
    };
    *authentication != defaults.authentication || *authorization != defaults.authorization
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn has_flags(flags: &[&str]) -> bool {
        let args = ["orlop", "apiserver"].iter().chain(flags);
        let Command::Apiserver(args) = Cli::try_parse_from(args).unwrap().command else {
            panic!("no server")
        };
        CredentialDemand::of(&args.authentication, &args.authorization, false).has_flags
    }

    #[test]
    fn every_flag_of_authentication_and_authorization_counts() {
        for (flags, want) in [
            (&[][..], false),
            (&["--listen=127.0.0.1:0", "--insecure-loopback", "--request-timeout=1m"], false),
            (&["--tls-san=localhost"], false),
            (&["--authorization-mode=AlwaysAllow"], true),
            (&["--authorization-mode=RBAC"], true),
            (&["--authorization-config=f"], true),
            (&["--authorization-webhook-cache-authorized-ttl=1m"], true),
            (&["--token-auth-file=t"], true),
            (&["--client-ca-file=c"], true),
            (&["--anonymous-auth"], true),
            (&["--anonymous-auth=false"], true),
            (&["--enable-bootstrap-token-auth=false"], true),
            (&["--api-audiences=a"], true),
            (&["--service-account-issuer=https://i"], true),
            (&["--service-account-extend-token-expiration=false"], true),
            (&["--oidc-username-claim=email"], true),
            (&["--requestheader-allowed-names=a"], true),
            (&["--authentication-token-webhook-cache-ttl=1m"], true),
        ] {
            assert_eq!(has_flags(flags), want, "{flags:?}");
        }
    }

    #[test]
    fn flags_and_nodes_close_loopback() {
        use LoopbackAccess::{Closed, EveryProcess, OwnUser};
        for (has_flags, has_node, is_insecure, want) in [
            (false, false, false, Ok(OwnUser)),
            (true, false, false, Ok(Closed)),
            (false, true, false, Ok(Closed)),
            (true, true, false, Ok(Closed)),
            (false, false, true, Ok(EveryProcess)),
            (true, false, true, Ok(EveryProcess)),
            (false, true, true, Err(InsecureNode)),
            (true, true, true, Err(InsecureNode)),
        ] {
            let demand = CredentialDemand { has_flags, has_node };
            assert_eq!(demand.access(is_insecure), want, "{has_flags} {has_node} {is_insecure}");
        }
    }
}
