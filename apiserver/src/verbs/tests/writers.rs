//! I5: concurrent writers never overwrite each other unnoticed. The store of these tests lets other writers run
//! between the read and the write of every writer.

use futures::future::join_all;
use serde_json::{Value, json};

use super::rig::{Answer, CONFIG_MAPS, Rig, text};

fn codes(answers: &[Answer]) -> Vec<u16> {
    let mut codes: Vec<u16> = answers.iter().map(|answer| answer.code).collect();
    codes.sort_unstable();
    codes
}

#[tokio::test]
async fn concurrent_puts_lose_no_update() {
    let rig = Rig::new().await;
    rig.config_map("a", json!({})).await;
    let target = format!("{CONFIG_MAPS}/a");
    let write = || async {
        loop {
            let mut object = rig.get(&target).await.expect(200).json();
            let n: u32 = text(&object, "/data/n").parse().unwrap();
            object["data"]["n"] = (n + 1).to_string().into();
            match rig.put(&target, &object).await {
                answer if answer.code == 200 => return,
                answer => assert_eq!(answer.expect(409).reason(), "Conflict"),
            }
        }
    };
    join_all((0..20).map(|_| write())).await;
    assert_eq!(text(&rig.get(&target).await.json(), "/data/n"), "20");
}

#[tokio::test]
async fn concurrent_patches_without_a_version_all_take_effect() {
    for form in ["merge", "strategic", "json"] {
        let rig = Rig::new().await;
        rig.config_map("a", json!({})).await;
        let target = format!("{CONFIG_MAPS}/a");
        let answers = join_all((0..20).map(|n| {
            let body = match form {
                "json" => json!([{"op": "add", "path": format!("/data/k{n}"), "value": "x"}]),
                _ => json!({"data": {format!("k{n}"): "x"}}),
            };
            rig.patch(&target, form, body)
        }))
        .await;
        assert_eq!(codes(&answers), vec![200; 20], "{form}");
        let data = rig.get(&target).await.json()["data"].as_object().unwrap().len();
        assert_eq!(data, 21, "{form}");
    }
}

#[tokio::test]
async fn one_of_concurrent_patches_with_a_version_takes_effect() {
    let rig = Rig::new().await;
    let made = rig.config_map("a", json!({})).await;
    let target = format!("{CONFIG_MAPS}/a");
    let answers = join_all((0..10).map(|n| {
        let version = &made["metadata"]["resourceVersion"];
        rig.patch(
            &target,
            "merge",
            json!({"metadata": {"resourceVersion": version}, "data": {"n": (n + 1).to_string()}}),
        )
    }))
    .await;
    assert_eq!(codes(&answers), [[200].as_slice(), &[409; 9]].concat());
}

#[tokio::test]
async fn one_of_concurrent_creates_succeeds() {
    let rig = Rig::new().await;
    let body = json!({"metadata": {"name": "a"}});
    let answers = join_all((0..10).map(|_| rig.post(CONFIG_MAPS, body.clone()))).await;
    assert_eq!(codes(&answers), [[201].as_slice(), &[409; 9]].concat());
    let body = json!({"metadata": {"generateName": "g-"}});
    let answers = join_all((0..10).map(|_| rig.post(CONFIG_MAPS, body.clone()))).await;
    assert_eq!(codes(&answers), vec![201; 10], "generated names make room for each other");
}

/// A PUT of a missing object creates it; a PUT that loses the race updates the object of the winner.
#[tokio::test]
async fn one_of_concurrent_puts_creates_the_object() {
    let rig = Rig::new().await;
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    });
    let put = |n: i32| {
        let mut body = event.clone();
        body["message"] = n.to_string().into();
        let rig = &rig;
        async move { rig.put("/api/v1/namespaces/default/events/e", &body).await }
    };
    let answers = join_all((0..5).map(put)).await;
    assert_eq!(codes(&answers), [200, 200, 200, 200, 201]);

    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}});
    let target = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let answers = join_all((0..5).map(|_| rig.put(target, &lease))).await;
    assert_eq!(codes(&answers), [201, 422, 422, 422, 422], "leases are not updated without a version");
}

#[tokio::test]
async fn one_of_concurrent_bindings_succeeds() {
    let rig = Rig::new().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    rig.post("/api/v1/namespaces/default/pods", pod).await.expect(201);
    let target = "/api/v1/namespaces/default/pods/p";
    let answers = join_all((0..40).map(|n| {
        let body = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": format!("n{n}")}});
        let rig = &rig;
        async move { (n, rig.post(&format!("{target}/binding"), body).await) }
    }))
    .await;
    let winners: Vec<i32> = answers.iter().filter(|(_, a)| a.code == 201).map(|(n, _)| *n).collect();
    assert_eq!(winners.len(), 1, "exactly one binding succeeds");
    let node = text(&rig.get(target).await.json(), "/spec/nodeName");
    assert_eq!(node, format!("n{}", winners[0]));
    assert!(answers.iter().all(|(_, a)| a.code == 201 || a.code == 409));
}

#[tokio::test]
async fn patch_never_recreates_a_deleted_object() {
    let rig = Rig::new().await;
    rig.config_map("a", json!({})).await;
    let target = format!("{CONFIG_MAPS}/a");
    let patch = |n: i32| rig.patch(&target, "merge", json!({"data": {"n": (n + 1).to_string()}}));
    let (before, deleted, after) = tokio::join!(
        join_all((0..5).map(patch)),
        rig.delete(&target, Value::Null),
        join_all((5..10).map(patch)),
    );
    deleted.expect(200);
    assert!(before.iter().chain(&after).all(|answer| answer.code == 200 || answer.code == 404));
    rig.get(&target).await.expect(404);
}

/// A conditional write that is overtaken by a delete returns not found rather than a conflict. The write starts
/// at every step of the delete, so that one of the runs is overtaken.
#[tokio::test]
async fn put_overtaken_by_a_delete_finds_no_object() {
    for (with_uid, wanted) in [(false, 404), (true, 409)] {
        for steps in 0..10 {
            let rig = Rig::new().await;
            let mut object = rig.config_map("a", json!({})).await;
            let target = format!("{CONFIG_MAPS}/a");
            object["data"]["n"] = "2".into();
            if !with_uid {
                object["metadata"].as_object_mut().unwrap().remove("uid");
            }
            let put = async {
                for _ in 0..steps {
                    tokio::task::yield_now().await;
                }
                rig.put(&target, &object).await
            };
            let (deleted, put) = tokio::join!(rig.delete(&target, Value::Null), put);
            deleted.expect(200);
            if put.code != 200 {
                let put = put.expect(wanted);
                assert!(!put.text().contains("has been modified"), "{steps}: {}", put.text());
            }
        }
    }
}

/// Of several concurrent deletes, each removes the object or finds it missing.
#[tokio::test]
async fn one_of_concurrent_deletes_removes_the_object() {
    let rig = Rig::new().await;
    rig.config_map("a", json!({})).await;
    let target = format!("{CONFIG_MAPS}/a");
    let answers = join_all((0..5).map(|_| rig.delete(&target, Value::Null))).await;
    assert_eq!(codes(&answers), [200, 404, 404, 404, 404]);
    for n in 0..300 {
        rig.config_map(&format!("c{n}"), json!({})).await;
    }
    let (one, two) = tokio::join!(rig.delete(CONFIG_MAPS, Value::Null), rig.delete(CONFIG_MAPS, Value::Null));
    assert_eq!(one.expect(200).names().len(), 300);
    two.expect(200);
    assert!(rig.get(CONFIG_MAPS).await.names().is_empty());
}
