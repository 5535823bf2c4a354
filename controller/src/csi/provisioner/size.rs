//! Sizes of claims in bytes, as sent to drivers.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use orlop_apimachinery::quantity::Quantity;

/// The requested size in bytes, rounded up. An unparsable size counts as zero; the server admits none.
pub(super) fn requested(claim: &PersistentVolumeClaim) -> i64 {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    let text = requests.and_then(|requests| requests.get("storage"));
    text.and_then(|text| Quantity::parse(&text.0).ok()).map_or(0, |size| size.value())
}
