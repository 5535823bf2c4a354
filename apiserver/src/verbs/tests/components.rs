//! ComponentStatus, and proxied services.

use serde_json::{Value, json};

use super::rig::{Rig, text};

const COMPONENTS: &str = "/api/v1/componentstatuses";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn status(components: &Value) -> Vec<(String, String)> {
    let items = components["items"].as_array().unwrap().iter();
    items.map(|item| (text(item, "/metadata/name"), text(item, "/conditions/0/status"))).collect()
}

#[tokio::test]
async fn components_of_other_processes_are_unknown() {
    let pairs = |pairs: [(&str, &str); 3]| pairs.map(|(name, status)| (name.to_owned(), status.to_owned()));
    let rig = Rig::new().await;
    let answer = rig.get(COMPONENTS).await.expect(200);
    assert!(answer.header("warning").contains("v1 ComponentStatus is deprecated in v1.19+"));
    let list = answer.json();
    assert_eq!((&list["kind"], &list["metadata"]), (&json!("ComponentStatusList"), &json!({})));
    let want = pairs([("controller-manager", "Unknown"), ("etcd-0", "True"), ("scheduler", "Unknown")]);
    assert_eq!(status(&list), want);

    let rig = Rig::with(|config| (config.runs_controllers, config.runs_scheduler) = (true, true)).await;
    let want = pairs([("controller-manager", "True"), ("etcd-0", "True"), ("scheduler", "True")]);
    assert_eq!(status(&rig.get(COMPONENTS).await.expect(200).json()), want);
}

#[tokio::test]
async fn components_are_read_and_not_written_or_watched() {
    let rig = Rig::new().await;
    let one = rig.get(&format!("{COMPONENTS}/etcd-0")).await.expect(200).json();
    let condition = json!({"type": "Healthy", "status": "True", "message": "ok"});
    let want = json!({"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": "etcd-0"}, "conditions": [condition]});
    assert_eq!(one, want);
    let table = rig.get_as(COMPONENTS, TABLE).await.expect(200).json();
    assert_eq!(table["rows"][1]["cells"], json!(["etcd-0", "Healthy", "ok", ""]));
    let protobuf = rig.get_as(COMPONENTS, "application/vnd.kubernetes.protobuf").await.expect(200);
    assert!(protobuf.bytes.starts_with(b"k8s\0"));
    let named = format!("{COMPONENTS}?fieldSelector=metadata.name%3Dscheduler");
    assert_eq!(rig.get(&named).await.expect(200).names(), ["scheduler"]);
    let missing = rig.get(&format!("{COMPONENTS}/x")).await.expect(500).json();
    assert_eq!((&missing["message"], &missing["reason"]), (&json!("Component not found: x"), &Value::Null));
    for (path, code) in [
        (format!("{COMPONENTS}?watch=1"), 405),
        (format!("{COMPONENTS}?fieldSelector=spec.x%3D1"), 400),
        ("/api/v1/watch/componentstatuses".to_owned(), 404),
    ] {
        rig.get(&path).await.expect(code);
    }
    rig.post(COMPONENTS, want).await.expect(405);
    rig.delete(&format!("{COMPONENTS}/etcd-0"), json!({})).await.expect(405);
}

#[tokio::test]
async fn proxied_services_need_a_port_and_endpoints() {
    let rig = Rig::new().await;
    let services = "/api/v1/namespaces/default/services";
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "name": "http"}]}});
    rig.post(services, service).await.expect(201);
    let proxy = async |id: &str, code: u16| {
        let answer = rig.get(&format!("{services}/{id}/proxy/a/b")).await.expect(code).json();
        text(&answer, "/message")
    };
    assert_eq!(proxy("x", 404).await, "services \"x\" not found");
    assert_eq!(proxy("s:1", 503).await, "no service port 1 found for service \"s\"");
    assert_eq!(proxy("a:b:c:d", 400).await, "invalid service request \"a:b:c:d\"");
    assert_eq!(proxy("s:80", 404).await, "endpoints \"s\" not found");
    let subset = json!({"addresses": [{"ip": "10.1.2.3"}], "ports": [{"name": "http", "port": 8080}]});
    let endpoints = json!({"metadata": {"name": "s"}, "subsets": [subset]});
    rig.post("/api/v1/namespaces/default/endpoints", endpoints).await.expect(201);
    assert_eq!(proxy("s:other", 503).await, "no endpoints available for service \"s:other\"");
    let own = json!({"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "http", "port": 8080}]});
    let endpoints = json!({"metadata": {"name": "s"}, "subsets": [own]});
    rig.put("/api/v1/namespaces/default/endpoints/s", &endpoints).await.expect(422);
}
