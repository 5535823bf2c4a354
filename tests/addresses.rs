//! Services get their addresses once: also when many ask at the same time, and over a kill.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
}

/// Who has which address and which port of the nodes; fails when two have the same.
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
async fn an_address_is_given_once() {
    let flags = ["--service-cluster-ip-range", "10.7.0.0/26", "--service-node-port-range", "31000-31060"];
    let mut plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
    let http = plane.http();
    let kubernetes = http.get(&format!("{SERVICES}/kubernetes")).await.expect(200);
    assert_eq!(kubernetes["spec"]["clusterIP"], "10.7.0.1");

    // More than there are: all that are given are different, and the others are told.
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

    // What is deleted can be had again, over a restart as well.
    let gone = answers.iter().position(|answer| answer.code == 201).map(|at| &names[at]).unwrap();
    let freed = http.delete(&format!("{SERVICES}/{gone}")).await.expect(200);
    plane.kill_and_restart().await;
    let http = plane.http();
    let again = http.create(SERVICES, &service("again")).await;
    assert_eq!(again["spec"]["clusterIP"], freed["spec"]["clusterIP"]);
    assert_eq!(owners(&http).await.len(), before.len());
}
