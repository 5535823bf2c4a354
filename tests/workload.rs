//! Workloads and their volumes: upstream's NFS example, a StatefulSet whose claims are bound and deleted, and a
//! kill in the middle. The controllers create the pods; the test reports them as running, as an agent on a node
//! would.

use axum::http::Request;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::http::Http;
use crate::harness::kubectl::Kubectl;
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;

// As in kubernetes/examples, staging/volumes/nfs.
const NFS_VOLUME: &str = r#"
apiVersion: v1
kind: PersistentVolume
metadata:
  name: nfs
spec:
  capacity:
    storage: 1Mi
  accessModes:
    - ReadWriteMany
  nfs:
    server: nfs-server.default.svc.cluster.local
    path: "/"
  mountOptions:
    - nfsvers=4.2
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: nfs
spec:
  accessModes:
    - ReadWriteMany
  storageClassName: ""
  resources:
    requests:
      storage: 1Mi
"#;

const NFS_SERVER: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nfs-server
spec:
  replicas: 1
  selector:
    matchLabels:
      role: nfs-server
  template:
    metadata:
      labels:
        role: nfs-server
    spec:
      containers:
      - name: nfs-server
        image: registry.k8s.io/volume-nfs:0.8
        ports:
          - name: nfs
            containerPort: 2049
          - name: mountd
            containerPort: 20048
          - name: rpcbind
            containerPort: 111
        securityContext:
          privileged: true
        volumeMounts:
          - mountPath: /exports
            name: mypvc
      volumes:
        - name: mypvc
          persistentVolumeClaim:
            claimName: nfs-pv-provisioning-demo
"#;

const NFS_BUSYBOX: &str = r#"
apiVersion: v1
kind: ReplicationController
metadata:
  name: nfs-busybox
spec:
  replicas: 2
  selector:
    name: nfs-busybox
  template:
    metadata:
      labels:
        name: nfs-busybox
    spec:
      containers:
      - image: busybox
        command:
          - sh
          - -c
          - 'while true; do date > /mnt/index.html; hostname >> /mnt/index.html; sleep $(($RANDOM % 5 + 5)); done'
        imagePullPolicy: IfNotPresent
        name: busybox
        volumeMounts:
          # name must match the volume name below
          - name: nfs
            mountPath: "/mnt"
      volumes:
      - name: nfs
        persistentVolumeClaim:
          claimName: nfs
"#;

/// A Deployment that mounts the share itself, without a claim.
const NFS_WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nfs-web
spec:
  replicas: 2
  selector:
    matchLabels:
      role: web-frontend
  template:
    metadata:
      labels:
        role: web-frontend
    spec:
      containers:
      - name: web
        image: nginx
        ports:
          - name: web
            containerPort: 80
        volumeMounts:
            # name must match the volume name below
            - name: nfs
              mountPath: "/usr/share/nginx/html"
      volumes:
      - name: nfs
        nfs:
          server: nfs-server.default.svc.cluster.local
          path: "/"
"#;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const BUSYBOX: &str = "/api/v1/namespaces/default/replicationcontrollers/nfs-busybox";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/nfs-web";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const STATEFUL: &str = "/apis/apps/v1/namespaces/default/statefulsets/db";

fn selecting(path: &str, selector: &str) -> String {
    format!("{path}?labelSelector={}", selector.replace('=', "%3D"))
}

/// The names of the objects in a list.
fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect()
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Waits until this number of pods has a label.
async fn pods(http: &Http, selector: &str, count: usize) -> Value {
    let what = format!("{count} pods with {selector}");
    http.until(&selecting(PODS, selector), &what, |list| names(list).len() == count).await
}

/// An agent that reports every pod as running and ready. It stops when it is dropped.
pub(crate) struct Agent(JoinHandle<()>);

