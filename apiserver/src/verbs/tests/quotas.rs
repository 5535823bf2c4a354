//! Quotas under concurrent writes: other writes, including updates of the quota itself, run between the lookup
//! and the commit of every write.

use futures::future::join_all;
use serde_json::{Value, json};

use super::rig::{Answer, Rig, text, version};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const QUOTA: &str = "/api/v1/namespaces/default/resourcequotas/q";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn claim(name: &str, size: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "c",
        "resources": {"requests": {"storage": size}}}})
}

/// A server with a quota whose usage has been counted.
async fn rig(hard: Value, used: Value) -> Rig {
    let rig = Rig::new().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    rig.post(QUOTAS, quota).await.expect(201);
    let status = json!({"status": {"hard": hard, "used": used}});
    rig.patch(&format!("{QUOTA}/status"), "merge", status).await.expect(200);
    rig
}

async fn used(rig: &Rig) -> Value {
    rig.get(QUOTA).await.expect(200).json()["status"]["used"].clone()
}

fn count(answers: &[Answer], code: u16) -> usize {
    answers.iter().filter(|answer| answer.code == code).count()
}

#[tokio::test]
async fn concurrent_creates_never_exceed_a_quota() {
    let rig = rig(
        json!({"requests.storage": "10Gi", "persistentvolumeclaims": "50"}),
        json!({"requests.storage": "0", "persistentvolumeclaims": "0"}),
    )
    .await;
    let create = async |at: usize| rig.post(CLAIMS, claim(&format!("c{at}"), "3Gi")).await;
    // Another client updates the quota continuously.
    let label = async |at: usize| {
        rig.patch(QUOTA, "merge", json!({"metadata": {"labels": {"at": at.to_string()}}})).await
    };
    let (answers, labelled) = futures::join!(join_all((0..20).map(create)), join_all((0..20).map(label)));
    assert_eq!(count(&labelled, 200), 20);
    assert_eq!((count(&answers, 201), count(&answers, 403)), (3, 17));
    assert_eq!(rig.get(CLAIMS).await.names().len(), 3);
    assert_eq!(used(&rig).await, json!({"requests.storage": "9Gi", "persistentvolumeclaims": "3"}));
    let refused = answers.iter().find(|answer| answer.code == 403).unwrap().json();
    let name = text(&refused, "/details/name");
    assert_eq!(
        text(&refused, "/message"),
        format!(
            "persistentvolumeclaims \"{name}\" is forbidden: exceeded quota: q, requested: requests.storage=3Gi, \
             used: requests.storage=9Gi, limited: requests.storage=10Gi"
        )
    );
    assert_eq!(text(&refused, "/reason"), "Forbidden");
    let quota = rig.get(QUOTA).await.json();
    let managers = quota["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        managers.iter().any(|one| one["manager"] == "kube-apiserver" && one["subresource"] == "status"),
        "{quota:#}"
    );
}

#[tokio::test]
async fn rejected_and_dry_run_creates_are_not_charged() {
    let rig = rig(json!({"requests.storage": "10Gi"}), json!({"requests.storage": "0"})).await;
    rig.post(&format!("{CLAIMS}?dryRun=All"), claim("dry", "3Gi")).await.expect(201);
    let answer = rig.post(&format!("{CLAIMS}?dryRun=All"), claim("dry", "11Gi")).await.expect(403);
    assert!(answer.text().contains("exceeded quota: q"), "{}", answer.text());
    assert_eq!(used(&rig).await, json!({"requests.storage": "0"}), "dry runs");
    rig.post(CLAIMS, claim("a", "3Gi")).await.expect(201);
    rig.post(CLAIMS, claim("a", "3Gi")).await.expect(409);
    rig.post(CLAIMS, json!({"metadata": {"name": "b"}, "spec": {}})).await.expect(422);
    assert_eq!(used(&rig).await, json!({"requests.storage": "3Gi"}), "refused for other reasons");
    let answers = join_all((0..5).map(|_| rig.post(CLAIMS, claim("same", "1Gi")))).await;
    assert_eq!((count(&answers, 201), count(&answers, 409)), (1, 4));
    assert_eq!(used(&rig).await, json!({"requests.storage": "4Gi"}), "one name, one charge");
}

