//! The life of one volume and one claim, driven with kubectl: created, bound, lost, found again, released, not
//! recycled, and freed by hand. The same story runs in one process and in two, in either order, and with a `kill
//! -9` after every command and after every state (I6).
//!
//! The commands check the states on the way. In addition, a watch that started before the story checks the
//! history: it shows every state that volume and claim ever had, and must contain no others.

use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::kubectl::Kubectl;
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;

const VOLUMES: &str = "/api/v1/persistentvolumes";
const PV3: &str = "/api/v1/persistentvolumes/pv3";
const PV4: &str = "/api/v1/persistentvolumes/pv4";
const CLAIMS: &str = "/api/v1/namespaces/test/persistentvolumeclaims";
const MYCLAIM: &str = "/api/v1/namespaces/test/persistentvolumeclaims/myclaim";
const RECYCLER: &str = "/api/v1/namespaces/default/pods/recycler-for-pv3";

const CLAIM_YAML: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: myclaim
  namespace: test
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 5Gi
";

/// The error of the recycler pod.
const COMPLAINT: &str = "mount.nfs: No route to host";

/// The change in the editor: removes the claimRef, with everything below it.
const REMOVE_CLAIM_REF: &str = r#"sed -i '/^  claimRef:/,/^  [a-z]/{/^  claimRef:/d;/^    /d}' "$1"
"#;

fn volume_yaml(name: &str) -> String {
    format!(
        "
apiVersion: v1
kind: PersistentVolume
metadata:
  name: {name}
spec:
  capacity:
    storage: 5Gi
  accessModes: [ReadWriteOnce, ReadWriteMany, ReadOnlyMany]
  persistentVolumeReclaimPolicy: Recycle
  nfs:
    server: 172.16.51.58.1
    path: /var/nfsshare/v1
"
    )
}

/// The process that is killed after every command and after every state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Killed {
    None,
    Server,
    Controllers,
}

/// The object that is created first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Volume,
    Claim,
}

/// The way in which the claimRef is removed at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hand {
    Patch,
    Edit,
}

struct Story {
    plane: Plane,
    kubectl: Kubectl,
    http: Http,
    killed: Killed,
}

impl Story {
    async fn begin(layout: Layout, killed: Killed) -> Story {
        // Without kills, no step may depend on a resync: the first one would come long after the timeout of every wait.
        // A controller that dies while recycling leaves its pod behind, and the next one retries at a resync, as
        // upstream.
        let period = if killed == Killed::None { "1h" } else { "1s" };
        let without = "--controllers=*,-persistentvolume-protection-controller,-persistentvolumeclaim-protection-controller";
        let plane = Plane::of(layout)
            .server_flags(&["--disable-admission-plugins=StorageObjectInUseProtection"])
            .controller_flags(&[without, "--pvclaimbinder-sync-period", period])
            .start()
            .await;
        let (kubectl, http) = (plane.kubectl(), plane.http());
        Story { plane, kubectl, http, killed }
    }

    async fn kill(&mut self) {
        match self.killed {
            Killed::None => {}
            Killed::Server => self.plane.kill_and_restart_server().await,
            Killed::Controllers => self.plane.kill_and_restart_controllers().await,
        }
    }

    /// A command that must succeed.
    async fn run(&mut self, args: &[&str]) -> String {
        let said = self.kubectl.run(args).await.ok();
        self.kill().await;
        said
    }

    async fn apply(&mut self, yaml: &str) {
        self.kubectl.apply(yaml).await;
        self.kill().await;
    }

    /// A state that must be reached.
    async fn see(&mut self, path: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let seen = self.http.until(path, what, fits).await;
        self.kill().await;
        seen
    }

    async fn see_phase(&mut self, path: &str, phase: &str) -> Value {
        self.see(path, phase, |object| object["status"]["phase"] == phase).await
    }
}

