//! Commands that create and change objects: `create`, `run`, `edit`, `patch`, `replace`, `set`, `label`,
//! `annotate`.

use serde_json::json;

use super::{CLAIM, PV3, Row, VOLUME, bound, row, run};
use crate::harness::kubectl::Kubectl;
use crate::harness::plane::{Layout, Plane};
use crate::tls::{Secured, file};

/// Unknown and duplicate fields.
const ODD: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: odd, namespace: test, lable: x}
data: {a: b}
";

const RULES: &str = "
apiVersion: v1
kind: Pod
metadata: {name: nothing, namespace: test}
spec: {containers: []}
";

/// On a control plane with an empty namespace `test`.
pub(super) fn rows() -> Vec<Row> {
    vec![
        row("create", &["create", "-f", "-"]).reads(VOLUME).says("persistentvolume/pv3 created"),
        row("create", &["create", "-f", "-"])
            .reads(VOLUME)
            .refuses(&["(AlreadyExists)", "persistentvolumes \"pv3\" already exists"]),
        row("create", &["create", "cm", "settings", "-n", "test", "--from-literal=a=b"])
            .says("configmap/settings created"),
        row("create", &["create", "secret", "generic", "pass", "-n", "test", "--from-literal=word=hushed"])
            .says("secret/pass created"),
        row("create", &["create", "sa", "robot", "-n", "test"]).says("serviceaccount/robot created"),
        row("create", &["create", "cm", "x", "-n", "nowhere"]).refuses(&["namespaces \"nowhere\" not found"]),
        row("create", &["create", "-f", "-"])
            .reads(RULES)
            .refuses(&["The Pod \"nothing\" is invalid: spec.containers: Required value"]),
        row(
            "create --save-config",
            &["create", "-f", "-", "--save-config", "-o", "jsonpath={.metadata.annotations}"],
        )
        .reads(CLAIM)
        .tells(&["kubectl.kubernetes.io/last-applied-configuration"]),
        row("create --validate=strict", &["create", "-f", "-", "--validate=strict"])
            .since(25)
            .reads(ODD)
            .refuses(&["unknown field \"metadata.lable\""]),
        row("create --validate=strict", &["create", "-f", "-", "--validate=warn", "--dry-run=server"])
            .since(25)
            .reads(ODD)
            .tells(&[
                "Warning: unknown field \"metadata.lable\"",
                "configmap/odd created (server dry run)\n",
            ]),
        row("create --validate=strict", &["create", "-f", "-", "--validate=ignore", "--dry-run=server"])
            .since(25)
            .reads(ODD)
            .says("configmap/odd created (server dry run)"),
        row(
            "create --dry-run=server",
            &["create", "ns", "later", "--dry-run=server", "-o", "jsonpath={.status.phase}"],
        )
        .says("Active"),
        row("create --dry-run=server", &["get", "ns", "later"]).refuses(&["namespaces \"later\" not found"]),
        row("create --raw", &["create", "--raw", "/api/v1/namespaces/test/configmaps", "-f", "-"])
            .reads(r#"{"metadata": {"name": "raw"}}"#)
            .tells(&["\"name\":\"raw\"", "\"uid\":"]),
        row("run", &["run", "web", "-n", "test", "--image=nginx:1.27", "--labels=app=web"])
            .says("pod/web created"),
        row("set", &["set", "image", "-n", "test", "pod/web", "web=nginx:1.28"])
            .says("pod/web image updated"),
        row("set", &["get", "pod", "web", "-n", "test", "-o", "jsonpath={.spec.containers[0].image}"])
            .says("nginx:1.28"),
        row(
            "patch --type",
            &[
                "patch",
                "pv",
                "pv3",
                "--type",
                "merge",
                "-p",
                r#"{"spec": {"persistentVolumeReclaimPolicy": "Delete"}}"#,
            ],
        )
        .says("persistentvolume/pv3 patched"),
        row(
            "patch --type",
            &[
                "patch",
                "pv",
                "pv3",
                "--type",
                "strategic",
                "-p",
                r#"{"metadata": {"finalizers": ["example.com/keep"]}, "spec": {"mountOptions": ["soft"]}}"#,
            ],
        )
        .says("persistentvolume/pv3 patched"),
        row(
            "patch --type",
            &[
                "patch",
                "pv",
                "pv3",
                "--type",
                "json",
                "-p",
                r#"[{"op": "add", "path": "/spec/mountOptions/-", "value": "ro"}]"#,
            ],
        )
        .says("persistentvolume/pv3 patched"),
        row("patch --type", &["patch", "pv", "pv3", "-p", r#"{"metadata": {"labels": null}}"#])
            .says("persistentvolume/pv3 patched (no change)"),
        row(
            "patch --type",
            &[
                "patch",
                "pv",
                "pv3",
                "--dry-run=server",
                "-p",
                r#"{"spec": {"mountOptions": ["x"]}}"#,
                "-o",
                "jsonpath={.spec.mountOptions}",
            ],
        )
        .says(r#"["x"]"#),
        // Finalizers are a set: a strategic patch adds to them.
        row(
            "patch --type",
            &[
                "get",
                "pv",
                "pv3",
                "-o",
                "jsonpath={.spec.mountOptions} {.metadata.finalizers} {.spec.persistentVolumeReclaimPolicy}",
            ],
        )
        .tells(&[
            r#"["soft","ro"]"#,
            "\"example.com/keep\"",
            "\"kubernetes.io/pv-protection\"",
            " Delete",
        ]),
        row(
            "patch --subresource",
            &[
                "patch",
                "pod",
                "web",
                "-n",
                "test",
                "--subresource=status",
                "--type=merge",
                "-p",
                r#"{"status": {"phase": "Running"}}"#,
            ],
        )
        .since(24)
        .says("pod/web patched"),
        row("patch --type", &["patch", "pv", "pv3", "-p", r#"{"spec": {"nfs": {"path": "/other"}}}"#])
            .refuses(&["spec.persistentvolumesource: Forbidden: "]),
        row(
            "patch --type",
            &["patch", "pv", "pv3", "-p", r#"{"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}"#],
        )
        .refuses(&["(Conflict)", "the object has been modified"]),
        row("label", &["label", "pv", "pv3", "tier=gold", "old=yes"]).says("persistentvolume/pv3 labeled"),
        row("label", &["label", "pv", "pv3", "tier=silver"])
            .refuses(&["'tier' already has a value (gold), and --overwrite is false"]),
        row("label", &["label", "pv", "pv3", "old-"]).since(22).says("persistentvolume/pv3 unlabeled"),
        row("label", &["label", "pv", "pv3", "--list"]).tells(&["tier=gold"]),
        row("label", &["label", "cm", "--all", "-n", "test", "seen=yes"])
            .tells(&["configmap/settings labeled"]),
        row("label", &["label", "pv", "pv3", "tier=no good"]).refuses(&["a valid label must be"]),
        // Until 1.27 the output says "annotate".
        row("annotate", &["annotate", "pv", "pv3", "example.com/note=a note"])
            .tells(&["persistentvolume/pv3 annotate"]),
        row("annotate", &["annotate", "pv", "pv3", "example.com/note=new", "--overwrite"])
            .tells(&["persistentvolume/pv3 annotate"]),
        row("annotate", &["get", "pv", "pv3", "-o", r"jsonpath={.metadata.annotations.example\.com/note}"])
            .says("new"),
    ]
}

#[tokio::test]
async fn create_patch_label_and_annotate_print_results() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let kubectl = plane.kubectl();
    let said = kubectl.run(&["create", "ns", "test"]).await.ok();
    assert_eq!(said, "namespace/test created\n");
    run(&kubectl, &rows()).await;
}

#[tokio::test]
async fn edit_saves_valid_changes_and_reopens_invalid_ones() {
    let (plane, kubectl) = bound().await;
    let args = ["pv", "pv3"];
    let said = kubectl.edit(&args, "sed -i 's/Policy: Retain/Policy: Delete/' \"$1\"\n").await.ok();
    assert_eq!(said, "persistentvolume/pv3 edited\n");
    let volume = plane.http().get(PV3).await.expect(200);
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    let said = kubectl.edit(&args, "true\n").await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("no changes made"), "{}{}", said.out, said.err);
    // kubectl opens the editor again with the server's error; then the script gives up.
    let script = "
if grep 'was not valid' \"$1\"; then cp \"$1\" $HOME/shown; exit 1; fi
sed -i 's/Policy: Delete/Policy: Keep/' \"$1\"
";
    let said = kubectl.edit(&args, script).await.refused();
    assert!(said.contains("persistentvolumes \"pv3\" is invalid"), "{said}");
    let shown = std::fs::read_to_string(plane.dir().join("shown")).unwrap();
    let why = "# * spec.persistentVolumeReclaimPolicy: Unsupported value: \"Keep\": supported values: ";
    assert!(shown.contains(why), "{shown}");
    if kubectl.can("kubectl edit --subresource", 24).await {
        let script = "sed -i 's/phase: Bound/phase: Lost/' \"$1\"\n";
        let args = ["pvc", "myclaim", "-n", "test", "--subresource=status", "--output-patch"];
        let said = kubectl.edit(&args, script).await.ok();
        assert!(said.contains(r#"{"status":{"phase":"Lost"}}"#), "{said}");
    }
}

#[tokio::test]
async fn replace_updates_rejects_conflicts_and_can_force() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    let map = |data: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": data}})
            .to_string()
    };
    let said = kubectl.run_with(&["replace", "-f", "-"], &map("b")).await.refused();
    assert!(said.contains("configmaps \"c\" not found"), "{said}");
    kubectl.run_with(&["create", "-f", "-"], &map("b")).await.ok();
    let first = http.get("/api/v1/namespaces/default/configmaps/c").await.expect(200);
    let said = kubectl.run_with(&["replace", "-f", "-"], &map("c")).await.ok();
    assert_eq!(said, "configmap/c replaced\n");
    let second = http.get("/api/v1/namespaces/default/configmaps/c").await.expect(200);
    assert_eq!(
        (&second["data"], &second["metadata"]["uid"]),
        (&json!({"a": "c"}), &first["metadata"]["uid"])
    );
    let old = first.to_string();
    let said = kubectl.run_with(&["replace", "-f", "-"], &old).await.refused();
    assert!(said.contains("(Conflict)") && said.contains("the object has been modified"), "{said}");
    let said = kubectl.run_with(&["replace", "--force", "-f", "-"], &map("d")).await.ok();
    assert_eq!(said, "configmap \"c\" deleted\nconfigmap/c replaced\n");
    let third = http.get("/api/v1/namespaces/default/configmaps/c").await.expect(200);
    assert_eq!(third["data"], json!({"a": "d"}));
    assert_ne!(third["metadata"]["uid"], first["metadata"]["uid"], "it is another object");
}

#[tokio::test]
async fn invalid_objects_show_every_error() {
    let (_plane, kubectl) = bound().await;
    let unknown = VOLUME.replace("pv3", "pv4").replace("path:", "pfad: x, path:");
    let said = kubectl.run_with(&["create", "-f", "-"], &unknown).await.refused();
    assert!(said.contains("unknown field") && said.contains("pfad"), "{said}");
    let wrong = VOLUME.replace("pv3", "pv4").replace("5Gi", "-5Gi").replace("ReadWriteMany", "Sometimes");
    let said = kubectl.run_with(&["create", "-f", "-"], &wrong).await.refused();
    assert!(said.contains("The PersistentVolume \"pv4\" is invalid"), "{said}");
    for field in ["spec.capacity[storage]", "spec.accessModes"] {
        assert!(said.contains(&format!("* {field}: ")), "every error at once, {field}: {said}");
    }
}

#[tokio::test]
async fn unauthenticated_and_untrusted_requests_fail() {
    let server = Secured::start().await;
    let ca = file("ca.crt").display().to_string();
    let kubectl = Kubectl::new(&server.url, server.dir.path());
    let with = |token: &'static str| {
        ["--certificate-authority", &ca, "--token", token, "get", "pv"].map(str::to_owned)
    };
    let run = async |args: &[String]| kubectl.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(run(&with("hush")).await.err, "No resources found\n");
    let said = run(&with("guess")).await.refused();
    assert_eq!(
        said.lines().last(),
        Some("error: You must be logged in to the server (Unauthorized)"),
        "{said}"
    );
    let said = kubectl.run(&["get", "pv", "--token", "hush"]).await.refused();
    assert!(said.contains("certificate"), "an unknown certificate is refused: {said}");
}
