//! The example of docs/run-a-node.md, run as written: a pod writes to a claim, is deleted and created again, and
//! finds its data; then the server is killed, and the container keeps running.

use std::collections::BTreeMap;

use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;

/// The files that the section defines, by name.
fn files(section: &str) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut lines = section.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("    $ cat > ").and_then(|rest| rest.strip_suffix(" <<'EOF'"))
        else {
            continue;
        };
        let text = lines
            .by_ref()
            .take_while(|line| *line != "    EOF")
            .map(|line| line.get(4..).unwrap_or_default());
        files.insert(name.to_owned(), text.map(|line| format!("{line}\n")).collect());
    }
    files
}

#[tokio::test]
async fn run_a_node_example_works() {
    if !orlop_test_support::privileges::has_root("the README's section about a node") {
        return;
    }
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/run-a-node.md")).unwrap();
    let section = text.split("## Run a pod\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let files = files(section.expect("docs/run-a-node.md has the section"));
    // The disk of a test machine may be nearly full.
    let flags = ["--node", "--node-name=n1", "--runtime=process", "--port=0", "--eviction-hard="];
    let mut plane = Plane::of(Layout::OneProcess).server_flags(&flags).start().await;
    let disk = plane.dir().join("disk-2");
    // If the test fails, its container must not keep running for a day.
    let written = |name: &str| {
        files[name].replace("/tmp/disk-2", &disk.display().to_string()).replace("sleep 1d", "sleep 120")
    };
    let kubectl = plane.kubectl();
    let create = async |name: &str| kubectl.run_with(&["create", "-f", "-"], &written(name)).await.ok();
    let waits =
        async || kubectl.run(&["wait", "--for=condition=Ready", "pod/writer", "--timeout=60s"]).await.ok();
    let logs = async |want: &str| {
        wait::until(&format!("the log is {want:?}"), async || {
            let said = kubectl.run(&["logs", "writer"]).await;
            if said.out == want { Ok(()) } else { Err(format!("{said:?}")) }
        })
        .await;
    };
    let said = create("writer.yaml").await + &create("pod.yaml").await;
    assert!(section.is_some_and(|section| said.lines().all(|line| section.contains(line))), "{said}");
    waits().await;
    logs("hello\n").await;
    assert!(plane.data_dir().join("node/pods").is_dir(), "what the node keeps is below the data directory");

    kubectl.run(&["delete", "pod", "writer"]).await.ok();
    create("pod.yaml").await;
    waits().await;
    logs("hello\nhello\n").await;

    let uid = async || {
        kubectl
            .run(&["get", "pod", "writer", "-o", "jsonpath={.status.containerStatuses[0].containerID}"])
            .await
            .ok()
    };
    let before = uid().await;
    plane.kill_and_restart().await;
    waits().await;
    assert_eq!(uid().await, before);
    logs("hello\nhello\n").await;
    kubectl.run(&["delete", "pod", "writer"]).await.ok();
    plane.stop().await;
}
