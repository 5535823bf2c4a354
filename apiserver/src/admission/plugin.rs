//! The interface of an admission plugin.

use super::request::{Lookup, Request};
use orlop_api::status::ApiError;

/// An admission plugin. It ignores requests that it does not handle.
pub(super) trait Plugin: Sync {
    /// Upstream's name, for `--enable-admission-plugins` and `--disable-admission-plugins`.
    fn name(&self) -> &'static str;
    /// Rejects an update or a patch because of the stored object alone. The request has no new object yet.
    fn check_target(&self, _request: &Request<'_>) -> Result<(), ApiError> {
        Ok(())
    }
    /// Changes the object, or rejects the write.
    fn mutate(&self, _request: &mut Request<'_>, _lookup: &dyn Lookup) -> Result<(), ApiError> {
        Ok(())
    }
    /// Rejects the write.
    fn validate(&self, _request: &Request<'_>, _lookup: &dyn Lookup) -> Result<(), ApiError> {
        Ok(())
    }
}
