//! The real kubectl against the real binary: its commands, their output, and their error messages.
//!
//! Most tests are tables: a [`Row`] is one command and its expected output; the rows of a theme run in order
//! against one control plane. Commands tested outside the tables are listed in [`STORIES`]. `matrix.rs` compares
//! both with the table of docs/use-kubectl.md. The tests run the kubectl in the PATH, 1.20 or newer; they skip
//! features that an old one does not support, and report them on stderr.

mod access;
mod apply;
mod certificates;
mod change;
mod custom;
mod delete;
mod generators;
mod get;
mod matrix;
mod nodes;
mod rollout;
mod tell;
mod watch;
mod workloads;

use crate::harness::kubectl::Kubectl;
use crate::harness::plane::Plane;

const VOLUME: &str = "
apiVersion: v1
kind: PersistentVolume
metadata:
  name: pv3
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteOnce, ReadWriteMany, ReadOnlyMany]
  persistentVolumeReclaimPolicy: Retain
  mountOptions: [hard]
  nfs: {server: 172.16.51.58.1, path: /var/nfsshare/v1}
";

const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: myclaim
  namespace: test
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 5Gi}}
";

const CLASS: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: slow
  annotations: {storageclass.kubernetes.io/is-default-class: 'true'}
provisioner: example.com/none
";

const NODE: &str = "
apiVersion: v1
kind: Node
metadata:
  name: n1
  labels: {kubernetes.io/hostname: n1}
";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: test
  labels: {app: web}
spec:
  nodeName: n1
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: nginx, volumeMounts: [{name: data, mountPath: /data}]}
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: myclaim}}
";

const MYCLAIM: &str = "/api/v1/namespaces/test/persistentvolumeclaims/myclaim";
const PV3: &str = "/api/v1/persistentvolumes/pv3";

/// A control plane with `pv3` and `myclaim` bound to each other.
async fn bound() -> (Plane, Kubectl) {
    let plane = Plane::start().await;
    let kubectl = plane.kubectl();
    kubectl.run(&["create", "ns", "test"]).await.ok();
    kubectl.apply(VOLUME).await;
    kubectl.apply(CLAIM).await;
    plane.http().until(MYCLAIM, "Bound", |claim| claim["status"]["phase"] == "Bound").await;
    (plane, kubectl)
}

/// The text with `AGE` for every age, which is a few seconds, and without trailing spaces.
fn ageless(text: &str) -> String {
    let is_age = |word: &str| {
        word.strip_suffix('s').is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        for word in text.split_whitespace().filter(|word| is_age(word)) {
            // As wide as the heading, so that later columns stay aligned.
            line = format!("{line}    ").replace(&format!(" {word:<3} "), " AGE ");
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

#[test]
fn ages_are_normalized() {
    assert_eq!(ageless("A   AGE   B\nx   5s    y\nz   12s   y\n"), "A   AGE   B\nx   AGE   y\nz   AGE   y");
    assert_eq!(ageless("A   AGE\nx   5s\ny   125s"), "A   AGE\nx   AGE\ny   AGE");
}

/// One command and its expected result.
struct Row {
    /// As in the table of docs/use-kubectl.md.
    command: &'static str,
    args: &'static [&'static str],
    input: &'static str,
    /// First supported by kubectl 1.`since`.
    since: u32,
    wants: Wants,
}

/// The expected result of a command.
enum Wants {
    /// Exactly this output, except for ages.
    Text(&'static str),
    /// All these parts, on stdout or stderr; the column widths are up to kubectl.
    Parts(&'static [&'static str]),
    /// It fails, and its output contains all these parts.
    Refusal(&'static [&'static str]),
}

/// A row that expects success, with any output.
fn row(command: &'static str, args: &'static [&'static str]) -> Row {
    Row { command, args, input: "", since: 0, wants: Wants::Parts(&[]) }
}

impl Row {
    fn reads(self, input: &'static str) -> Row {
        Row { input, ..self }
    }

    fn since(self, since: u32) -> Row {
        Row { since, ..self }
    }

    fn says(self, text: &'static str) -> Row {
        Row { wants: Wants::Text(text), ..self }
    }

    fn tells(self, parts: &'static [&'static str]) -> Row {
        Row { wants: Wants::Parts(parts), ..self }
    }

    fn refuses(self, parts: &'static [&'static str]) -> Row {
        Row { wants: Wants::Refusal(parts), ..self }
    }

    /// The difference between the result and the expected one.
    async fn fault(&self, kubectl: &Kubectl) -> Option<String> {
        let said = kubectl.run_with(self.args, self.input).await;
        let well = said.code == Some(0);
        let (right, wanted): (bool, String) = match self.wants {
            Wants::Text(text) => (well && ageless(&said.out) == text, text.to_owned()),
            Wants::Parts(parts) => {
                let (out, err) = (narrow(&said.out), narrow(&said.err));
                let has = |part: &str| out.contains(&narrow(part)) || err.contains(&narrow(part));
                let missing: Vec<&&str> = parts.iter().filter(|part| !has(part)).collect();
                (well && missing.is_empty(), format!("missing: {missing:?}"))
            }
            Wants::Refusal(parts) => {
                let missing: Vec<&&str> = parts.iter().filter(|part| !said.err.contains(**part)).collect();
                (!well && missing.is_empty(), format!("a refusal; missing: {missing:?}"))
            }
        };
        (!right).then(|| {
            let (code, out, err) = (said.code, said.out, said.err);
            format!("kubectl {}\n  wanted: {wanted}\n  got {code:?}: {out}{err}", self.args.join(" "))
        })
    }
}

/// The text with every run of spaces collapsed into one.
fn narrow(text: &str) -> String {
    let mut narrow = String::with_capacity(text.len());
    for c in text.chars() {
        if c != ' ' || !narrow.ends_with(' ') {
            narrow.push(c);
        }
    }
    narrow
}

/// Runs the rows in order; fails with a list of all faults.
async fn run(kubectl: &Kubectl, rows: &[Row]) {
    let minor = kubectl.minor().await;
    let mut faults = Vec::new();
    for row in rows {
        if minor < row.since {
            let (command, since) = (row.command, row.since);
            eprintln!("left out, this kubectl is 1.{minor} and it came with 1.{since}: kubectl {command}");
            continue;
        }
        faults.extend(row.fault(kubectl).await);
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
