//! The authority that signs certificate requests, and the objects that a server with an authority publishes.

use orlop_apiserver::ClusterInfo;
use orlop_controller::certificates::authority::{SigningAuthority, SigningAuthorityError};
use orlop_controller::manager::Options;

/// Reads the authority that signs certificate requests, so that a wrong file is reported at the start.
pub(crate) fn check(rules: &Options) -> Result<(), SigningAuthorityError> {
    rules.signing_authority.as_ref().map(SigningAuthority::load).transpose().map(drop)
}

/// How nodes join: only a server that signs their certificates publishes it.
pub(crate) fn cluster_info(rules: &Options, url: &str, has_tls: bool) -> Option<ClusterInfo> {
    let authority = rules.root_ca.clone().filter(|_| has_tls && rules.signing_authority.is_some())?;
    Some(ClusterInfo { server: url.to_owned(), authority })
}
