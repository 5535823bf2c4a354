//! History that is too old is removed without later writes.

use super::{CONFIG_MAPS, server};
use crate::harness::wait;

#[tokio::test]
async fn history_expires_by_age_without_later_writes() {
    let plane = server(&["--store-retention-age=1s", "--store-retention-revisions=0"]).await;
    let http = plane.http();
    let object = |value: &str| serde_json::json!({"metadata": {"name": "it"}, "data": {"x": value}});
    let first = http.create(CONFIG_MAPS, &object("0")).await;
    http.put(&format!("{CONFIG_MAPS}/it"), &object("1")).await.expect(200);
    let revision = first["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{CONFIG_MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact");
    wait::until("the old state is expired", async || match http.try_get(&path).await? {
        answer if answer.code == 410 => Ok(()),
        answer => Err(answer.text()),
    })
    .await;
}
