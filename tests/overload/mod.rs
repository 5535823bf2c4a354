//! More than the server can do, and nonsense: it says so or cuts off, and serves everybody else
//! (docs/overload.md).
//!
//! The limits are small here, and times short, so that they are reached. What a test waits for is
//! what the server counts (/metrics is never refused) or that a connection ends.

mod bad_input;
mod fairness;
mod in_flight;
mod raw;
mod slow;
mod watchers;

use serde_json::json;

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// An API server with these limits.
async fn server(flags: &[&str]) -> Plane {
    Plane::of(Layout::ServerAlone).server_flags(flags).start().await
}

/// A figure of /metrics: of the line that begins so. What has never been counted is 0.
async fn figure(http: &Http, name: &str) -> Result<u64, String> {
    let text = http.try_get("/metrics").await?.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Ok(line.unwrap_or(0))
}

/// Waits until a figure is this one.
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

/// Makes the list of config maps this many MiB long.
async fn fill(http: &Http, mebibytes: usize) {
    for number in 0..mebibytes {
        let object =
            json!({"metadata": {"name": format!("large-{number}")}, "data": {"x": "x".repeat(1 << 20)}});
        http.create(CONFIG_MAPS, &object).await;
    }
}
