//! `kubectl apply` and `kubectl diff`, client-side and server-side.

use serde_json::json;

use super::{PV3, VOLUME};
use crate::harness::plane::{Layout, Plane};

#[tokio::test]
async fn client_side_apply_creates_updates_and_keeps_other_fields() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    assert_eq!(kubectl.apply(VOLUME).await, "persistentvolume/pv3 created\n");
    let first = http.get(PV3).await.expect(200);
    assert_eq!(kubectl.apply(VOLUME).await, "persistentvolume/pv3 unchanged\n");
    assert_eq!(http.get(PV3).await.expect(200), first);
    // Fields that are no longer in the file are removed; fields of other writers stay.
    kubectl.run(&["label", "pv", "pv3", "by=hand"]).await.ok();
    let changed = VOLUME.replace("  mountOptions: [hard]\n", "").replace("5Gi", "6Gi");
    assert_eq!(kubectl.apply(&changed).await, "persistentvolume/pv3 configured\n");
    let volume = http.get(PV3).await.expect(200);
    assert_eq!(volume["spec"]["capacity"]["storage"], "6Gi");
    assert!(volume["spec"]["mountOptions"].is_null(), "{volume:#}");
    assert_eq!(volume["metadata"]["labels"], json!({"by": "hand"}));
    let said = kubectl.run_with(&["diff", "-f", "-"], &changed).await;
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "no difference: {}", said.err);
    for more in [&[][..], &["--server-side", "--force-conflicts"]] {
        let said = kubectl.run_with(&[&["diff", "-f", "-"], more].concat(), VOLUME).await;
        assert_eq!(said.code, Some(1), "{more:?}: {}", said.err);
        assert!(said.out.contains("\n-    storage: 6Gi\n+    storage: 5Gi\n"), "{more:?}: {}", said.out);
    }
    let said = kubectl.run_with(&["apply", "--dry-run=server", "-f", "-"], VOLUME).await.ok();
    assert_eq!(said, "persistentvolume/pv3 configured (server dry run)\n");
    assert_eq!(http.get(PV3).await.expect(200), volume);
    let said = kubectl.run(&["apply", "view-last-applied", "pv", "pv3"]).await.ok();
    assert!(said.contains("storage: 6Gi") && !said.contains("mountOptions"), "{said}");
    // Switching to server-side apply keeps the existing fields.
    if kubectl.can("kubectl apply --server-side after apply, without a conflict", 26).await {
        let said = kubectl.run_with(&["apply", "--server-side", "-f", "-"], &changed).await.ok();
        assert_eq!(said, "persistentvolume/pv3 serverside-applied\n");
        let fewer = changed.replace("  persistentVolumeReclaimPolicy: Retain\n", "  mountOptions: [soft]\n");
        kubectl.run_with(&["apply", "--server-side", "-f", "-"], &fewer).await.ok();
        let volume = http.get(PV3).await.expect(200);
        assert_eq!(volume["spec"]["mountOptions"], json!(["soft"]), "{volume:#}");
        assert_eq!(volume["metadata"]["labels"], json!({"by": "hand"}), "{volume:#}");
    }
}

#[tokio::test]
async fn server_side_apply_detects_conflicts() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    if !kubectl.can("kubectl apply --server-side, out of beta", 22).await {
        return;
    }
    let apply = ["apply", "--server-side", "-f", "-"];
    for _ in 0..2 {
        let said = kubectl.run_with(&apply, VOLUME).await.ok();
        assert_eq!(said, "persistentvolume/pv3 serverside-applied\n");
    }
    let owned = kubectl.run(&["get", "pv", "pv3", "--show-managed-fields", "-o", "yaml"]).await.ok();
    assert!(owned.contains("manager: kubectl\n") && owned.contains("operation: Apply\n"), "{owned}");
    // A field that another manager owns is a conflict, and nothing changes, unless it is forced.
    let other = [&apply[..], &["--field-manager", "other"]].concat();
    let larger = VOLUME.replace("5Gi", "7Gi");
    let before = http.get(PV3).await.expect(200);
    let said = kubectl.run_with(&other, &larger).await.refused();
    assert!(said.contains("conflict with \"kubectl\": .spec.capacity.storage"), "{said}");
    assert_eq!(http.get(PV3).await.expect(200), before);
    kubectl.run_with(&[&other[..], &["--force-conflicts"]].concat(), &larger).await.ok();
    // Fields that are no longer applied are removed, unless another manager owns them too.
    let fewer = VOLUME.replace("  mountOptions: [hard]\n", "").replace("  capacity: {storage: 5Gi}\n", "");
    kubectl.run_with(&apply, &fewer).await.ok();
    let volume = http.get(PV3).await.expect(200);
    assert_eq!(volume["spec"]["capacity"]["storage"], "7Gi", "{volume:#}");
    assert_eq!(volume["spec"]["mountOptions"], json!(["hard"]), "the other one asks for it: {volume:#}");
    let said = kubectl.run_with(&[&apply[..], &["--dry-run=server"]].concat(), &fewer).await.ok();
    assert_eq!(said, "persistentvolume/pv3 serverside-applied (server dry run)\n");
    assert_eq!(http.get(PV3).await.expect(200), volume);
}

/// A directory of files: objects that are no longer in it are deleted.
#[tokio::test]
async fn apply_prunes() {
    let plane = Plane::start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    let folder = plane.dir().join("files");
    std::fs::create_dir(&folder).unwrap();
    let file = |name: &str| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
            "metadata": {"name": name, "namespace": "default"}});
        std::fs::write(folder.join(format!("{name}.json")), object.to_string()).unwrap();
    };
    file("stays");
    file("goes");
    std::fs::write(
        folder.join("kustomization.yaml"),
        "resources: [stays.json, goes.json]\nlabels: [{pairs: {app: shop}}]\n",
    )
    .unwrap();
    let folder = folder.display().to_string();
    let mut apply =
        vec!["apply", "-k", &folder, "--prune", "-l", "app=shop", "--prune-whitelist=core/v1/ConfigMap"];
    if kubectl.minor().await >= 26 {
        apply.pop();
        apply.push("--prune-allowlist=core/v1/ConfigMap");
    } else if !kubectl.can("labels without selectors in a kustomization", 26).await {
        return;
    }
    let said = kubectl.run(&apply).await.ok();
    assert_eq!(said, "configmap/goes created\nconfigmap/stays created\n");
    let stays = http.get("/api/v1/namespaces/default/configmaps/stays").await.expect(200);
    assert_eq!(stays["metadata"]["labels"], json!({"app": "shop"}));
    std::fs::write(
        std::path::Path::new(&folder).join("kustomization.yaml"),
        "resources: [stays.json]\nlabels: [{pairs: {app: shop}}]\n",
    )
    .unwrap();
    let said = kubectl.run(&apply).await.ok();
    assert_eq!(said, "configmap/stays unchanged\nconfigmap/goes pruned\n");
    http.until_gone("/api/v1/namespaces/default/configmaps/goes").await;
}
