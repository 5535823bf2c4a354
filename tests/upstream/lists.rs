//! Lists in chunks and as tables (upstream: test/e2e/apimachinery/chunking.go and table_conversion.go).

use axum::http::Method;
use serde_json::{Value, json};

use super::{MAPS, PODS, name, pod, server, version};
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;

const TOTAL: usize = 120;
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

async fn fill(http: &Http, count: usize) {
    for n in 0..count {
        http.create(MAPS, &json!({"metadata": {"name": format!("template-{n:04}")}})).await;
    }
}

fn rest_of(list: &Value) -> (Option<String>, Option<u64>) {
    let metadata = &list["metadata"];
    (metadata["continue"].as_str().map(str::to_owned), metadata["remainingItemCount"].as_u64())
}

/// Reads the pages from `token` on; items must continue after the first `found` ones.
async fn pages(http: &Http, limit: usize, mut token: Option<String>, mut found: usize) {
    let mut state = None;
    loop {
        let token_text = token.as_deref().unwrap_or_default();
        let list = http.get(&format!("{MAPS}?limit={limit}&continue={token_text}")).await.expect(200);
        assert_eq!(state.get_or_insert(version(&list).to_owned()), version(&list), "one state for all pages");
        let items = list["items"].as_array().unwrap();
        assert!(items.len() <= limit);
        let (next, remaining) = rest_of(&list);
        match &next {
            None => assert_eq!(remaining, None, "the last page has nothing behind it"),
            Some(_) => assert_eq!(remaining.map(|left| left as usize + items.len() + found), Some(TOTAL)),
        }
        for item in items {
            assert_eq!(name(item), format!("template-{found:04}"));
            found += 1;
        }
        token = next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(found, TOTAL);
}

/// chunking.go: "should return chunks of results for list calls"
#[tokio::test]
async fn lists_come_in_chunks() {
    let (_plane, http) = server().await;
    fill(&http, TOTAL).await;
    for limit in [1, 7, TOTAL / 10, TOTAL - 1, TOTAL, TOTAL + 1] {
        pages(&http, limit, None, 0).await;
    }
    let all = http.get(&format!("{MAPS}?limit={}", TOTAL + 1)).await.expect(200);
    assert_eq!(all["items"].as_array().unwrap().len(), TOTAL);
}

/// chunking.go: "should support continue listing from the last key if the original version has been
/// compacted away, though the list is inconsistent"
#[tokio::test]
async fn list_continues_after_its_revision_is_compacted() {
    let flags = ["--store-retention-age", "0s", "--store-retention-revisions", "1"];
    let plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
    let http = plane.http();
    fill(&http, TOTAL).await;
    let limit = TOTAL / 10;
    let first = http.get(&format!("{MAPS}?limit={limit}")).await.expect(200);
    let (token, _) = rest_of(&first);
    let token = token.expect("there is more");
    let mut written = 0;
    let inconsistent = wait::until("the token expires", async || {
        written += 1;
        http.patch(&format!("{MAPS}/template-0000"), &json!({"data": {"n": written.to_string()}}))
            .await
            .expect(200);
        let answer = http.get(&format!("{MAPS}?limit={limit}&continue={token}")).await;
        match answer.code {
            410 => Ok(answer.json()["metadata"]["continue"].as_str().expect("a continuation").to_owned()),
            code => Err(code.to_string()),
        }
    })
    .await;
    let second = http.get(&format!("{MAPS}?limit={limit}&continue={inconsistent}")).await.expect(200);
    assert_ne!(version(&second), version(&first));
    assert_eq!(second["items"].as_array().unwrap().len(), limit);
    pages(&http, limit, Some(inconsistent), limit).await;
}

/// table_conversion.go: "should return pod details"
#[tokio::test]
async fn tables_show_one_and_many_objects() {
    let (_plane, http) = server().await;
    let mut one = pod("pod-1");
    one["spec"]["restartPolicy"] = "Never".into();
    http.create(PODS, &one).await;
    for media in [TABLE, "application/json;as=Table;v=v1beta1;g=meta.k8s.io"] {
        let table = http.send(Method::GET, &format!("{PODS}/pod-1"), &[("accept", media)], Vec::new()).await;
        let table = table.expect(200);
        assert_eq!(table["kind"], "Table");
        let columns = table["columnDefinitions"].as_array().unwrap();
        assert!(columns.len() > 2);
        assert_eq!(columns[0]["name"], "Name");
        let [row] = table["rows"].as_array().unwrap().as_slice() else { panic!("one row: {table}") };
        assert_eq!(row["cells"].as_array().unwrap().len(), columns.len());
        assert_eq!(row["cells"][0], "pod-1");
    }
    // "should return chunks of table results for list calls"
    fill(&http, 5).await;
    let page = async |query: &str| {
        let path = format!("{MAPS}?{query}");
        http.send(Method::GET, &path, &[("accept", TABLE)], Vec::new()).await.expect(200)
    };
    let first = page("limit=2").await;
    let cell = |table: &Value, row: usize| table["rows"][row]["cells"][0].as_str().unwrap().to_owned();
    assert_eq!(first["rows"].as_array().unwrap().len(), 2);
    assert_eq!((cell(&first, 0).as_str(), cell(&first, 1).as_str()), ("template-0000", "template-0001"));
    let token = first["metadata"]["continue"].as_str().expect("there is more");
    let second = page(&format!("continue={token}")).await;
    assert_eq!(cell(&second, 0), "template-0002");
    // "should return generic metadata details across all namespaces for nodes"
    http.create("/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    let nodes = http.send(Method::GET, "/api/v1/nodes", &[("accept", TABLE)], Vec::new()).await.expect(200);
    let columns = nodes["columnDefinitions"].as_array().unwrap();
    assert!(columns.len() >= 2 && columns[0]["name"] == "Name");
    assert_eq!(nodes["rows"][0]["cells"].as_array().unwrap().len(), columns.len());
    assert_ne!(version(&nodes), "");
    // An answer that cannot be a table is rejected, not returned in another format.
    let answer = http.send(
        Method::GET,
        PODS,
        &[("accept", "application/json;as=Chart;v=v1;g=meta.k8s.io")],
        Vec::new(),
    );
    assert_eq!(answer.await.code, 406);
}
