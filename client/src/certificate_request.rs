//! Requests a certificate from the signers of the cluster, and waits for it.
//!
//! Upstream: k8s.io/client-go/util/certificate/csr.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use kube::Client;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::client::message_of;
use crate::informer::{Change, Informer};
use crate::watcher::Selection;

/// The content of a request.
#[derive(Clone, Debug)]
pub struct CertificateOrder {
    /// The prefix of the request's name.
    pub name_prefix: String,
    /// The request, in PEM.
    pub request: String,
    /// The name of the signer.
    pub signer: &'static str,
    /// The usages of the certificate.
    pub usages: &'static [&'static str],
    /// The lifetime of the certificate; `None` for the signer's default.
    pub lifetime: Option<Duration>,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The request cannot be created.
    #[error("cannot create a certificate request: {}", message_of(.0))]
    Create(#[source] kube::Error),
    /// The request was denied.
    #[error("certificate request {name} was denied: {message}")]
    Denied {
        /// The request.
        name: String,
        /// Why.
        message: String,
    },
    /// The signer rejected the request.
    #[error("the signer rejected certificate request {name}: {message}")]
    Failed {
        /// The request.
        name: String,
        /// Why.
        message: String,
    },
    /// The request was deleted.
    #[error("certificate request {0} was deleted before its certificate was issued")]
    Deleted(String),
    /// The request was not approved or not signed in time.
    #[error(
        "certificate request {name} is {state} after {seconds} s: an administrator can approve it with `kubectl certificate approve \
         {name}`; a server without an authority never signs it"
    )]
    Late {
        /// The request.
        name: String,
        /// Its state.
        state: &'static str,
        /// How long the client waited.
        seconds: u64,
    },
}

/// The state of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderState {
    /// Without a decision.
    Pending,
    /// Approved, without a certificate.
    Approved,
    /// With a certificate, in PEM.
    Issued(String),
    /// Denied, with the reason.
    Denied(String),
    /// Rejected by the signer, with the reason.
    Failed(String),
}

/// The state of a request. Pure.
pub fn state_of(request: &CertificateSigningRequest) -> OrderState {
    let Some(status) = &request.status else { return OrderState::Pending };
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let message = |kind: &str| {
        let condition = conditions.iter().find(|condition| condition.type_ == kind)?;
        Some(condition.message.clone().unwrap_or_default())
    };
    if let Some(message) = message("Denied") {
        return OrderState::Denied(message);
    }
    if let Some(message) = message("Failed") {
        return OrderState::Failed(message);
    }
    let is_approved = message("Approved").is_some();
    let certificate = status.certificate.as_ref().filter(|bytes| is_approved && !bytes.0.is_empty());
    match certificate.map(|bytes| String::from_utf8(bytes.0.clone())) {
        Some(Ok(certificate)) => OrderState::Issued(certificate),
        // A signer returns text.
        Some(Err(_)) => OrderState::Failed("the certificate is not in PEM".to_owned()),
        None if is_approved => OrderState::Approved,
        None => OrderState::Pending,
    }
}

/// Creates the request.
///
/// # Errors
/// The server refuses it.
pub async fn submit(
    client: &Client,
    order: CertificateOrder,
) -> Result<CertificateSigningRequest, OrderError> {
    let seconds = order.lifetime.map(|lifetime| i32::try_from(lifetime.as_secs()).unwrap_or(i32::MAX));
    let request = CertificateSigningRequest {
        metadata: ObjectMeta { generate_name: Some(order.name_prefix), ..ObjectMeta::default() },
        spec: CertificateSigningRequestSpec {
            request: ByteString(order.request.into_bytes()),
            signer_name: order.signer.to_owned(),
            usages: Some(order.usages.iter().map(|usage| (*usage).to_owned()).collect()),
            expiration_seconds: seconds,
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    };
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    api.create(&PostParams::default(), &request).await.map_err(OrderError::Create)
}

/// Waits until the request has a certificate, and returns it in PEM.
///
/// # Errors
/// The request was denied, rejected or deleted, or the time is over.
pub async fn certificate(
    client: &Client,
    request: &CertificateSigningRequest,
    patience: Duration,
) -> Result<String, OrderError> {
    let name = request.metadata.name.clone().unwrap_or_default();
    let requests = Informer::<CertificateSigningRequest>::new();
    // `None`: deleted.
    let (sender, mut states) = watch::channel(Some(state_of(request)));
    let _changes = requests.add_handler(move |change: &Change<CertificateSigningRequest>| {
        sender.send_replace(change.new.as_deref().map(state_of));
    });
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let selection = Selection::fields(&format!("metadata.name={name}"));
    let following = requests.run_selected(Api::all(client.clone()), selection, stop);
    let is_final =
        |state: &Option<OrderState>| !matches!(state, Some(OrderState::Pending | OrderState::Approved));
    let last = {
        let waiting = async { states.wait_for(is_final).await.ok().and_then(|state| state.clone()) };
        let both = async {
            tokio::select! {
                state = waiting => state,
                () = following => None,
            }
        };
        tokio::time::timeout(patience, both).await
    };
    match last {
        Ok(Some(OrderState::Issued(certificate))) => Ok(certificate),
        Ok(Some(OrderState::Denied(message))) => Err(OrderError::Denied { name, message }),
        Ok(Some(OrderState::Failed(message))) => Err(OrderError::Failed { name, message }),
        Ok(Some(OrderState::Pending | OrderState::Approved) | None) => Err(OrderError::Deleted(name)),
        Err(_) => {
            let is_approved = *states.borrow() == Some(OrderState::Approved);
            let state = if is_approved { "approved and not signed" } else { "not approved" };
            Err(OrderError::Late { name, state, seconds: patience.as_secs() })
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::certificates::v1::{
        CertificateSigningRequestCondition, CertificateSigningRequestStatus,
    };

    use super::*;

    #[test]
    fn state_follows_conditions_and_certificate() {
        let request = |kinds: &[&str], certificate: Option<&[u8]>| {
            let conditions = kinds.iter().map(|kind| CertificateSigningRequestCondition {
                type_: (*kind).to_owned(),
                message: Some("m".to_owned()),
                ..CertificateSigningRequestCondition::default()
            });
            CertificateSigningRequest {
                status: Some(CertificateSigningRequestStatus {
                    conditions: Some(conditions.collect()),
                    certificate: certificate.map(|bytes| ByteString(bytes.to_vec())),
                }),
                ..CertificateSigningRequest::default()
            }
        };
        for (case, kinds, certificate, want) in [
            ("1", &[][..], None, OrderState::Pending),
            ("2", &["Approved"], None, OrderState::Approved),
            ("3", &["Approved"], Some(&b""[..]), OrderState::Approved),
            ("4", &["Approved"], Some(b"c"), OrderState::Issued("c".to_owned())),
            ("5", &["Approved", "Failed"], None, OrderState::Failed("m".to_owned())),
            ("6", &["Approved", "Denied"], Some(b"c"), OrderState::Denied("m".to_owned())),
            ("7 without an approval", &[], Some(b"c"), OrderState::Pending),
        ] {
            assert_eq!(state_of(&request(kinds, certificate)), want, "{case}");
        }
        assert_eq!(state_of(&CertificateSigningRequest::default()), OrderState::Pending);
    }
}