impl Agent {
    pub(crate) fn start(http: Http) -> Self {
        Self(tokio::spawn(async move {
            loop {
                // The server may be down.
                if let Ok(answer) = http.try_get(PODS).await
                    && answer.code == 200
                {
                    for pod in
                        answer.json()["items"].as_array().into_iter().flatten().filter(|pod| !is_ready(pod))
                    {
                        let path = format!("{PODS}/{}/status", pod["metadata"]["name"].as_str().unwrap());
                        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
                        let body = json!({"status": {"phase": "Running", "conditions": [ready]}}).to_string();
                        let request =
                            Request::patch(path).header("content-type", "application/merge-patch+json");
                        // The pod may be gone by now, or the server down.
                        let _ = http.try_send(request.body(body.into()).unwrap()).await;
                    }
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether the status is up to date and has these numbers.
fn has(object: &Value, numbers: &[(&str, i64)]) -> bool {
    let status = &object["status"];
    status["observedGeneration"] == object["metadata"]["generation"]
        && numbers.iter().all(|(field, number)| status[*field].as_i64().unwrap_or(0) == *number)
}

#[tokio::test]
async fn upstream_nfs_example_works() {
    let plane = Plane::start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    for yaml in [NFS_VOLUME, NFS_SERVER, NFS_BUSYBOX, NFS_WEB] {
        kubectl.apply(yaml).await;
    }
    http.until(&format!("{CLAIMS}/nfs"), "bound", |claim| claim["status"]["phase"] == "Bound").await;
    // Two pods share the claim; there are also the server's pod, and two pods with the share in their template.
    let busybox = pods(&http, "name=nfs-busybox", 2).await;
    for pod in busybox["items"].as_array().unwrap() {
        assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "nfs", "{pod:#}");
        let owner = &pod["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["kind"], &owner["name"]),
            (&json!("ReplicationController"), &json!("nfs-busybox"))
        );
    }
    pods(&http, "role=nfs-server", 1).await;
    let web = pods(&http, "role=web-frontend", 2).await;
    assert_eq!(web["items"][0]["spec"]["volumes"][0]["nfs"]["path"], "/", "{web:#}");
    http.until(BUSYBOX, "nothing is ready", |rc| has(rc, &[("replicas", 2), ("readyReplicas", 0)])).await;

    let agent = Agent::start(http.clone());
    http.until(BUSYBOX, "all are ready", |rc| has(rc, &[("readyReplicas", 2), ("availableReplicas", 2)]))
        .await;
    scales(&http, &kubectl).await;
    rolls(&http, &kubectl).await;
    drop(agent);
    goes(&http, &kubectl).await;
}

async fn scales(http: &Http, kubectl: &Kubectl) {
    for (count, said) in [(5, "5"), (1, "1"), (0, "0"), (2, "2")] {
        kubectl.run(&["scale", "rc/nfs-busybox", "--replicas", said]).await.ok();
        kubectl.run(&["scale", "deployment/nfs-web", "--replicas", said]).await.ok();
        pods(http, "name=nfs-busybox", count).await;
        pods(http, "role=web-frontend", count).await;
        let number = i64::try_from(count).unwrap();
        http.until(BUSYBOX, "scaled", |rc| has(rc, &[("replicas", number), ("readyReplicas", number)])).await;
        http.until(WEB, "scaled", |web| has(web, &[("replicas", number), ("availableReplicas", number)]))
            .await;
    }
}

/// A rolling update, its history, a rollback, and a restart.
async fn rolls(http: &Http, kubectl: &Kubectl) {
    const ROLLOUT: &str = "deployment/nfs-web";
    let images = async || {
        let list = http.get(&selecting(PODS, "role=web-frontend")).await.json();
        let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(image).collect::<Vec<String>>()
    };
    kubectl.run(&["set", "image", ROLLOUT, "web=nginx:2"]).await.ok();
    let said = kubectl.run(&["rollout", "status", ROLLOUT, "--timeout=60s"]).await.ok();
    assert!(said.ends_with("deployment \"nfs-web\" successfully rolled out\n"), "{said}");
    pods(http, "role=web-frontend", 2).await;
    assert_eq!(images().await, ["nginx:2", "nginx:2"]);
    let history = kubectl.run(&["rollout", "history", ROLLOUT]).await.ok();
    assert!(history.contains("\n1         <none>\n2         <none>\n"), "{history}");
    let second = kubectl.run(&["rollout", "history", ROLLOUT, "--revision=2"]).await.ok();
    assert!(second.contains("nginx:2"), "{second}");

    kubectl.run(&["rollout", "undo", ROLLOUT]).await.ok();
    kubectl.run(&["rollout", "status", ROLLOUT, "--timeout=60s"]).await.ok();
    pods(http, "role=web-frontend", 2).await;
    assert_eq!(images().await, ["nginx", "nginx"]);
    let history = kubectl.run(&["rollout", "history", ROLLOUT]).await.ok();
    assert!(history.contains("\n2         <none>\n3         <none>\n"), "{history}");

    kubectl.run(&["rollout", "restart", ROLLOUT]).await.ok();
    kubectl.run(&["rollout", "status", ROLLOUT, "--timeout=60s"]).await.ok();
    let sets = http.get(&selecting(SETS, "role=web-frontend")).await.json();
    assert_eq!(names(&sets).len(), 3, "one ReplicaSet per template");
    let web = http.get(WEB).await.json();
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "4");
    let described = kubectl.run(&["describe", ROLLOUT]).await.ok();
    assert!(
        described.contains("ScalingReplicaSet") && described.contains("NewReplicaSetAvailable"),
        "{described}"
    );
}

/// The three ways to delete an owner: in the foreground, in the background, or with its dependents orphaned.
async fn goes(http: &Http, kubectl: &Kubectl) {
    kubectl.run(&["delete", "deployment/nfs-web", "--cascade=foreground", "--timeout=60s"]).await.ok();
    assert_eq!(names(&http.get(&selecting(PODS, "role=web-frontend")).await.json()), Vec::<&str>::new());
    assert_eq!(names(&http.get(&selecting(SETS, "role=web-frontend")).await.json()), Vec::<&str>::new());
    kubectl.run(&["delete", "deployment/nfs-server"]).await.ok();
    pods(http, "role=nfs-server", 0).await;
    let before = pods(http, "name=nfs-busybox", 2).await;
    kubectl.run(&["delete", "rc/nfs-busybox", "--cascade=orphan"]).await.ok();
    http.until_gone(BUSYBOX).await;
    let left = pods(http, "name=nfs-busybox", 2).await;
    assert_eq!(names(&left), names(&before));
    assert!(left["items"][0]["metadata"]["ownerReferences"].is_null(), "{left:#}");
    // A new controller with the same selector adopts them.
    kubectl.apply(NFS_BUSYBOX).await;
    http.until(BUSYBOX, "adopted", |rc| has(rc, &[("replicas", 2)])).await;
    assert_eq!(names(&pods(http, "name=nfs-busybox", 2).await), names(&before));
}

fn stateful_set(when_scaled: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
spec:
  serviceName: db
  replicas: 3
  selector:
    matchLabels: {{app: db}}
  persistentVolumeClaimRetentionPolicy: {{whenDeleted: Delete, whenScaled: {when_scaled}}}
  template:
    metadata:
      labels: {{app: db}}
    spec:
      containers:
      - name: db
        image: postgres
        volumeMounts: [{{name: data, mountPath: /data}}]
  volumeClaimTemplates:
  - metadata: {{name: data}}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {{requests: {{storage: 1Gi}}}}
"
    )
}

fn volume(number: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("db-{number}")}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
        "nfs": {"server": "127.0.0.1", "path": format!("/db/{number}")}}})
}

