//! Maintains the ConfigMap with the date since which the server records the use of tokens in Secrets. `legacy-serviceaccount-token-cleaner-controller`
//! reads it.
//!
//! Upstream: pkg/controlplane/controller/legacytokentracking.

use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::repair::commit;
use crate::state::Inner;
use crate::system_config_map::SystemConfigMap;

const NAME: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";

/// Creates the ConfigMap, or replaces a malformed date.
///
/// # Errors
/// A message for the log if it cannot be read or written.
pub(super) async fn keep(server: &Inner) -> Result<(), String> {
    if !server.config.tracks_legacy_tokens {
        return Ok(());
    }
    let Some(map) = SystemConfigMap::read(server, NAME)? else { return Ok(()) };
    if map.existing().is_some_and(|map| map.str_at(&["data", SINCE]).parse::<Date>().is_ok()) {
        return Ok(());
    }
    let today = server.now().to_zoned(TimeZone::UTC).date().to_string();
    let write = map.write(server, &["data", SINCE], today.into());
    // After a conflict, the next round reads the ConfigMap again.
    commit(&*server.store, vec![write]).await.map(drop)
}
