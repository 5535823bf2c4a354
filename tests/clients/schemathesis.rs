//! Schemathesis tests the server against its OpenAPI documents: it generates requests, and every answer must be
//! one that the document describes.

use std::time::Duration;

use futures::StreamExt as _;

use super::script::{Script, installed, python_tool};
use crate::harness::plane::{Layout, Plane};

/// Requests per operation; more of them take longer.
const EXAMPLES: &str = "ORLOP_SCHEMATHESIS_EXAMPLES";
/// The seed of the generated requests.
const SEED: &str = "ORLOP_SCHEMATHESIS_SEED";
/// The short run always uses these values, so that its result is reproducible.
const SHORT: (u64, u64) = (1, 1);

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

#[tokio::test]
async fn answers_match_the_openapi_documents() {
    if !installed().await {
        return;
    }
    // Without roles of the server: aggregated ones have `rules: null`, as upstream, which contradicts the documents.
    let plane = Plane::of(Layout::ServerAlone).default_authorization().start().await;
    let examples = number(EXAMPLES);
    let seed = number(SEED).unwrap_or_else(|| examples.map_or(SHORT.1, |_| rand::random_range(1..1 << 32)));
    let examples = examples.unwrap_or(SHORT.0);
    println!("{SEED}={seed} {EXAMPLES}={examples}");
    let index = plane.http().get("/openapi/v3").await;
    let index: serde_json::Value = serde_json::from_slice(&index.body).unwrap();
    let paths: Vec<String> = index["paths"].as_object().unwrap().keys().cloned().collect();
    assert!(paths.contains(&"api/v1".to_owned()) && paths.contains(&"orlop".to_owned()), "{paths:?}");
    let (home, url) = (plane.dir(), plane.url());
    // Most of the CPU time is spent generating requests.
    let runs = futures::stream::iter(paths).map(async |path| {
        let mut run = python_tool("st", home);
        run.env("SCHEMATHESIS_HOOKS", "contract");
        run.args(["run", &format!("{}/openapi/v3/{path}", url), "--url", &url]);
        run.args(["--checks", "fault_of_the_server,status_code_conformance,content_type_conformance,response_schema_conformance"]);
        run.args(["--phases", "fuzzing", "--continue-on-failure", "--no-shrink", "--no-color"]);
        run.args(["--generation-database", "none", "--request-timeout", "10", "--warnings", "off"]);
        run.args(["--max-examples", &examples.to_string(), "--seed", &seed.to_string()]);
        // The speed of generation says nothing about the server.
        run.args(["--suppress-health-check", "too_slow"]);
        let name = format!("schemathesis-{}", path.replace('/', "-"));
        let patience = Duration::from_secs(60) * u32::try_from(examples).unwrap_or(u32::MAX);
        let said = Script::start(&name, run, home).ok_within(patience).await;
        assert!(said.contains("Test cases:"), "{said}");
    });
    runs.buffer_unordered(2).collect::<()>().await;
    assert_eq!(plane.http().get("/readyz").await.code, 200, "it is well after all that");
}