#[tokio::test]
async fn expanded_claim_is_charged_within_its_quota() {
    let rig = rig(json!({"requests.storage": "10Gi"}), json!({"requests.storage": "0"})).await;
    let class = json!({"metadata": {"name": "c"}, "provisioner": "p", "allowVolumeExpansion": true});
    rig.post("/apis/storage.k8s.io/v1/storageclasses", class).await.expect(201);
    rig.post(CLAIMS, claim("a", "3Gi")).await.expect(201);
    let path = format!("{CLAIMS}/a");
    rig.patch(&path, "merge", json!({"spec": {"volumeName": "v"}})).await.expect(200);
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "3Gi"}}});
    rig.patch(&format!("{path}/status"), "merge", bound).await.expect(200);
    let before = rig.get(QUOTA).await.json();
    assert_eq!(before["status"]["used"], json!({"requests.storage": "3Gi"}), "binding takes nothing");
    let grow = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    rig.patch(&path, "merge", grow("8Gi")).await.expect(200);
    assert_eq!(used(&rig).await, json!({"requests.storage": "8Gi"}));
    let refused = rig.patch(&path, "merge", grow("11Gi")).await.expect(403).json();
    assert_eq!(
        text(&refused, "/message"),
        "persistentvolumeclaims \"a\" is forbidden: exceeded quota: q, requested: requests.storage=3Gi, \
         used: requests.storage=8Gi, limited: requests.storage=10Gi"
    );
}

#[tokio::test]
async fn usage_counted_before_a_create_is_rejected() {
    let rig = Rig::new().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"persistentvolumeclaims": "1"}}});
    let fresh = rig.post(QUOTAS, quota).await.expect(201).json();
    rig.post(CLAIMS, claim("a", "1Gi")).await.expect(201);
    let mut counted = fresh.clone();
    counted["status"] =
        json!({"hard": {"persistentvolumeclaims": "1"}, "used": {"persistentvolumeclaims": "0"}});
    rig.put(&format!("{QUOTA}/status"), &counted).await.expect(409);
    let now = rig.get(QUOTA).await.json();
    assert_ne!(version(&now), version(&fresh));
    assert_eq!(now["status"], json!({}), "no usage is recorded yet, so nothing is refused");
    rig.post("/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "m"}})).await.expect(201);
    assert_eq!(
        version(&rig.get(QUOTA).await.json()),
        version(&now),
        "what it does not count leaves it alone"
    );
}

#[tokio::test]
async fn quota_created_during_a_write_is_touched() {
    let rig = Rig::new().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"persistentvolumeclaims": "1"}}});
    // Both look up the quotas before either commits; the quota commits first.
    let (quota, claim) = futures::join!(rig.post(QUOTAS, quota), rig.post(CLAIMS, claim("a", "1Gi")));
    let (quota, claim) = (quota.expect(201).json(), claim.expect(201).json());
    let number = |object: &Value| version(object).parse::<u64>().unwrap();
    assert!(number(&quota) < number(&claim), "the case that is meant");
    assert!(number(&rig.get(QUOTA).await.json()) > number(&claim), "the counter has to count again");
}

#[tokio::test]
async fn claim_is_deleted_while_the_usage_of_its_quota_is_unknown() {
    let rig = rig(json!({"requests.storage": "10Gi"}), json!({"requests.storage": "0"})).await;
    let mut held = claim("a", "3Gi");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    rig.post(CLAIMS, held).await.expect(201);
    let unknown = json!({"status": {"used": {"requests.storage": null}}});
    rig.patch(&format!("{QUOTA}/status"), "merge", unknown).await.expect(200);
    let refused = rig.post(CLAIMS, claim("b", "1Gi")).await.expect(403).text();
    assert!(refused.contains("status unknown for quota: q, resources: requests.storage"), "{refused}");
    rig.delete(&format!("{CLAIMS}/a"), json!(null)).await.expect(200);
    assert!(rig.get(&format!("{CLAIMS}/a")).await.json()["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn quotas_are_ignored_without_the_plugin() {
    let rig = Rig::with(|config| config.disabled_admission_plugins = vec!["ResourceQuota".to_owned()]).await;
    let hard = json!({"persistentvolumeclaims": "0"});
    rig.post(QUOTAS, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await.expect(201);
    let status = json!({"status": {"hard": hard, "used": {"persistentvolumeclaims": "0"}}});
    rig.patch(&format!("{QUOTA}/status"), "merge", status).await.expect(200);
    rig.post(CLAIMS, claim("a", "1Gi")).await.expect(201);
    assert_eq!(used(&rig).await, json!({"persistentvolumeclaims": "0"}));
}