async fn tell(layout: Layout, killed: Killed, first: First, hand: Hand) {
    let mut story = Story::begin(layout, killed).await;
    story.run(&["create", "namespace", "test"]).await;
    let before = story.http.get(VOLUMES).await.expect(200)["metadata"]["resourceVersion"].clone();
    let before = before.as_str().unwrap().to_owned();

    // Both are created and bound to each other.
    match first {
        First::Volume => {
            story.apply(&volume_yaml("pv3")).await;
            story.see_phase(PV3, "Available").await;
            story.apply(CLAIM_YAML).await;
        }
        First::Claim => {
            story.apply(CLAIM_YAML).await;
            story.see_phase(MYCLAIM, "Pending").await;
            story.apply(&volume_yaml("pv3")).await;
        }
    }
    let claim = story.see_phase(MYCLAIM, "Bound").await;
    let volume = story.see_phase(PV3, "Bound").await;
    assert_bound(&claim, &volume);
    let uid = claim["metadata"]["uid"].clone();

    // The volume is deleted. Its claim still refers to it, and binds to no other.
    story.run(&["delete", "pv", "pv3"]).await;
    let lost = story.see_phase(MYCLAIM, "Lost").await;
    assert_eq!(lost["spec"]["volumeName"], "pv3");
    assert_eq!(lost["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"], "yes");
    story.apply(&volume_yaml("pv4")).await;
    story.see_phase(PV4, "Available").await;

    // The volume is created again, and both are bound again.
    story.apply(&volume_yaml("pv3")).await;
    let claim = story.see_phase(MYCLAIM, "Bound").await;
    let volume = story.see_phase(PV3, "Bound").await;
    assert_bound(&claim, &volume);
    assert_eq!(claim["metadata"]["uid"], uid, "the same claim as before");

    // The claim is deleted. The volume still refers to it, and is recycled.
    story.run(&["delete", "pvc", "--namespace", "test", "myclaim"]).await;
    let released = story
        .see(PV3, "Released (or retried, after a crash)", |volume| {
            let phase = &volume["status"]["phase"];
            phase == "Released" || killed != Killed::None && phase == "Failed"
        })
        .await;
    assert_eq!(released["spec"]["claimRef"]["uid"], uid);
    let pod = story.see(RECYCLER, "there", |_| true).await;
    assert_eq!(pod["spec"]["volumes"][0]["nfs"], released["spec"]["nfs"]);
    assert_eq!(pod["spec"]["restartPolicy"], "Never");

    // The recycler pod fails, and then the volume.
    recycling_fails(&story.http, killed).await;
    story.kill().await;
    let failed = story.see_phase(PV3, "Failed").await;
    assert_eq!(failed["spec"]["claimRef"]["uid"], uid);

    // The claimRef is removed by hand: the volume is available again.
    match hand {
        Hand::Patch => {
            let patch = r#"[{"op": "remove", "path": "/spec/claimRef"}]"#;
            story.run(&["patch", "pv", "pv3", "--type=json", "--patch", patch]).await;
        }
        Hand::Edit => {
            let said = story.kubectl.edit(&["pv", "pv3"], REMOVE_CLAIM_REF).await.ok();
            assert!(said.contains("persistentvolume/pv3 edited"), "{said}");
            story.kill().await;
        }
    }
    let free = story.see_phase(PV3, "Available").await;
    assert!(free["spec"]["claimRef"].is_null(), "{free:#}");

    check_history(&story.http, &before).await;
    story.plane.stop().await;
}

#[track_caller]
fn assert_bound(claim: &Value, volume: &Value) {
    let yes = |object: &Value, annotation: &str| {
        assert_eq!(object["metadata"]["annotations"][annotation], "yes", "{object:#}");
    };
    yes(claim, "pv.kubernetes.io/bind-completed");
    yes(claim, "pv.kubernetes.io/bound-by-controller");
    yes(volume, "pv.kubernetes.io/bound-by-controller");
    assert_eq!(claim["spec"]["volumeName"], "pv3");
    assert_eq!(claim["status"]["capacity"]["storage"], "5Gi");
    let modes = json!(["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"]);
    assert_eq!(claim["status"]["accessModes"], modes);
    let reference = &volume["spec"]["claimRef"];
    for (field, wanted) in
        [("apiVersion", "v1"), ("kind", "PersistentVolumeClaim"), ("namespace", "test"), ("name", "myclaim")]
    {
        assert_eq!(reference[field], wanted, "{volume:#}");
    }
    assert_eq!(reference["uid"], claim["metadata"]["uid"], "{volume:#}");
}

