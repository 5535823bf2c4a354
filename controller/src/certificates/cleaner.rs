//! `certificatesigningrequest-cleaner-controller`: deletes requests whose certificate has been fetched or has ended, and requests
//! without a decision for a day.
//!
//! Upstream checks all requests once per hour (pkg/controller/certificates/cleaner). Here, each request has a timer.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{DeleteParams, Preconditions};
use orlop_client::api::Api;
use orlop_client::client::{is_conflict, is_not_found};
use orlop_client::names::controller;
use orlop_client::queue::WorkQueue;
use orlop_pki::certificate::facts;

use super::{APPROVED, CertificateError, DENIED, FAILED, certificate, conditions, follow};
use crate::context::{Context, ControllerError};

/// How long a request stays after the decision about it.
const DECIDED: SignedDuration = SignedDuration::from_hours(1);
/// How long a request without a decision stays.
const PENDING: SignedDuration = SignedDuration::from_hours(24);

/// When a request is deleted; `None` for an approved one without a certificate, which waits for its signer.
pub fn end(csr: &CertificateSigningRequest) -> Option<Timestamp> {
    let conditions = conditions(csr);
    if conditions.is_empty() {
        let created = csr.metadata.creation_timestamp.as_ref()?.0;
        return created.checked_add(PENDING).ok();
    }
    let mut ends = Vec::new();
    for condition in conditions {
        let ends_request = match condition.type_.as_str() {
            APPROVED => certificate(csr).is_some(),
            DENIED | FAILED => true,
            _ => false,
        };
        if let Some(updated) = condition.last_update_time.as_ref().filter(|_| ends_request) {
            ends.extend(updated.0.checked_add(DECIDED));
        }
        if condition.type_ == APPROVED {
            ends.extend(certificate(csr).and_then(facts).map(|facts| facts.not_after));
        }
    }
    ends.into_iter().min()
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        follow(&context, controller::CSR_CLEANER, |requests, queue, name| {
            sync(&context, queue, requests.get(&name))
        })
        .await;
        Ok(())
    })
}

/// Deletes the request, if it is unchanged, or waits until its end.
async fn sync(
    context: &Context,
    queue: WorkQueue<String>,
    csr: Option<Arc<CertificateSigningRequest>>,
) -> Result<(), CertificateError> {
    let Some((csr, end)) = csr.and_then(|csr| end(&csr).map(|end| (csr, end))) else { return Ok(()) };
    let name = csr.metadata.name.clone().unwrap_or_default();
    let left = end.duration_since(context.clock.now());
    if left.is_positive() {
        // The queue rounds down; a request is never deleted early.
        queue.add_after(name, Duration::try_from(left).unwrap_or_default() + Duration::from_secs(1));
        return Ok(());
    }
    let api: Api<CertificateSigningRequest> = Api::all(context.client.clone());
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: csr.metadata.uid.clone(),
            resource_version: csr.metadata.resource_version.clone(),
        }),
        ..DeleteParams::default()
    };
    match api.delete(&name, &parameters).await {
        Ok(_) => Ok(()),
        // The request was changed or deleted first; this change triggers the next sync.
        Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(()),
        Err(source) => Err(CertificateError::Write { what: "delete", name, source }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use k8s_openapi::ByteString;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use orlop_pki::authority::Authority;

    use super::super::testing::{node_request, with_condition};
    use super::*;

    const NOW: &str = "2026-11-26T12:00:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// A request that was created at noon, with conditions of one o'clock.
    fn request(kinds: &[&str], certificate: Option<&str>) -> CertificateSigningRequest {
        let mut csr = node_request();
        csr.metadata.creation_timestamp = Some(Time(at(NOW)));
        for kind in kinds {
            csr = with_condition(csr, kind);
        }
        let status = csr.status.get_or_insert_default();
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_update_time = Some(Time(at("2026-11-26T13:00:00Z")));
        }
        status.certificate = certificate.map(|text| ByteString(text.as_bytes().to_vec()));
        csr
    }

    #[test]
    fn requests_are_deleted_an_hour_after_the_decision_or_after_a_day() {
        let pair = Authority::create(at(NOW)).unwrap();
        let authority = Authority::read(&pair).unwrap();
        let short =
            authority.client_for("a", &[], SignedDuration::from_mins(90), at(NOW)).unwrap().certificate;
        let long = authority.client("a", &[], at(NOW)).unwrap().certificate;
        for (case, csr, want) in [
            ("1 pending", request(&[], None), Some("2026-11-27T12:00:00Z")),
            ("2 approved", request(&[APPROVED], None), None),
            ("3 issued", request(&[APPROVED], Some(&long)), Some("2026-11-26T14:00:00Z")),
            ("4 ended before", request(&[APPROVED], Some(&short)), Some("2026-11-26T13:30:00Z")),
            ("5 denied", request(&[DENIED], None), Some("2026-11-26T14:00:00Z")),
            ("6 failed", request(&[APPROVED, FAILED], None), Some("2026-11-26T14:00:00Z")),
            ("7 another condition", request(&["Mine"], None), None),
            ("8 an unreadable certificate", request(&[APPROVED], Some("x")), Some("2026-11-26T14:00:00Z")),
        ] {
            assert_eq!(end(&csr), want.map(at), "{case}");
        }
    }
}
