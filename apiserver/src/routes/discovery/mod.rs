//! Discovery, legacy (one document per group) and aggregated (one document for all).

mod aggregated;
mod form;
mod groups;
mod resources;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use axum::routing::get;
use http::{HeaderMap, header};
use serde_json::{Map, Value, json};

use self::aggregated::{CORE, aggregated};
use self::form::{Form, ServedBy, accept, form, legacy, refuse};
use self::groups::VERSION;
use self::resources::resources;
use crate::custom::Served;
use crate::custom::documents::Discovery;
use crate::encode::answer;
use crate::limits::Client;
use crate::registry::KINDS;
use crate::state::Inner;
use orlop_api::status::ApiError;

pub(super) use self::aggregated::named;
pub(super) use self::groups::groups;

pub(super) fn router() -> Router<Arc<Inner>> {
    Router::new()
        .route("/api", get(core_versions))
        .route("/api/", get(core_versions))
        .route("/apis", get(group_list))
        .route("/apis/", get(group_list))
        .route("/api/v1", get(core_resources))
        .route("/api/v1/", get(core_resources))
        .route("/apis/{group}", get(one_group))
        .route("/apis/{group}/", get(one_group))
        .route("/apis/{group}/{version}", get(group_resources))
        .route("/apis/{group}/{version}/", get(group_resources))
}
async fn core_versions(headers: HeaderMap) -> Response {
    let address = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match form(accept(&headers), ServedBy::Router) {
        Ok(Form::Aggregated(media)) => aggregated(&headers, media, &CORE),
        Ok(Form::Legacy) => legacy(
            &headers,
            ServedBy::Router,
            &json!({
                "kind": "APIVersions", "versions": [VERSION],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
            }),
        ),
        Err(error) => refuse(&headers, &error),
    }
}

/// The aggregated document of the named groups, which may have many kinds: it is built on the threads for expensive requests.
async fn discovery(
    server: &Inner,
    served: &Arc<Served>,
    client: Option<Client>,
) -> Result<Arc<Discovery>, ApiError> {
    let remotes = server.aggregation.now();
    let build = || {
        let (served, remotes) = (served.clone(), remotes.clone());
        server.compute.run(client, async move { Ok(Arc::new(named(&served, &remotes))) })
    };
    if remotes.is_empty() {
        return served.discovery.get_or_try_init(build).await.cloned();
    }
    if let Some(known) = server.aggregation.discovery.get(served, &remotes) {
        return Ok(known);
    }
    let built = build().await?;
    server.aggregation.discovery.set(served.clone(), remotes, built.clone());
    Ok(built)
}

async fn group_list(
    State(server): State<Arc<Inner>>,
    client: Option<Extension<Client>>,
    headers: HeaderMap,
) -> Response {
    let served = server.kinds.now();
    match form(accept(&headers), ServedBy::Handler) {
        Ok(Form::Aggregated(media)) => match discovery(&server, &served, client.map(|client| client.0)).await
        {
            Ok(document) => aggregated(&headers, media, &document),
            Err(error) => refuse(&headers, &error),
        },
        Ok(Form::Legacy) => {
            let remotes = server.aggregation.now();
            let groups = groups(&served, &remotes);
            let groups: Vec<Value> =
                groups.iter().map(|(group, versions)| Value::Object(group_entry(group, versions))).collect();
            legacy(
                &headers,
                ServedBy::Handler,
                &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
            )
        }
        Err(error) => refuse(&headers, &error),
    }
}

fn group_entry(group: &str, versions: &[&str]) -> Map<String, Value> {
    let shown: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    let mut entry = Map::new();
    entry.insert("name".to_owned(), group.into());
    entry.insert("preferredVersion".to_owned(), shown.first().cloned().unwrap_or_default());
    entry.insert("versions".to_owned(), shown.into());
    entry
}

async fn one_group(
    State(server): State<Arc<Inner>>,
    headers: HeaderMap,
    Path(group): Path<String>,
) -> Response {
    let (served, remotes) = (server.kinds.now(), server.aggregation.now());
    let groups = groups(&served, &remotes);
    let Some((_, versions)) = groups.iter().find(|(known, _)| *known == group) else {
        return answer::text(404, "404 page not found\n");
    };
    let mut document = Map::new();
    document.insert("kind".to_owned(), "APIGroup".into());
    document.insert("apiVersion".to_owned(), "v1".into());
    document.extend(group_entry(&group, versions));
    legacy(&headers, ServedBy::Handler, &Value::Object(document))
}

async fn core_resources(headers: HeaderMap) -> Response {
    legacy(
        &headers,
        ServedBy::Router,
        &json!({"kind": "APIResourceList", "groupVersion": VERSION, "resources": resources(&Served::default(), "", VERSION)}),
    )
}

async fn group_resources(
    State(server): State<Arc<Inner>>,
    headers: HeaderMap,
    Path((group, version)): Path<(String, String)>,
) -> Response {
    let (served, remotes) = (server.kinds.now(), server.aggregation.now());
    let groups = groups(&served, &remotes);
    let Some((_, versions)) = groups.iter().find(|(known, _)| *known == group) else {
        return answer::text(404, "404 page not found\n");
    };
    let is_custom = KINDS.iter().all(|kind| kind.names().group != group);
    if !versions.contains(&version.as_str()) {
        if is_custom {
            // As upstream, custom groups leave unknown versions to the handler of unknown paths.
            return answer::text(404, "404 page not found\n");
        }
        return refuse(&headers, &ApiError::no_such_resource());
    }
    legacy(
        &headers,
        if is_custom { ServedBy::Handler } else { ServedBy::Router },
        &json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"),
            "resources": resources(&served, &group, &version),
        }),
    )
}
