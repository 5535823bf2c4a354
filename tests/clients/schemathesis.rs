//! Schemathesis tests the server against its OpenAPI documents: it generates requests, and every answer must be
//! one that the document describes, or an error of [`documented`]. An administrator sends the requests; an account with one role, a client with a damaged token and a
//! client without credentials repeat each of them, and receive nothing that they have no right to.

use std::path::Path;
use std::time::Duration;

use futures::StreamExt as _;
use kube::config::AuthInfo;
use serde_json::{Map, Value, json};

use super::documented;
use super::script::{Script, installed, python_tool};
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};

/// Requests per operation; more of them take longer.
const EXAMPLES: &str = "ORLOP_SCHEMATHESIS_EXAMPLES";
/// The seed of the generated requests.
const SEED: &str = "ORLOP_SCHEMATHESIS_SEED";
/// The short run always uses these values, so that its result is reproducible.
const SHORT: (u64, u64) = (1, 1);
/// The token of the administrator, and that of the account with one role.
const TOKENS: (&str, &str) = ("administrator-token", "limited-token");
const CHECKS: &str = "fault_of_the_server,status_code_conformance,content_type_conformance,response_schema_conformance,\
                      rights_of_other_clients";
/// The document of the roles.
const RBAC: &str = "apis-rbac.authorization.k8s.io-v1";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

/// Gives the account `limited` its role, and rules to the aggregated roles: without a controller that aggregates them, their rules are
/// null, as upstream, which contradicts the documents.
async fn prepare_roles(http: &Http) {
    let resources = json!(["configmaps", "persistentvolumes"]);
    let rule = json!({"apiGroups": [""], "resources": resources, "verbs": ["get", "list"]});
    http.create(ROLES, &json!({"metadata": {"name": "limited"}, "rules": [rule]})).await;
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"});
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"});
    let binding = json!({"metadata": {"name": "limited"}, "roleRef": role, "subjects": [subject]});
    http.create(BINDINGS, &binding).await;
    let roles = http.get(ROLES).await.expect(200);
    for role in roles["items"].as_array().unwrap().iter().filter(|role| role["rules"].is_null()) {
        let path = format!("{ROLES}/{}", role["metadata"]["name"].as_str().unwrap());
        http.patch(&path, &json!({ "rules": [rule] })).await.expect(200);
    }
}

/// Whether a document has few paths: those of a group, and not those of a version.
fn is_short(path: &str) -> bool {
    !(path == "api/v1" || path == "orlop" || path.starts_with("apis/") && path.matches('/').count() == 2)
}

/// Writes documents as one file.
async fn write(http: &Http, paths: &[String], file: &Path) {
    let (mut all, mut schemas) = (Map::new(), Map::new());
    let mut merged = Value::Null;
    for path in paths {
        let document = http.get(&format!("/openapi/v3/{path}")).await.expect(200);
        all.extend(documented::paths(&document["paths"]));
        schemas.extend(document["components"]["schemas"].as_object().cloned().unwrap_or_default());
        merged = document;
    }
    merged["paths"] = all.into();
    merged["components"]["schemas"] = schemas.into();
    std::fs::write(file, merged.to_string()).unwrap();
}

#[tokio::test]
async fn answers_match_the_openapi_documents() {
    if !installed().await {
        return;
    }
    let tokens = tempfile::NamedTempFile::new().unwrap();
    let lines = format!("{},ann,1,\"system:masters\"\n{},limited,2\n", TOKENS.0, TOKENS.1);
    std::fs::write(tokens.path(), lines).unwrap();
    let flag = format!("--token-auth-file={}", tokens.path().display());
    let plane = Plane::of(Layout::ServerAlone).server_flags(&[&flag]).start().await;
    let mut config = kube::Config::new(plane.url().parse().unwrap());
    config.auth_info = AuthInfo { token: Some(TOKENS.0.to_owned().into()), ..AuthInfo::default() };
    let http = Http::with(config);
    prepare_roles(&http).await;
    let examples = number(EXAMPLES);
    let seed = number(SEED).unwrap_or_else(|| examples.map_or(SHORT.1, |_| rand::random_range(1..1 << 32)));
    let examples = examples.unwrap_or(SHORT.0);
    println!("{SEED}={seed} {EXAMPLES}={examples}");
    let index = http.get("/openapi/v3").await.expect(200);
    let paths: Vec<String> = index["paths"].as_object().unwrap().keys().cloned().collect();
    assert!(paths.contains(&"api/v1".to_owned()) && paths.contains(&"orlop".to_owned()), "{paths:?}");
    let (home, url) = (plane.dir(), plane.url());
    let (short, long): (Vec<String>, Vec<String>) = paths.into_iter().partition(|path| is_short(path));
    // The start of a run takes longer than the requests of a short document.
    let documents = std::iter::once(short).chain(long.into_iter().map(|path| vec![path]));
    let documents: Vec<(String, Vec<String>)> =
        documents.map(|paths| (paths[0].replace('/', "-"), paths)).collect();
    // Its requests delete roles and bindings, also those of the account.
    let (last, documents): (Vec<_>, Vec<_>) = documents.into_iter().partition(|(name, _)| name == RBAC);
    assert_eq!(last.len(), 1, "the document of the roles");
    // Most of the CPU time is spent generating requests.
    let run = async |(name, paths): (String, Vec<String>)| {
        let document = home.join(format!("{name}.json"));
        write(&http, &paths, &document).await;
        let mut run = python_tool("st", home);
        run.env("SCHEMATHESIS_HOOKS", "contract").env("CONTRACT_LIMITED_TOKEN", TOKENS.1);
        run.arg("run").arg(&document).args(["--url", &url]);
        run.args(["--header", &format!("Authorization: Bearer {}", TOKENS.0)]);
        run.args(["--checks", CHECKS]);
        run.args(["--phases", "fuzzing", "--continue-on-failure", "--no-shrink", "--no-color"]);
        run.args(["--generation-database", "none", "--request-timeout", "10", "--warnings", "off"]);
        run.args(["--max-examples", &examples.to_string(), "--seed", &seed.to_string()]);
        // The speed of generation says nothing about the server.
        run.args(["--suppress-health-check", "too_slow"]);
        let patience = Duration::from_secs(240) * u32::try_from(examples).unwrap_or(u32::MAX);
        let said = Script::start(&format!("schemathesis-{name}"), run, home).ok_within(patience).await;
        assert!(said.contains("Test cases:"), "{said}");
    };
    futures::stream::iter(documents).map(&run).buffer_unordered(2).collect::<()>().await;
    futures::stream::iter(last).for_each(&run).await;
    assert_eq!(http.get("/readyz").await.code, 200, "it is well after all that");
}
