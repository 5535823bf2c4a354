//! Overload and invalid input: the server rejects requests or closes connections, and serves all other clients
//! (docs/overload.md).
//!
//! The limits are small and the timeouts short, so that the tests reach them. Tests wait for metrics
//! (/metrics needs no permit) or for the end of a connection.

mod bad_input;
mod fairness;
mod held_texts;
mod in_flight;
mod memory;
mod mutated;
mod objects;
mod others;
mod priority_levels;
mod raw;
mod retention;
mod signals;
mod slow;
mod soak;
mod watchers;
mod worst;

use serde_json::json;

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// An API server with these limits.
async fn server(flags: &[&str]) -> Plane {
    Plane::of(Layout::ServerAlone).server_flags(flags).start().await
}

/// The value of a metric: the line with this prefix. A metric that was never counted is 0.
async fn figure(http: &Http, name: &str) -> Result<u64, String> {
    let text = http.try_get("/metrics").await?.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Ok(line.unwrap_or(0))
}

/// Waits until a metric has this value.
async fn until_figure(http: &Http, name: &str, want: u64) {
    wait::until(&format!("{name} is {want}"), async || match figure(http, name).await? {
        found if found == want => Ok(()),
        found => Err(found.to_string()),
    })
    .await;
}

const WRITES: &str = "apiserver_current_inflight_requests{request_kind=\"mutating\"}";
const READS: &str = "apiserver_current_inflight_requests{request_kind=\"readOnly\"}";
const WAITING_WRITES: &str = "apiserver_current_inqueue_requests{request_kind=\"mutating\"}";

/// Creates ConfigMaps until their list has this many MiB.
async fn fill(http: &Http, mebibytes: usize) {
    for number in 0..mebibytes {
        let object =
            json!({"metadata": {"name": format!("large-{number}")}, "data": {"x": "x".repeat(1 << 20)}});
        http.create(CONFIG_MAPS, &object).await;
    }
}
