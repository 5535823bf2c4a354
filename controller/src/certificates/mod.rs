//! Certificate requests: [`approving`] approves those of nodes, [`signing`] signs the approved ones, and [`cleaner`] deletes old ones.
//!
//! [`authority`] is the key with which requests are signed. Each controller has a pure decision about one request.
//!
//! Upstream: pkg/controller/certificates.

pub mod approving;
pub mod authority;
pub mod cleaner;
pub mod signing;

use std::fmt::Display;

use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use orlop_client::informer::{Change, Informer, key_of};
use orlop_client::queue::WorkQueue;
use orlop_client::worker;

use crate::context::Context;

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

/// Why a request was not handled; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The authority cannot be read.
    #[error("cannot sign certificate request {name}: {reason}")]
    Authority {
        /// The request.
        name: String,
        /// Why.
        reason: String,
    },
    /// The result cannot be written.
    #[error("cannot {what} certificate request {name}: {source}")]
    Write {
        /// The attempted operation.
        what: &'static str,
        /// The request.
        name: String,
        /// Why.
        source: kube::Error,
    },
    /// The rights of the requester cannot be checked.
    #[error("cannot check the rights of the requester of certificate request {name}: {source}")]
    Review {
        /// The request.
        name: String,
        /// Why.
        source: kube::Error,
    },
    /// The requester may not have its request approved. An administrator may approve the request, or grant the right.
    #[error("recognized csr {name:?} as {tried:?} but subject access review was not approved")]
    NotPermitted {
        /// The request.
        name: String,
        /// The rights that would suffice.
        tried: Vec<&'static str>,
    },
}

/// The conditions of a request.
fn conditions(request: &CertificateSigningRequest) -> &[CertificateSigningRequestCondition] {
    request.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

fn has_condition(request: &CertificateSigningRequest, kind: &str) -> bool {
    conditions(request).iter().any(|condition| condition.type_ == kind)
}

/// The issued certificate, in PEM.
fn certificate(request: &CertificateSigningRequest) -> Option<&[u8]> {
    let certificate = request.status.as_ref()?.certificate.as_ref()?;
    Some(certificate.0.as_slice()).filter(|bytes| !bytes.is_empty())
}

/// Calls `sync` with each request that is created or changed, by one worker.
async fn follow<E, F, Fut>(context: &Context, controller: &'static str, sync: F)
where
    E: Display,
    F: Fn(Informer<CertificateSigningRequest>, WorkQueue<String>, String) -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    let queue = WorkQueue::new(context.options.rate_limit);
    let requests = context.informers.of::<CertificateSigningRequest>();
    let _changes = requests.add_handler({
        let queue = queue.clone();
        move |change: &Change<CertificateSigningRequest>| {
            if let Some(request) = change.new.as_deref() {
                queue.add(key_of(request));
            }
        }
    });
    if !context.ready(requests.synced()).await {
        return;
    }
    let syncs = context.syncs::<CertificateSigningRequest, _>(controller);
    worker::run_until(&context.shutdown, &queue, 1, syncs, |name| {
        sync(requests.clone(), queue.clone(), name)
    })
    .await;
}

#[cfg(test)]
mod testing;
