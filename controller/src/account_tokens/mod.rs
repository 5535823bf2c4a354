//! Tokens of service accounts that are stored in Secrets of the type `kubernetes.io/service-account-token`.
//!
//! [`secrets`] is `serviceaccount-token-controller`, which writes a token into each such Secret and deletes the Secrets of
//! deleted accounts. [`cleaner`] is `legacy-serviceaccount-token-cleaner-controller`, which deletes unused tokens that
//! old versions of Kubernetes created for each account. [`mounted`] finds the Secrets that a pod uses. Upstream:
//! pkg/controller/serviceaccount.

pub mod cleaner;
mod mounted;
pub mod secrets;
pub mod signer;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use orlop_client::api::is_possible_name;
use orlop_client::meta::annotation;
use orlop_client::watcher::Selection;

/// The type of the Secrets.
const SECRET_TYPE: &str = "kubernetes.io/service-account-token";
/// Secret: the name of its account.
const ANN_ACCOUNT: &str = "kubernetes.io/service-account.name";
/// Secret: the UID of its account.
const ANN_UID: &str = "kubernetes.io/service-account.uid";

/// Selects the Secrets with tokens.
fn token_secrets() -> Selection {
    Selection::fields(&format!("type={SECRET_TYPE}"))
}

/// The name of the account that a Secret requests a token for; `None` if no account can have this name.
fn account_name(secret: &Secret) -> Option<&str> {
    annotation(secret, ANN_ACCOUNT).filter(|name| is_possible_name(name))
}

/// Whether the account is the one that a Secret belongs to: with the same UID, if the Secret names one.
fn is_account_of(secret: &Secret, account: &ServiceAccount) -> bool {
    let uid = annotation(secret, ANN_UID).filter(|uid| !uid.is_empty());
    uid.is_none_or(|uid| account.metadata.uid.as_deref() == Some(uid))
}
