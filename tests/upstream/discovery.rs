//! Discovery and API documents (upstream: test/e2e/apimachinery/discovery.go, openapiv3.go,
//! aggregated_discovery.go, request_timeout.go), without those of CustomResourceDefinitions.

use axum::http::Method;
use serde_json::{Value, json};

use super::{MAPS, server};

/// discovery.go: "should accurately determine present and missing resources"
#[tokio::test]
async fn discovery_finds_present_and_not_missing_resources() {
    let (_plane, http) = server().await;
    let has = async |path: &str, resource: &str| {
        let answer = http.get(path).await;
        let resources = (answer.code == 200).then(|| answer.json()["resources"].clone());
        let resources = resources.and_then(|resources| resources.as_array().cloned()).unwrap_or_default();
        resources.iter().any(|one| one["name"] == resource)
    };
    assert!(has("/api/v1", "namespaces").await);
    assert!(has("/apis/storage.k8s.io/v1", "csinodes").await);
    assert!(!has("/apis/storage.k8s.io/v1", "please-dont-ever-create-this").await);
    assert!(!has("/apis/not-these-apps/v1", "deployments").await);
}

/// discovery.go: "should validate PreferredVersion for each APIGroup" and "should locate the groupVersion
/// and a resource within each APIGroup"
#[tokio::test]
async fn every_group_has_its_versions() {
    let (_plane, http) = server().await;
    let groups = http.get("/apis/").await.expect(200);
    let groups = groups["groups"].as_array().unwrap();
    assert!(!groups.is_empty());
    for listed in groups {
        let name = listed["name"].as_str().unwrap();
        let group = http.get(&format!("/apis/{name}/")).await.expect(200);
        assert_eq!(group["versions"], listed["versions"], "{name}");
        let preferred = &group["preferredVersion"]["groupVersion"];
        let versions = group["versions"].as_array().unwrap();
        assert!(versions.iter().any(|version| &version["groupVersion"] == preferred), "{group}");
        for version in versions {
            let version = version["groupVersion"].as_str().unwrap();
            let list = http.get(&format!("/apis/{version}")).await.expect(200);
            assert_eq!(list["groupVersion"], version);
            let resources = list["resources"].as_array().unwrap();
            assert!(!resources.is_empty(), "{version}");
            for resource in resources {
                let verbs = resource["verbs"].as_array().unwrap();
                assert!(!verbs.is_empty(), "{resource}");
                let plural = resource["name"].as_str().unwrap();
                // Every kind with the verb list can be listed.
                if !plural.contains('/') && verbs.contains(&json!("list")) {
                    http.get(&format!("/apis/{version}/{plural}")).await.expect(200);
                }
            }
        }
    }
}

/// aggregated_discovery.go: "should support aggregated discovery interface"
#[tokio::test]
async fn aggregated_discovery_contains_all_groups() {
    let (_plane, http) = server().await;
    let media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let mut said = Vec::new();
    for path in ["/api", "/apis"] {
        let answer = http.send(Method::GET, path, &[("accept", media)], Vec::new()).await;
        assert!(answer.header("content-type").contains("as=APIGroupDiscoveryList"), "{:?}", answer.headers);
        let list = answer.expect(200);
        assert_eq!(list["kind"], "APIGroupDiscoveryList");
        for group in list["items"].as_array().unwrap() {
            for version in group["versions"].as_array().unwrap() {
                for resource in version["resources"].as_array().unwrap() {
                    assert_ne!(resource["responseKind"]["kind"], Value::Null, "{resource}");
                    said.push(resource["resource"].as_str().unwrap().to_owned());
                }
            }
        }
    }
    for resource in ["persistentvolumes", "pods", "storageclasses", "leases"] {
        assert!(said.iter().any(|one| one == resource), "{resource} is not in {said:?}");
    }
}

/// openapiv3.go: "should round trip OpenAPI V3 for all built-in group versions" and its entity tags
#[tokio::test]
async fn openapi_documents_exist_for_every_version() {
    let (_plane, http) = server().await;
    let root = http.get("/openapi/v3").await.expect(200);
    let paths = root["paths"].as_object().unwrap();
    for group_version in ["api/v1", "apis/storage.k8s.io/v1", "apis/coordination.k8s.io/v1"] {
        let target = paths[group_version]["serverRelativeURL"].as_str().expect("an address");
        let answer = http.get(target).await;
        let tag = answer.header("etag").to_owned();
        let document = answer.expect(200);
        assert_eq!(
            document["openapi"].as_str().map(|text| text.starts_with('3')),
            Some(true),
            "{group_version}"
        );
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let begin = format!("/{group_version}/");
        let spec_paths = document["paths"].as_object().unwrap();
        assert!(spec_paths.keys().any(|path| path.starts_with(&begin)), "{group_version}");
        assert!(!schemas.is_empty());
        assert!(!tag.is_empty(), "{group_version} has no entity tag");
        let again = http.send(Method::GET, target, &[("if-none-match", &tag)], Vec::new()).await;
        assert_eq!(again.code, 304, "{group_version}: what did not change is not sent again");
    }
    assert_eq!(http.get("/openapi/v3/apis/not-there/v1").await.code, 404);
}

/// request_timeout.go: its three cases
#[tokio::test]
async fn request_timeouts_of_clients_apply() {
    let (_plane, http) = server().await;
    // "should return HTTP status code 400 if the user specifies an invalid timeout in the request URL"
    let refused = http.get(&format!("{MAPS}?timeout=invalid")).await.expect(400);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("invalid timeout specified in the request URL"), "{message}");
    // "default timeout should be used if the specified timeout in the request URL is 0s"
    http.get(&format!("{MAPS}?timeout=0s")).await.expect(200);
    // "the request should be served with a default timeout if the specified timeout in the request URL
    // exceeds maximum allowed"
    http.get(&format!("{MAPS}?timeout=3m")).await.expect(200);
}
