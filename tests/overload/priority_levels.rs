//! Flow schemas assign requests to priority levels (upstream: test/e2e/apimachinery/flowcontrol.go).

use serde_json::{Value, json};

use super::raw::{PartialAnswer, Raw, get};
use super::{CONFIG_MAPS, server};
use crate::harness::http::Http;
use crate::harness::plane::Plane;
use crate::harness::wait;

const FLOW: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

/// The UIDs of a flow schema and of a priority level.
async fn uids(http: &Http, schema: &str, level: &str) -> (String, String) {
    let uid = async |path: String| {
        let object = http.get(&path).await.expect(200);
        object["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let schema = uid(format!("{FLOW}/flowschemas/{schema}")).await;
    (schema, uid(format!("{FLOW}/prioritylevelconfigurations/{level}")).await)
}

/// The UIDs in the headers of an answer; empty without them.
fn classified(answer: &PartialAnswer) -> (String, String) {
    let header = |name: &str| {
        let mut lines = answer.text.lines();
        let found = lines.find_map(|line| line.strip_prefix("x-kubernetes-pf-")?.strip_prefix(name));
        found.unwrap_or_default().trim().to_owned()
    };
    (header("flowschema-uid:"), header("prioritylevel-uid:"))
}

/// A GET that impersonates a user. The connection does not repeat rejected requests, unlike those of clients.
async fn get_as(plane: &Plane, user: &str, path: &str) -> PartialAnswer {
    let mut client = Raw::connect(plane).await;
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nimpersonate-user: {user}\r\n\r\n");
    assert!(client.send(head).await);
    client.answer().await
}

fn schema(name: &str, level: &str, user: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": 700,
        "rules": [{
            "subjects": [{"kind": "User", "user": {"name": user}}],
            "resourceRules": [{
                "verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"], "namespaces": ["default"],
            }],
        }],
    }})
}

/// The condition `Dangling` of a schema as status and reason.
async fn until_dangling(http: &Http, name: &str, status: &str, reason: &str) {
    http.until(&format!("{FLOW}/flowschemas/{name}"), reason, |schema| {
        let conditions = schema["status"]["conditions"].as_array();
        let found = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Dangling"));
        found.is_some_and(|found| found["status"] == status && found["reason"] == reason)
    })
    .await;
}

/// "should ensure that requests can be classified by adding FlowSchema and PriorityLevelConfiguration", and the rejections,
/// pages and metrics of a level without permits
#[tokio::test]
async fn requests_are_classified_by_the_stored_schemas() {
    let plane = server(&[]).await;
    let http = plane.http();
    let global_default = uids(&http, "global-default", "global-default").await;
    for path in [CONFIG_MAPS, "/api/v1/namespaces/missing", "/apis", "/nowhere"] {
        assert_eq!(classified(&get(&plane, path).await), global_default, "{path}");
    }
    assert_eq!(classified(&get_as(&plane, "jailed", CONFIG_MAPS).await), global_default);
    let health = get(&plane, "/livez").await;
    assert_eq!(classified(&health), (String::new(), String::new()), "health checks are not classified");

    http.create(&format!("{FLOW}/flowschemas"), &schema("jail", "jail", "jailed")).await;
    until_dangling(&http, "jail", "True", "NotFound").await;
    assert_eq!(classified(&get_as(&plane, "jailed", CONFIG_MAPS).await), global_default, "it has no level");
    let level = json!({"metadata": {"name": "jail"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"},
    }}});
    http.create(&format!("{FLOW}/prioritylevelconfigurations"), &level).await;
    until_dangling(&http, "jail", "False", "Found").await;
    let jail = uids(&http, "jail", "jail").await;
    let rejected = wait::until("the schema takes effect", async || {
        let answer = get_as(&plane, "jailed", CONFIG_MAPS).await;
        if answer.code == 429 { Ok(answer) } else { Err(answer.text) }
    })
    .await;
    assert_eq!(classified(&rejected), jail);
    rejected.is_one_too_many();
    for (user, path) in [("jailed", "/api/v1/namespaces/default/secrets"), ("other", CONFIG_MAPS)] {
        let answer = get_as(&plane, user, path).await;
        // The users have no rights, and the limits come before authorization.
        assert_eq!((answer.code, classified(&answer)), (403, global_default.clone()), "{user} {path}");
    }

    let pages = "/debug/api_priority_and_fairness";
    let levels = http.get(&format!("{pages}/dump_priority_levels")).await.text();
    assert!(levels.starts_with("PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, "), "{levels}");
    let row = levels.lines().find(|line| line.starts_with("jail,")).unwrap();
    let cells: Vec<&str> = row.split(',').map(str::trim).collect();
    assert_eq!(cells[..7], ["jail", "0", "true", "false", "0", "0", "0"], "{row}");
    assert!(cells[7].parse::<u64>().unwrap() > 0, "{row}");
    for (page, columns) in
        [("dump_queues", 9), ("dump_requests", 10), ("dump_requests?includeRequestDetails=1", 18)]
    {
        let text = http.get(&format!("{pages}/{page}")).await.text();
        assert_eq!(text.lines().next().map(|line| line.split(',').count()), Some(columns), "{text}");
    }
    let metrics = http.get("/metrics").await.text();
    for line in [
        "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"jail\",priority_level=\"jail\",\
         reason=\"concurrency-limit\"}",
        "apiserver_flowcontrol_dispatched_requests_total{flow_schema=\"global-default\",priority_level=\"global-default\"}",
        "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"global-default\"} 49",
    ] {
        assert!(metrics.contains(line), "{line}");
    }

    http.delete(&format!("{FLOW}/flowschemas/jail")).await.expect(200);
    wait::until("the schema has no effect", async || {
        let answer = get_as(&plane, "jailed", CONFIG_MAPS).await;
        if answer.code == 403 { Ok(()) } else { Err(answer.text) }
    })
    .await;
}
