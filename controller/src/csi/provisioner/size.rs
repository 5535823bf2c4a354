//! Sizes of claims in bytes, as drivers are told them.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use orlop_apimachinery::quantity::Quantity;

/// Bytes that a claim asks for, parts of a byte rounded up. What cannot be read counts as nothing; the server admits no such.
pub(super) fn requested(claim: &PersistentVolumeClaim) -> i64 {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    let text = requests.and_then(|requests| requests.get("storage"));
    text.and_then(|text| Quantity::parse(&text.0).ok()).map_or(0, |size| size.value())
}