#[tokio::test]
async fn stateful_set_manages_its_claims() {
    let plane = Plane::start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    for number in 0..3 {
        http.create("/api/v1/persistentvolumes", &volume(number)).await;
    }
    kubectl.apply(&stateful_set("Delete")).await;
    // No pod is created after one that is not ready.
    http.until(STATEFUL, "one pod", |set| has(set, &[("replicas", 1), ("readyReplicas", 0)])).await;
    assert_eq!(names(&pods(&http, "app=db", 1).await), ["db-0"]);
    let agent = Agent::start(http.clone());
    kubectl.run(&["rollout", "status", "statefulset/db", "--timeout=60s"]).await.ok();
    assert_eq!(names(&pods(&http, "app=db", 3).await), ["db-0", "db-1", "db-2"]);
    let all_bound = |list: &Value| {
        names(list) == ["data-db-0", "data-db-1", "data-db-2"]
            && list["items"].as_array().unwrap().iter().all(|claim| claim["status"]["phase"] == "Bound")
    };
    http.until(CLAIMS, "three bound claims", all_bound).await;

    // Scaled down: the claims are deleted after their pods; their volumes are retained by policy.
    kubectl.run(&["scale", "statefulset/db", "--replicas=1"]).await.ok();
    http.until(CLAIMS, "one claim is left", |list| names(list) == ["data-db-0"]).await;
    assert_eq!(names(&pods(&http, "app=db", 1).await), ["db-0"]);
    let released = |list: &Value| {
        let volumes = list["items"].as_array().unwrap().iter();
        volumes.filter(|volume| volume["status"]["phase"] == "Released").count() == 2
    };
    http.until("/api/v1/persistentvolumes", "two released volumes", released).await;

    // Scaled up with new volumes, and down: now the claims remain.
    for number in 3..5 {
        http.create("/api/v1/persistentvolumes", &volume(number)).await;
    }
    kubectl.apply(&stateful_set("Retain")).await;
    kubectl.run(&["rollout", "status", "statefulset/db", "--timeout=60s"]).await.ok();
    http.until(CLAIMS, "three bound claims again", all_bound).await;
    let before = http.get(CLAIMS).await.json();
    kubectl.run(&["scale", "statefulset/db", "--replicas=0"]).await.ok();
    pods(&http, "app=db", 0).await;
    let after = http.until(CLAIMS, "the same claims", |list| names(list).len() == 3).await;
    let uids = |list: &Value| -> Vec<Value> {
        list["items"].as_array().unwrap().iter().map(|claim| claim["metadata"]["uid"].clone()).collect()
    };
    assert_eq!(uids(&after), uids(&before));

    // A rolling update, from the last pod to the first, and back.
    kubectl.run(&["scale", "statefulset/db", "--replicas=2"]).await.ok();
    kubectl.run(&["set", "image", "statefulset/db", "db=postgres:2"]).await.ok();
    kubectl.run(&["rollout", "status", "statefulset/db", "--timeout=60s"]).await.ok();
    let history = kubectl.run(&["rollout", "history", "statefulset/db"]).await.ok();
    assert!(history.contains("\n1         <none>\n2         <none>\n"), "{history}");
    kubectl.run(&["rollout", "undo", "statefulset/db"]).await.ok();
    kubectl.run(&["rollout", "status", "statefulset/db", "--timeout=60s"]).await.ok();
    let list = pods(&http, "app=db", 2).await;
    for pod in list["items"].as_array().unwrap() {
        assert_eq!(pod["spec"]["containers"][0]["image"], "postgres", "{pod:#}");
    }
    drop(agent);

    // Deleting the set deletes its pods, claims and revisions.
    kubectl.run(&["delete", "statefulset/db"]).await.ok();
    pods(&http, "app=db", 0).await;
    http.until(CLAIMS, "no claim", |list| names(list).is_empty()).await;
    let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
    http.until(revisions, "no revision", |list| names(list).is_empty()).await;
}