/// Marks the recycler pod as failed, as a kubelet would, until the volume reports this failure. A controller that
/// died meanwhile leaves its pod to the next one, which fails the volume because of it and creates another pod;
/// the volume keeps the message of its first failure.
async fn recycling_fails(http: &Http, killed: Killed) {
    let status = json!({"status": {"phase": "Failed", "message": COMPLAINT}});
    wait::until("pv3: Failed because its pod failed", async || {
        let volume = http.get(PV3).await.expect(200);
        let message = volume["status"]["message"].as_str().unwrap_or_default();
        let left_over = message == "Recycle failed: old recycler pod found, will retry later";
        if volume["status"]["phase"] == "Failed" && !(left_over && killed == Killed::None) {
            let pod_failed = message == format!("Recycle failed: failed to recycle volume: {COMPLAINT}");
            assert!(left_over || pod_failed, "{message}");
            return Ok(());
        }
        let pod = http.patch(&format!("{RECYCLER}/status"), &status).await;
        Err(format!("{volume:#}\n{}", pod.text()))
    })
    .await;
}

/// Checks the states of volume and claim, from a watch of all changes since `before`.
async fn check_history(http: &Http, before: &str) {
    let lives = lives(http, CLAIMS, before).await;
    assert_eq!(lives["myclaim"], [vec!["Pending", "Bound", "Lost", "Bound"]], "the claim");
    let lives = self::lives(http, VOLUMES, before).await;
    assert_eq!(lives["pv4"], [vec!["Pending", "Available"]], "the volume without a claim");
    let [one, two] = &lives["pv3"][..] else { panic!("pv3 lived twice: {lives:?}") };
    // A volume with a waiting claim may or may not be Available first, depending on which one the binder syncs
    // first.
    let bound = |life: &[String]| life.iter().position(|phase| phase == "Bound").expect("it was bound");
    for life in [one, two] {
        let begin = &life[..bound(life)];
        assert!(begin == ["Pending"] || begin == ["Pending", "Available"], "{lives:?}");
    }
    assert_eq!(one[bound(one)..], ["Bound"], "{lives:?}");
    assert_eq!(two[bound(two)..], ["Bound", "Released", "Failed", "Available"], "{lives:?}");
}

