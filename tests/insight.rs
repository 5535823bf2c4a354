//! The commands that read the past, with a server and under both names of the program.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::plane::{Layout, Plane};
use crate::harness::process::{ORLOP, command};

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

/// Its output, and its exit code.
struct CommandOutput {
    code: i32,
    out: String,
    errors: String,
}

fn run(program: &str, dir: &Path, args: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let mut command = command(program, dir);
    let output = command.args(args).envs(variables.iter().copied()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    CommandOutput {
        code: output.status.code().unwrap(),
        out: text(&output.stdout),
        errors: text(&output.stderr),
    }
}

fn class(name: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": "example.com/none"})
}

#[tokio::test]
async fn objects_are_shown_as_of_any_revision() {
    let dir = tempfile::tempdir().unwrap();
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let (http, url) = (plane.http(), plane.url());
    http.create(CLASSES, &class("one")).await;
    let two = http.create(CLASSES, &class("two")).await;
    let then = two["metadata"]["resourceVersion"].as_str().unwrap();
    http.delete(&format!("{CLASSES}/two")).await.expect(200);
    let names = |said: &CommandOutput| {
        let lines = said.out.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };

    let ask = |args: &[&str]| {
        let args: Vec<&str> = args.iter().chain(&["--server", &url]).copied().collect();
        run(&ORLOP, dir.path(), &args, &[])
    };
    let now = ask(&["get", "sc"]);
    assert_eq!((now.code, names(&now)), (0, vec!["one".to_owned()]), "{}{}", now.out, now.errors);
    let past = ask(&["list", "StorageClass", "--as-of", then]);
    assert_eq!(names(&past), ["one", "two"], "{}{}", past.out, past.errors);
    let yaml = ask(&["get", "sc/one", "-o", "yaml"]);
    assert!(
        yaml.out.contains("name: one") && !yaml.out.contains("managedFields"),
        "{}{}",
        yaml.out,
        yaml.errors
    );
    for (args, wanted) in [
        (&["get", "pvx"][..], "no kind"),
        (
            &["get", "sc/none"],
            "cannot get storageclass none: storageclasses.storage.k8s.io \"none\" not found",
        ),
        (&["why", "sc/none"], "cannot explain storageclass none"),
        (&["get", "sc/two"], "restore it with `orlop undelete storageclass/two`"),
        (&["get", "sc", "--as-of", "999999"], "revision 999999 is in the future"),
        (&["get", "sc", "--as-of", "2000-01-01T00:00:00Z"], "the first write is newer"),
        (&["undelete", "sc/two"], "use --yes"),
        (
            &["undelete", "sc/one", "--yes"],
            "cannot undelete storageclass one: there is an object of that name",
        ),
        (&["record", "-o", "/nowhere/at/all"], "the directory /nowhere/at"),
    ] {
        let said = ask(args);
        assert!(said.code == 2 && said.errors.contains(wanted), "{args:?}: {} {}", said.code, said.errors);
    }

    let away = run(&ORLOP, dir.path(), &["get", "sc"], &[("ORLOP_SERVER", "http://127.0.0.1:1")]);
    assert!(away.code == 2 && away.errors.contains("http://127.0.0.1:1 does not answer"), "{}", away.errors);

    // As a kubectl plugin, it takes the server from the kubeconfig.
    let plugin = dir.path().join("kubectl-orlop");
    std::os::unix::fs::symlink(&*ORLOP, &plugin).unwrap();
    let config = dir.path().join("config");
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": ""}}],
        "clusters": [{"name": "k", "cluster": {"server": url}}]});
    std::fs::write(&config, kubeconfig.to_string()).unwrap();
    let said = run(
        plugin.to_str().unwrap(),
        dir.path(),
        &["get", "sc"],
        &[("KUBECONFIG", config.to_str().unwrap())],
    );
    assert_eq!((said.code, names(&said)), (0, vec!["one".to_owned()]), "{}{}", said.out, said.errors);
}

