//! The state of a provider, which its thread and its callers share.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::metrics::Metrics;
use super::recent_failures::RecentFailures;
use super::seed_cache::SeedCache;
use super::write_seed::Current;

/// Upstream's error until the plugin was healthy for the first time.
const NOT_YET_HEALTHY: &str = "got unexpected nil transformer";

/// The state of a provider.
#[derive(Default)]
pub(crate) struct Shared {
    current: ArcSwapOption<Current>,
    pub(crate) cache: SeedCache,
    pub(crate) failures: RecentFailures,
    pub(crate) metrics: Arc<Metrics>,
}

impl Shared {
    /// The seed of new values.
    pub(crate) fn current(&self) -> Result<Arc<Current>, &'static str> {
        self.current.load_full().ok_or(NOT_YET_HEALTHY)
    }

    /// Replaces the seed of new values, or when its use ends.
    pub(crate) fn set_current(&self, current: Current) {
        // Values with this seed are read without a call, also after the next rotation.
        self.cache.insert(current.seed.id, current.seed.data_key.clone());
        self.current.store(Some(Arc::new(current)));
    }
}