/// By name: one list of phases per life, without repetitions.
async fn lives(
    http: &Http,
    path: &str,
    before: &str,
) -> std::collections::BTreeMap<String, Vec<Vec<String>>> {
    let now = http.get(path).await.expect(200);
    let now: u64 = now["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let query = format!("{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion={before}");
    let mut watch = http.watch(&query).await;
    let mut lives = std::collections::BTreeMap::<String, Vec<Vec<String>>>::new();
    while let Some(event) = watch.next().await {
        let (kind, object) = (event["type"].as_str().unwrap(), &event["object"]);
        let revision: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        if kind == "BOOKMARK" || revision > now {
            continue;
        }
        let lives = lives.entry(object["metadata"]["name"].as_str().unwrap().to_owned()).or_default();
        if kind == "ADDED" {
            lives.push(Vec::new());
        }
        let life = lives.last_mut().expect("first of all it was added");
        let phase = object["status"]["phase"].as_str().unwrap_or("none").to_owned();
        if life.last() != Some(&phase) {
            life.push(phase);
        }
    }
    lives
}

#[tokio::test]
async fn one_process_binds_volume_first() {
    tell(Layout::OneProcess, Killed::None, First::Volume, Hand::Patch).await;
}

#[tokio::test]
async fn one_process_binds_claim_first() {
    tell(Layout::OneProcess, Killed::None, First::Claim, Hand::Edit).await;
}

#[tokio::test]
async fn one_process_survives_kills_volume_first() {
    tell(Layout::OneProcess, Killed::Server, First::Volume, Hand::Edit).await;
}

#[tokio::test]
async fn one_process_survives_kills_claim_first() {
    tell(Layout::OneProcess, Killed::Server, First::Claim, Hand::Patch).await;
}

#[tokio::test]
async fn two_processes_bind_volume_first() {
    tell(Layout::TwoProcesses, Killed::None, First::Volume, Hand::Edit).await;
}

#[tokio::test]
async fn two_processes_bind_claim_first() {
    tell(Layout::TwoProcesses, Killed::None, First::Claim, Hand::Patch).await;
}

#[tokio::test]
async fn server_kills_are_survived_volume_first() {
    tell(Layout::TwoProcesses, Killed::Server, First::Volume, Hand::Patch).await;
}

#[tokio::test]
async fn server_kills_are_survived_claim_first() {
    tell(Layout::TwoProcesses, Killed::Server, First::Claim, Hand::Edit).await;
}

#[tokio::test]
async fn controller_kills_are_survived_volume_first() {
    tell(Layout::TwoProcesses, Killed::Controllers, First::Volume, Hand::Edit).await;
}

#[tokio::test]
async fn controller_kills_are_survived_claim_first() {
    tell(Layout::TwoProcesses, Killed::Controllers, First::Claim, Hand::Patch).await;
}

/// I8: an object in use is not deleted but remains Terminating. The volume waits for its claim, the claim for its
/// pod.
async fn protected(layout: Layout, killed: Killed) {
    let plane = Plane::of(layout).controller_flags(&["--pvclaimbinder-sync-period", "1h"]).start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    let mut story = Story { plane, kubectl, http, killed };
    story.run(&["create", "namespace", "test"]).await;
    story.apply(&volume_yaml("pv3")).await;
    story.apply(CLAIM_YAML).await;
    story.see_phase(MYCLAIM, "Bound").await;
    let volume = story.see_phase(PV3, "Bound").await;
    assert_eq!(volume["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    // Only a pod that is assigned to a node uses its claims.
    let pod = "
apiVersion: v1
kind: Node
metadata: {name: here}
---
apiVersion: v1
kind: Pod
metadata: {name: user, namespace: test}
spec:
  nodeName: here
  containers: [{name: c, image: none}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: myclaim}}]
";
    story.apply(pod).await;
    let terminating = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();

    story.run(&["delete", "pv", "pv3", "--wait=false"]).await;
    let said = story.run(&["get", "pv", "pv3", "--no-headers"]).await;
    assert!(said.contains(" Terminating "), "{said}");
    story
        .see(PV3, "waits for its claim", |volume| terminating(volume) && volume["status"]["phase"] == "Bound")
        .await;
    story.run(&["delete", "pvc", "myclaim", "--namespace", "test", "--wait=false"]).await;
    let said = story.run(&["get", "pvc", "myclaim", "--namespace", "test", "--no-headers"]).await;
    assert!(said.contains(" Terminating "), "{said}");
    story
        .see(MYCLAIM, "waits for its pod", |claim| terminating(claim) && claim["status"]["phase"] == "Bound")
        .await;

    // The last user is deleted, and everything else follows.
    story.run(&["delete", "pod", "user", "--namespace", "test", "--force", "--grace-period=0"]).await;
    story.http.until_gone(MYCLAIM).await;
    story.http.until_gone(PV3).await;
    story.plane.stop().await;
}

#[tokio::test]
async fn objects_in_use_are_protected_in_one_process() {
    protected(Layout::OneProcess, Killed::None).await;
}

#[tokio::test]
async fn objects_in_use_are_protected_while_one_process_is_killed() {
    protected(Layout::OneProcess, Killed::Server).await;
}

#[tokio::test]
async fn objects_in_use_are_protected_in_two_processes() {
    protected(Layout::TwoProcesses, Killed::None).await;
}

#[tokio::test]
async fn objects_in_use_are_protected_while_controllers_are_killed() {
    protected(Layout::TwoProcesses, Killed::Controllers).await;
}
