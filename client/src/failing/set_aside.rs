//! Objects that an informer has set aside because they cannot be decoded.

use kube::Resource;
use tokio::time::Instant;

use super::{Failing, How, Target, target};

/// The name under which informers report, instead of a controller's.
pub const INFORMER: &str = "informer";

/// Records the objects of a kind that an informer sets aside in the register of failing objects.
#[derive(Clone)]
pub struct SetAside {
    failing: Failing,
    target: fn(&str) -> Target,
}

impl SetAside {
    /// For the objects of kind `R`.
    pub fn of<R: Resource<DynamicType = ()>>(failing: &Failing) -> Self {
        Self { failing: failing.clone(), target: target::<R> }
    }

    /// Registers a version of an object that cannot be decoded.
    pub fn add(&self, key: &str, error: &str) {
        self.failing.register(INFORMER, (self.target)(key), How::Undecodable, error, Instant::now());
    }

    /// Removes an object whose new version can be decoded.
    pub fn decoded(&self, key: &str) {
        self.failing.succeeded(INFORMER, &(self.target)(key));
    }

    /// Removes an object that does not exist any more.
    pub fn deleted(&self, key: &str) {
        self.failing.forget(INFORMER, &(self.target)(key));
    }
}