/// A volume that was deleted under its claim is restored with one command, and another one moves the claim to
/// another namespace.
#[tokio::test]
async fn lost_volume_is_restored_and_its_claim_moved() {
    const VOLUMES: &str = "/api/v1/persistentvolumes";
    const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
    let dir = tempfile::tempdir().unwrap();
    let mut plane = Plane::of(Layout::OneProcess).start().await;
    let (http, url) = (plane.http(), plane.url());
    let ask = |args: &[&str], code: i32| {
        let said = run(&ORLOP, dir.path(), args, &[("ORLOP_SERVER", &url)]);
        assert_eq!(said.code, code, "{args:?}\n{}{}", said.out, said.errors);
        said
    };
    let modes = json!(["ReadWriteOnce"]);
    let volume = json!({"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": modes,
        "hostPath": {"path": dir.path().join("disk")}}});
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": modes,
        "resources": {"requests": {"storage": "1Gi"}}}});
    http.create(VOLUMES, &volume).await;
    http.create(CLAIMS, &claim).await;
    let data = format!("{CLAIMS}/data");
    let disk = format!("{VOLUMES}/disk");
    let phase = async |path: &str, wanted: &str| {
        http.until(path, wanted, |it| it["status"]["phase"] == wanted).await;
    };
    phase(&data, "Bound").await;
    phase(&disk, "Bound").await;
    let impact = ask(&["impact", "pvc/data"], 0);
    assert!(impact.out.starts_with("persistentvolumeclaim default/data is deleted"), "{}", impact.out);

    http.delete(&disk).await.expect(200);
    let held = ask(&["why", "pv/disk"], 1).out;
    assert!(held.contains("PersistentVolume disk is Terminating") && held.contains("default/data"), "{held}");
    http.patch(&disk, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    phase(&data, "Lost").await;
    let why = ask(&["why", "pvc/data"], 1).out;
    assert!(why.starts_with("PersistentVolumeClaim default/data is Lost: it needs attention\n"), "{why}");
    let plan = ask(&["pvc", "recover", "data", "--dry-run"], 0).out;
    assert!(
        plan.contains("create PersistentVolume disk") && plan.ends_with("nothing was changed\n"),
        "{plan}"
    );
    assert!(!plan.contains("managedFields"), "{plan}");
    ask(&["pvc", "recover", "data"], 2);
    http.get(&disk).await.expect(404);
    let done = ask(&["pvc", "recover", "data", "--yes"], 0);
    assert_eq!(done.out, "done: created PersistentVolume disk\n", "{}", done.errors);
    phase(&data, "Bound").await;
    phase(&disk, "Bound").await;

    http.create("/api/v1/namespaces", &json!({"metadata": {"name": "shop"}})).await;
    let done = ask(&["pvc", "transfer", "data", "--to", "shop", "--as", "moved", "--yes"], 0).out;
    assert_eq!(done.lines().count(), 3, "{done}");
    let output = ask(&["why", "pvc/moved", "-n", "shop", "-o", "json"], 0).out;
    let why: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((&why["severity"], &why["state"]), (&json!("ok"), &json!("Bound")));
    http.get(&data).await.expect(404);

    let history: Value = serde_json::from_str(&ask(&["history", "pv/disk", "-o", "json"], 0).out).unwrap();
    let types: Vec<&str> =
        history["items"].as_array().unwrap().iter().filter_map(|item| item["type"].as_str()).collect();
    assert_eq!(types.iter().filter(|word| **word == "ADDED").count(), 2, "{types:?}");
    let file = dir.path().join("past");
    let said = ask(&["record", "-o", file.to_str().unwrap()], 0).errors;
    let lines: Vec<Value> = std::fs::read_to_string(&file)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines.len() > 20 && lines[0]["type"] == "HEADER", "{said}");
    assert!(said.starts_with("saved ") && said.contains("past; the page can replay it"), "{said}");
    plane.stop().await;
}