#[tokio::test]
async fn replica_counts_are_right_after_a_kill() {
    for layout in [Layout::OneProcess, Layout::TwoProcesses] {
        let mut plane = Plane::of(layout).start().await;
        let (kubectl, http) = (plane.kubectl(), plane.http());
        let parallel = stateful_set("Retain")
            .replace("  replicas: 3", "  podManagementPolicy: Parallel\n  replicas: 10");
        kubectl.apply(&NFS_BUSYBOX.replace("replicas: 2", "replicas: 20")).await;
        kubectl.apply(&NFS_WEB.replace("replicas: 2", "replicas: 20")).await;
        kubectl.apply(&parallel).await;
        // Once while the pods are being created, and once during a rollout.
        let there = |list: &Value, count: usize| names(list).len() >= count;
        http.until(PODS, "some pods", |list| there(list, 5)).await;
        plane.kill_and_restart().await;
        let agent = Agent::start(http.clone());
        http.until(PODS, "more pods", |list| there(list, 35)).await;
        kubectl.run(&["set", "image", "deployment/nfs-web", "web=nginx:2"]).await.ok();
        plane.kill_and_restart().await;
        http.until(WEB, "rolled out", |web| {
            has(web, &[("updatedReplicas", 20), ("replicas", 20), ("availableReplicas", 20)])
        })
        .await;
        http.until(BUSYBOX, "all are there", |rc| has(rc, &[("replicas", 20), ("readyReplicas", 20)])).await;
        http.until(STATEFUL, "all are there", |set| has(set, &[("replicas", 10), ("readyReplicas", 10)]))
            .await;
        // Scaling by one more shows that no other pods are still being created.
        kubectl.run(&["scale", "rc/nfs-busybox", "--replicas=21"]).await.ok();
        http.until(BUSYBOX, "one more", |rc| has(rc, &[("replicas", 21), ("readyReplicas", 21)])).await;
        let list = wait::in_time("the pods", http.get(PODS)).await.json();
        assert_eq!(names(&list).len(), 21 + 20 + 10, "{layout:?}");
        drop(agent);
        plane.stop().await;
    }
}
