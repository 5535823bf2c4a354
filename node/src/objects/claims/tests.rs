//! Changes are reported by the watch, and by polling where the watch is forbidden.
#![allow(clippy::unwrap_used)]
use orlop_test_support::{FakeApi, Fault, FaultKind};
use serde_json::{Value, json};

use super::*;

fn claim(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "ns", "name": name},
        "spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending"}})
}

struct Notified(Arc<Mutex<Vec<String>>>);

impl Notified {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

fn start(api: &FakeApi, claims: &Claims, shutdown: &CancellationToken) -> Notified {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let (claims, client, shutdown) = (claims.clone(), api.client(), shutdown.clone());
    let list = Arc::clone(&keys);
    tokio::spawn(async move {
        claims.run(client, shutdown, |key| list.lock().push(key.to_owned())).await;
    });
    Notified(keys)
}

#[tokio::test(start_paused = true)]
async fn only_claims_in_use_are_reported_without_gaps() {
    let (api, claims, shutdown) = (FakeApi::new(), Claims::default(), CancellationToken::new());
    api.seed(claim("a"));
    api.seed(claim("b"));
    claims.take("ns/a");
    claims.take("ns/a");
    let notified = start(&api, &claims, &shutdown);
    api.settle().await;
    assert_eq!(notified.take(), ["ns/a"], "claims in use count as changed when the watch begins");
    let bound = json!({"status": {"phase": "Bound"}});
    for name in ["ns/a", "ns/b"] {
        api.patch("persistentvolumeclaims", name, "status", bound.clone());
    }
    api.settle().await;
    assert_eq!(notified.take(), ["ns/a"]);
    claims.give_back("ns/a");
    claims.take("ns/c");
    api.create(claim("c"));
    api.delete("persistentvolumeclaims", "ns/a");
    api.settle().await;
    assert_eq!(notified.take(), ["ns/c", "ns/a"], "one of two users is left");
    claims.give_back("ns/a");
    api.disconnect(false);
    api.patch("persistentvolumeclaims", "ns/c", "status", bound.clone());
    api.settle().await;
    assert_eq!(notified.take(), ["ns/c"], "an interrupted watch resumes at its last revision");
    api.disconnect(true);
    api.settle().await;
    assert_eq!(notified.take(), ["ns/c"], "after a gap, all claims in use are reported");
    shutdown.cancel();
}

#[tokio::test(start_paused = true)]
async fn forbidden_watch_is_replaced_by_polling_and_tried_again() {
    let (api, claims, shutdown) = (FakeApi::new(), Claims::default(), CancellationToken::new());
    api.seed(claim("a"));
    api.seed(claim("b"));
    claims.take("ns/a");
    let kind = FaultKind::Status(403, "Forbidden", "no");
    api.fail(Fault { verb: "list", resource: "persistentvolumeclaims", skip: 0, kind });
    let notified = start(&api, &claims, &shutdown);
    api.settle().await;
    assert_eq!(notified.take(), ["ns/a"], "the first version that is seen counts as changed");
    let bound = json!({"status": {"phase": "Bound"}});
    for name in ["ns/a", "ns/b"] {
        api.patch("persistentvolumeclaims", name, "status", bound.clone());
    }
    api.settle().await;
    assert_eq!(notified.take(), ["ns/a"]);
    api.delete("persistentvolumeclaims", "ns/a");
    api.settle().await;
    assert_eq!(notified.take(), ["ns/a"]);
    let watches = || {
        api.requests()
            .iter()
            .filter(|request| request.ends_with("GET /api/v1/persistentvolumeclaims"))
            .count()
    };
    assert_eq!(watches(), 1);
    tokio::time::sleep(poll::ASK_AGAIN).await;
    assert!(watches() > 1, "a role may permit the watch by now");
    shutdown.cancel();
}
