//! Checks whether a server responds, and reads the resources that it serves and whether it describes them (OpenAPI).

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use orlop_auth::UserInfo;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::condition::{Availability, Checked};
use super::{Aggregation, RemoteService, discovered, exchange};
use crate::forwarding::headers;
use crate::https;

/// Maximum duration of a check.
const WITHIN: Duration = Duration::from_secs(5);
/// Maximum size of the list of resources, and of the index of documents, bytes.
const LONGEST: usize = 512 << 10;
/// The user of the check, and a group that may read the resources in any case.
const USER: (&str, &str) = ("system:kube-aggregator", "system:masters");

/// The index at `/openapi/v3`.
#[derive(Deserialize)]
struct OpenApiIndex {
    /// The documents, by their paths without `/openapi/v3/`.
    paths: BTreeMap<String, IgnoredAny>,
}

/// Requests the resources of a version, and whether it is described.
pub(super) async fn check(remote: &RemoteService, aggregation: &Aggregation) -> Checked {
    let address = remote.address.as_ref().map(|(host, port)| https::host_port(host, port));
    let shown = format!("https://{}{}", address.unwrap_or_default(), remote.path());
    let (read, index) = tokio::join!(
        tokio::time::timeout(WITHIN, read(remote, aggregation, &shown)),
        tokio::time::timeout(WITHIN, openapi_index(remote, aggregation)),
    );
    let read = read.unwrap_or_else(|_| Err(format!("Get {shown:?}: context deadline exceeded")));
    match read {
        Ok(resources) => {
            // A server without these documents, or whose index cannot be read, is available.
            let has_openapi =
                index.ok().flatten().is_some_and(|index| index.paths.contains_key(&remote.openapi_name()));
            Checked { availability: Availability::Passed, resources, has_openapi }
        }
        Err(why) => {
            let why = format!("failing or missing response from {shown}: {why}");
            Checked::without_resources(Availability::Failed(why))
        }
    }
}

async fn get(
    remote: &RemoteService,
    aggregation: &Aggregation,
    path: &str,
) -> Result<Response<Incoming>, String> {
    let request = Request::get(path).header(header::ACCEPT, "application/json");
    let mut request = request.body(Body::empty()).map_err(|error| error.to_string())?;
    headers::forwarded(request.headers_mut(), &UserInfo::new(USER.0, [USER.1.to_owned()]), None)?;
    exchange::send(remote, aggregation, request).await
}

async fn openapi_index(remote: &RemoteService, aggregation: &Aggregation) -> Option<OpenApiIndex> {
    let response = get(remote, aggregation, "/openapi/v3").await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let body = Limited::new(response.into_body(), LONGEST).collect().await.ok()?.to_bytes();
    tokio::task::spawn_blocking(move || serde_json::from_slice(&body).ok()).await.ok().flatten()
}

async fn read(
    remote: &RemoteService,
    aggregation: &Aggregation,
    shown: &str,
) -> Result<Option<Vec<Value>>, String> {
    let response = get(remote, aggregation, &remote.path()).await;
    let response = response.map_err(|why| format!("Get {shown:?}: {why}"))?;
    if !response.status().is_success() {
        return Err(format!("bad status from {shown}: {}", response.status().as_u16()));
    }
    // A server that responds is available, whatever its list contains.
    let Ok(body) = Limited::new(response.into_body(), LONGEST).collect().await else { return Ok(None) };
    let (group, version) = (remote.group.clone(), remote.version.clone());
    let parsed =
        tokio::task::spawn_blocking(move || discovered::resources(&body.to_bytes(), &group, &version));
    Ok(parsed.await.ok().flatten())
}
