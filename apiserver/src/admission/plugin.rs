//! The interface of an admission plugin.

use super::request::{Lookup, Request};
use orlop_api::status::ApiError;

/// One admission plugin. It does nothing on requests that are not its business.
pub(super) trait Plugin: Sync {
    /// Upstream's name, as `--disable-admission-plugins` takes it.
    fn name(&self) -> &'static str;
    /// May change the object, or refuse the write.
    fn mutate(&self, _request: &mut Request<'_>, _lookup: &dyn Lookup) -> Result<(), ApiError> {
        Ok(())
    }
    /// May refuse the write.
    fn validate(&self, _request: &Request<'_>, _lookup: &dyn Lookup) -> Result<(), ApiError> {
        Ok(())
    }
}
