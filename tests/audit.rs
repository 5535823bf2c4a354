//! `orlop volumes audit` finds volumes of a driver that the API does not know, adopts or deletes them, and leaves
//! all others alone.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::csi::Hostpath;
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::{ORLOP, command};

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const MIB: i64 = 1 << 20;

/// Its output, and its exit code.
struct CommandOutput {
    code: i32,
    out: String,
    errors: String,
}

impl CommandOutput {
    /// `handle what object` of each row of the JSON.
    fn rows(&self) -> Vec<String> {
        let json: Value =
            serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}{}", self.out, self.errors));
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        let rows = json["rows"].as_array().unwrap().iter();
        rows.map(|row| format!("{} {} {}", text(row, "handle"), text(row, "what"), text(row, "object")))
            .collect()
    }
}

fn audit(dir: &Path, plane: &Plane, driver: &Hostpath, more: &[&str]) -> CommandOutput {
    let (flag, url) = (driver.flag(), plane.url());
    let args = ["volumes", "audit", &flag, "--server", &url];
    let output = command(&*ORLOP, dir).args(args).args(more).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    CommandOutput {
        code: output.status.code().unwrap(),
        out: text(&output.stdout),
        errors: text(&output.stderr),
    }
}

#[tokio::test]
async fn unknown_volumes_are_found_adopted_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = Hostpath::start(dir.path(), &[]).await;
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    let run = |more: &[&str]| audit(dir.path(), &plane, &driver, more);

    let said = run(&[]);
    assert_eq!(said.code, 0, "{}", said.errors);
    assert!(said.out.contains("no differences"), "{}", said.out);

    let known = driver.make("known", MIB).await;
    http.create(VOLUMES, &driver.persistent_volume("pv", &known)).await;
    http.create(VOLUMES, &driver.persistent_volume("lost", "no-such-handle")).await;
    let (kept, junk) = (driver.make("kept", 3 * MIB).await, driver.make("junk", MIB).await);
    let said = run(&[]);
    assert_eq!(said.code, 1, "{}", said.errors);
    for (handle, words) in [(&kept, "3Mi   unknown to the API"), (&junk, "1Mi   unknown to the API")] {
        assert!(said.out.contains(&format!("{handle}  {words}")), "{}", said.out);
    }
    assert!(said.out.contains("missing in the driver  persistentvolume/lost"), "{}", said.out);
    let mut wanted = vec![
        format!("{known} known persistentvolume/pv"),
        "no-such-handle missing persistentvolume/lost".to_owned(),
        format!("{kept} unknown "),
        format!("{junk} unknown "),
    ];
    wanted.sort();
    let said = run(&["-o", "json"]);
    assert_eq!((said.code, said.rows()), (1, wanted));

    // Without confirmation nothing is deleted, and a volume that the API knows never is.
    let said = run(&["--delete", &junk]);
    assert_eq!(said.code, 2);
    assert!(said.errors.contains("use --yes"), "{}", said.errors);
    for (flag, handle, why) in [
        ("--delete", &known, "it is known (persistentvolume/pv); it was not changed"),
        ("--adopt", &known, "it is known (persistentvolume/pv); it was not changed"),
        ("--delete", &"no-such-handle".to_owned(), "it is missing in the driver"),
        ("--delete", &"absent".to_owned(), "no driver has such a volume"),
    ] {
        let said = run(&[flag, handle, "--delete", &junk, "--yes"]);
        assert_eq!(said.code, 2, "{handle}");
        assert!(said.errors.contains(why), "{handle}: {}", said.errors);
    }
    assert!(driver.nodes_of(&junk).await.is_some(), "one wrong wish, and none is done");

    let said = run(&["--adopt", &kept, "--delete", &junk, "--yes"]);
    assert_eq!(said.code, 1, "one is missing still: {}", said.errors);
    assert!(driver.nodes_of(&junk).await.is_none(), "it is deleted");
    let adopted = http.get(&format!("{VOLUMES}/{kept}")).await.expect(200);
    assert_eq!(adopted["spec"]["csi"]["volumeHandle"], json!(kept));
    assert_eq!(adopted["spec"]["capacity"], json!({"storage": (3 * MIB).to_string()}));
    assert_eq!(adopted["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(
        (&adopted["spec"]["accessModes"], &adopted["spec"]["volumeMode"]),
        (&json!(["ReadWriteOnce"]), &json!("Filesystem"))
    );
    assert_eq!(adopted["spec"].get("claimRef"), None);
    http.delete(&format!("{VOLUMES}/lost")).await.expect(200);
    http.patch(&format!("{VOLUMES}/lost"), &json!({"metadata": {"finalizers": []}})).await.expect(200);
    let said = run(&["-o", "json"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.errors);

    // A driver that cannot be reached is an error.
    driver.kill().await;
    let said = audit(dir.path(), &plane, &driver, &["--csi-timeout=1s"]);
    assert_eq!(said.code, 2);
    assert!(said.errors.contains("hostpath.csi.orlop.dev"), "{}", said.errors);
}

#[tokio::test]
async fn volume_being_provisioned_cannot_be_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let driver = Hostpath::start(dir.path(), &[]).await;
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    let run = |more: &[&str]| audit(dir.path(), &plane, &driver, more);
    let note = json!({"driver": "hostpath.csi.orlop.dev", "name": "pvc-1", "bytes": MIB}).to_string();
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c",
        "annotations": {"csi.orlop.dev/create-request": note}, "finalizers": ["csi.orlop.dev/provisioning"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
    http.create(CLAIMS, &claim).await;
    let made = driver.make("pvc-1", MIB).await;
    let said = run(&["-o", "json"]);
    let making =
        [" beingMade claim default/c".to_owned(), format!("{made} beingMade perhaps for claim default/c")];
    assert_eq!((said.code, said.rows().as_slice()), (0, making.as_slice()));
    let said = run(&["--delete", &made, "--yes"]);
    assert_eq!(said.code, 2);
    assert!(said.errors.contains("it is being created (perhaps for claim default/c)"), "{}", said.errors);
    // Once the volume is saved under its name, it is known; and the claim's annotation hides no other volume.
    http.create(VOLUMES, &driver.persistent_volume("pvc-1", &made)).await;
    let other = driver.make("other", MIB).await;
    let mut wanted = vec![format!("{made} known persistentvolume/pvc-1"), format!("{other} unknown ")];
    wanted.sort();
    let said = run(&["-o", "json"]);
    assert_eq!((said.code, said.rows()), (1, wanted));
    // A volume that is published to a node may be in use.
    let request = orlop_csi::v1::ControllerPublishVolumeRequest {
        volume_id: other.clone(),
        node_id: "n1".to_owned(),
        volume_capability: Some(crate::harness::csi::files()),
        ..Default::default()
    };
    driver.driver().await.controller_publish_volume(request).await.unwrap();
    let said = run(&["--delete", &other, "--yes"]);
    assert_eq!(said.code, 2);
    assert!(said.errors.contains("it is published to n1"), "{}", said.errors);
}
