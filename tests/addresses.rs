//! Service addresses and node ports are allocated exactly once, also under concurrent requests and across kill
//! -9.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
}

/// The owner of each cluster IP and node port; fails if two Services share one.
async fn owners(http: &Http) -> BTreeMap<String, String> {
    let list = http.get(SERVICES).await.expect(200);
    let mut owners = BTreeMap::new();
    for item in list["items"].as_array().unwrap() {
        let name = item["metadata"]["name"].as_str().unwrap();
        let port = &item["spec"]["ports"][0]["nodePort"];
        for key in [item["spec"]["clusterIP"].as_str().unwrap().to_owned(), port.to_string()] {
            if key == "null" {
                continue;
            }
            let other = owners.insert(key.clone(), name.to_owned());
            assert_eq!(other, None, "{key} is that of {name} as well");
        }
    }
    owners
}

#[tokio::test]
async fn each_service_address_is_allocated_once() {
    let flags = ["--service-cluster-ip-range", "10.7.0.0/26", "--service-node-port-range", "31000-31060"];
    let mut plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
    let http = plane.http();
    let kubernetes = http.get(&format!("{SERVICES}/kubernetes")).await.expect(200);
    assert_eq!(kubernetes["spec"]["clusterIP"], "10.7.0.1");

    // More Services than addresses: all allocated addresses differ, and the other requests fail.
    let names: Vec<String> = (0..80).map(|i| format!("s{i}")).collect();
    let bodies: Vec<Value> = names.iter().map(|name| service(name)).collect();
    let answers = join_all(bodies.iter().map(|body| http.post(SERVICES, body))).await;
    let made = answers.iter().filter(|answer| answer.code == 201).count();
    let full =
        answers.iter().filter(|answer| answer.code == 500 && answer.text().contains("range is full")).count();
    assert_eq!((made, full), (61, 19), "62 addresses, one of them the server's; 61 ports");
    let before = owners(&http).await;
    assert_eq!(before.len(), 62 + 61);

    plane.kill_and_restart().await;
    let http = plane.http();
    assert_eq!(owners(&http).await, before, "what was given is still theirs");
    let more = http.post(SERVICES, &service("more")).await;
    assert_eq!(more.code, 500, "{}", more.text());

    // A released address can be allocated again, also after a restart.
    let gone = answers.iter().position(|answer| answer.code == 201).map(|at| &names[at]).unwrap();
    let freed = http.delete(&format!("{SERVICES}/{gone}")).await.expect(200);
    plane.kill_and_restart().await;
    let http = plane.http();
    let again = http.create(SERVICES, &service("again")).await;
    assert_eq!(again["spec"]["clusterIP"], freed["spec"]["clusterIP"]);
    assert_eq!(owners(&http).await.len(), before.len());
}
