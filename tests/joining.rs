//! A machine joins with a bootstrap token, users get kubeconfigs, and requests for certificates are approved, denied and signed.
//!
//! `--token-auth-file` contains the bootstrap token too, so that the tests do not depend on the authentication of bootstrap tokens.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use jiff::{SignedDuration, Timestamp};
use orlop_pki::authority::{Authority, SignedKey};
use serde_json::{Value, json};

use crate::harness::http::Http;
use crate::harness::process::{ORLOP, Process, command};
use crate::harness::wait;
use crate::node::condition;
use crate::own_authority::{Server, start};

const TOKEN: &str = "abcdef.0123456789abcdef";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

async fn server() -> Server {
    let dir = tempfile::tempdir().unwrap();
    let tokens = dir.path().join("tokens.csv");
    let groups = "system:bootstrappers,system:bootstrappers:kubeadm:default-node-token";
    std::fs::write(&tokens, format!("{TOKEN},system:bootstrap:abcdef,u,\"{groups}\"\n")).unwrap();
    let tokens = tokens.display().to_string();
    let flags = [
        "--listen",
        "127.0.0.1:0",
        "--tls-san",
        "orlop.example.org",
        "--token-auth-file",
        &tokens,
        "--authorization-mode",
        "Node,RBAC",
    ];
    start(dir, &flags).await
}

/// Runs `orlop ARGS` with the administrator's kubeconfig.
fn orlop(server: &Server, args: &[&str]) -> Output {
    let kubeconfig = server.dir.path().join("data/admin.kubeconfig");
    let mut orlop = command(&*ORLOP, server.dir.path());
    orlop.args(args).arg("--kubeconfig").arg(kubeconfig).output().unwrap()
}

fn out(output: Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).unwrap()
}

fn kubectl(kubeconfig: &Path, home: &Path, args: &[&str]) -> Output {
    command("kubectl", home).arg("--kubeconfig").arg(kubeconfig).args(args).output().unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

async fn client(kubeconfig: &Path) -> Http {
    let read = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    Http::with(kube::Config::from_custom_kubeconfig(read, &Default::default()).await.unwrap())
}

#[tokio::test]
async fn machine_joins_with_a_token() {
    if !orlop_test_support::privileges::has_root("a machine that joins") {
        return;
    }
    let server = server().await;
    let admin = server.admin().await;
    let line = out(orlop(&server, &["token", "create", TOKEN, "--print-join-command", "--ttl", "1h"]));
    let line: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(line[..4], ["orlop", "node", "join", &server.url], "{line:?}");
    let root = server.dir.path().join("edge-1");
    let of_agent = |name: &str, root: &Path| -> Vec<String> {
        let root = root.display().to_string();
        ["--name", name, "--root-dir", &root, "--port", "0", "--eviction-hard="].map(str::to_owned).to_vec()
    };
    let args: Vec<String> =
        line[1..].iter().map(|word| (*word).to_owned()).chain(of_agent("edge-1", &root)).collect();

    // Another server, or another cluster.
    let other: Vec<String> =
        args.iter()
            .map(|word| {
                if word.starts_with("sha256:") { format!("sha256:{}", "0".repeat(64)) } else { word.clone() }
            })
            .collect();
    let mut refused = Process::start("wrong-hash", server.dir.path(), &other);
    assert_eq!(refused.exit_code().await, 1);
    assert!(refused.log().contains("none of the digests"), "{}", refused.log());
    assert!(!root.exists(), "nothing is written before the server is verified");

    let mut agent = Process::start("edge-1", server.dir.path(), &args);
    let ready = |node: &Value| condition(node, "Ready") == "True";
    admin.until("/api/v1/nodes/edge-1", "ready", ready).await;
    let list = admin.get(REQUESTS).await.expect(200);
    let request = &list["items"][0];
    assert_eq!(request["spec"]["username"], "system:bootstrap:abcdef", "{request:#}");
    assert_eq!(request["status"]["conditions"][0]["reason"], "AutoApproved", "{request:#}");
    for (name, want) in [
        ("", 0o750),
        ("pki", 0o700),
        ("pki/node-client.pem", 0o600),
        ("node.kubeconfig", 0o600),
        ("pki/ca.crt", 0o600),
    ] {
        assert_eq!(mode(&root.join(name)), want, "{name}");
    }
    assert!(!agent.log().contains("0123456789abcdef"), "{}", agent.log());
    let node = client(&root.join("node.kubeconfig")).await;
    assert_eq!(node.get("/api/v1/nodes/edge-1").await.code, 200);
    assert_eq!(node.get("/api/v1/secrets").await.code, 403);

    // The token has expired; the machine has joined.
    let pem = std::fs::read_to_string(root.join("pki/node-client.pem")).unwrap();
    agent.signal(rustix::process::Signal::TERM);
    assert_eq!(agent.exit_code().await, 0, "{}", agent.log());
    out(orlop(&server, &["token", "delete", "abcdef"]));
    let without: Vec<String> = {
        let at = args.iter().position(|word| word == "--token").unwrap();
        args[..at].iter().chain(&args[at + 2..]).cloned().collect()
    };
    let mut again = Process::start("edge-1-again", server.dir.path(), &without);
    wait::until(
        "it runs again",
        async || {
            if again.log().contains("has begun") { Ok(()) } else { Err(again.log()) }
        },
    )
    .await;
    assert_eq!(std::fs::read_to_string(root.join("pki/node-client.pem")).unwrap(), pem);
    again.signal(rustix::process::Signal::TERM);
    assert_eq!(again.exit_code().await, 0, "{}", again.log());

    // A certificate near its end is renewed by the node's own right, and used without a restart.
    let old = near_its_end(&server, "edge-1");
    std::fs::write(root.join("pki/node-client.pem"), &old).unwrap();
    let third = Process::start("edge-1-third", server.dir.path(), &without);
    wait::until("the certificate is renewed", async || {
        if third.log().contains("is renewed") { Ok(()) } else { Err(third.log()) }
    })
    .await;
    assert_ne!(std::fs::read_to_string(root.join("pki/node-client.pem")).unwrap(), old);
    assert_eq!(mode(&root.join("pki/node-client.pem")), 0o600);
    let list = admin.get(REQUESTS).await.expect(200);
    let renewal = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|request| request["spec"]["username"] == "system:node:edge-1");
    let message =
        renewal.map(|request| request["status"]["conditions"][0]["message"].clone()).unwrap_or_default();
    assert!(message.to_string().contains("self kubelet client certificate"), "{list:#}");
    let node = client(&root.join("node.kubeconfig")).await;
    assert_eq!(node.get("/api/v1/nodes/edge-1").await.code, 200);
}

/// A certificate of a node, and its key, of which more than nine tenths of the lifetime are over.
fn near_its_end(server: &Server, node: &str) -> String {
    let read = |name: &str| std::fs::read_to_string(server.dir.path().join("data/pki").join(name)).unwrap();
    let pair = SignedKey { certificate: read("ca.crt"), key: read("ca.key") };
    let begin = Timestamp::now() - SignedDuration::from_hours(95);
    let authority = Authority::read(&pair).unwrap();
    let lifetime = SignedDuration::from_hours(100);
    let groups = ["system:nodes".to_owned()];
    let signed = authority.client_for(&format!("system:node:{node}"), &groups, lifetime, begin).unwrap();
    signed.certificate + &signed.key
}

#[tokio::test]
async fn tokens_are_created_listed_and_deleted() {
    let server = server().await;
    let created = out(orlop(&server, &["token", "create", "--description", "for edge-2", "--ttl", "2h"]));
    let (id, secret) = created.trim().split_once('.').expect("a token");
    let list = out(orlop(&server, &["token", "list"]));
    assert!(list.contains(id) && list.contains("for edge-2") && !list.contains(secret), "{list}");
    // The signature of cluster-info with the token, for clients of kubeadm.
    let admin = server.admin().await;
    let map = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
    let key = format!("jws-kubeconfig-{id}");
    admin.until(map, "signed", |map| map["data"][&key].is_string()).await;
    assert_eq!(server.anonymous().get(map).await.code, 200, "it is public");
    assert_eq!(server.anonymous().get("/api/v1/namespaces/kube-public/configmaps").await.code, 403);
    let said = out(orlop(&server, &["token", "delete", id]));
    assert_eq!(said, format!("bootstrap token {id} deleted\n"));
    admin.until(map, "not signed", |map| map["data"][&key].is_null()).await;
    let missing = orlop(&server, &["token", "delete", id]);
    assert!(!missing.status.success() && String::from_utf8_lossy(&missing.stderr).contains("token list"));
    let wrong = orlop(&server, &["token", "create", "--groups", "system:masters"]);
    assert!(!wrong.status.success() && !String::from_utf8_lossy(&wrong.stderr).is_empty());
}

#[tokio::test]
async fn kubeconfig_of_a_user_has_the_users_rights() {
    let server = server().await;
    let (home, admin_file) = (server.dir.path(), server.dir.path().join("data/admin.kubeconfig"));
    let file = home.join("ann.kubeconfig");
    let path = file.display().to_string();
    out(orlop(&server, &["kubeconfig", "create", "--user", "ann", "--group", "devs", "--output", &path]));
    assert_eq!(mode(&file), 0o600);
    let ann = client(&file).await;
    let who = ann.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await.expect(201);
    assert_eq!(who["status"]["userInfo"]["username"], "ann");
    assert_eq!(who["status"]["userInfo"]["groups"], json!(["devs", "system:authenticated"]));
    assert_eq!(ann.get("/api/v1/namespaces").await.code, 403);
    let table = String::from_utf8(kubectl(&admin_file, home, &["get", "csr"]).stdout).unwrap();
    assert!(table.contains("REQUESTEDDURATION") && table.contains("Approved,Issued"), "{table}");
    assert!(table.contains("365d"), "{table}");

    let masters = orlop(&server, &["kubeconfig", "create", "--user", "eve", "--group", "system:masters"]);
    let why = String::from_utf8_lossy(&masters.stderr).into_owned();
    assert!(!masters.status.success() && why.contains("system:masters group is not allowed"), "{why}");
    // Ann may not approve requests, so she gets no certificate.
    let mut eve = command(&*ORLOP, home);
    let eve = eve.args(["kubeconfig", "create", "--user", "eve", "--kubeconfig", &path]).output().unwrap();
    assert!(!eve.status.success() && String::from_utf8_lossy(&eve.stderr).contains("forbidden"), "{eve:?}");
}

#[tokio::test]
async fn kubectl_approves_and_denies_requests() {
    let server = server().await;
    let (home, file) = (server.dir.path(), server.dir.path().join("data/admin.kubeconfig"));
    let admin = server.admin().await;
    let request = include_str!("../pki/src/request/testdata/ed25519.csr");
    let encoded = k8s_openapi::ByteString(request.as_bytes().to_vec());
    for name in ["good", "bad", "other"] {
        let usages = if name == "other" { json!(["server auth"]) } else { json!(["client auth"]) };
        let spec = json!({"signerName": "kubernetes.io/kube-apiserver-client", "usages": usages, "request": encoded,
            "username": "root", "groups": ["system:masters"]});
        let made = admin.create(REQUESTS, &json!({"metadata": {"name": name}, "spec": spec})).await;
        assert_eq!(made["spec"]["username"], "system:admin");
        assert_eq!(made["status"], json!({}));
    }
    for (command, name) in [("approve", "good"), ("approve", "other"), ("deny", "bad")] {
        let said = kubectl(&file, home, &["certificate", command, name]);
        assert!(said.status.success(), "{said:?}");
    }
    let issued = |request: &Value| request["status"]["certificate"].is_string();
    let good = admin.until(&format!("{REQUESTS}/good"), "issued", issued).await;
    let managed = good["metadata"]["managedFields"].as_array().unwrap();
    assert!(managed.iter().any(|entry| entry["subresource"] == "approval"), "{managed:?}");
    let failed = |request: &Value| request["status"]["conditions"][1]["type"] == "Failed";
    admin.until(&format!("{REQUESTS}/other"), "failed", failed).await;
    let bad = admin.get(&format!("{REQUESTS}/bad")).await.expect(200);
    assert_eq!(bad["status"]["conditions"][0]["type"], "Denied");
    let mut changed = bad.clone();
    changed["spec"]["usages"] = json!(["any"]);
    changed["metadata"]["labels"] = json!({"a": "b"});
    let stored = admin.put(&format!("{REQUESTS}/bad"), &changed).await.expect(200);
    assert_eq!((&stored["spec"], &stored["metadata"]["labels"]["a"]), (&bad["spec"], &json!("b")));
    let selected = admin.get(&format!("{REQUESTS}?fieldSelector=spec.signerName%3Dexample.com%2Fx")).await;
    assert_eq!(selected.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn files_are_private_for_every_umask() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // A directory of an earlier version, or of an administrator.
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    let address = dir.path().join("address");
    let args: Vec<String> = [
        "serve",
        "--data-dir",
        &data.display().to_string(),
        "--address-file",
        &address.display().to_string(),
        "--listen",
        "127.0.0.1:0",
        "--tls-san",
        "orlop.example.org",
        "--snapshot-every",
        "1s",
        "--snapshot-dir",
        &data.join("snapshots").display().to_string(),
    ]
    .map(str::to_owned)
    .to_vec();
    let prefix = ["sh", "-c", "umask 000; exec \"$@\"", "sh"].map(str::to_owned);
    let process = Process::start_in(&prefix, "umask", dir.path(), &args);
    wait::until("a snapshot is saved", async || {
        let found = std::fs::read_dir(data.join("snapshots")).is_ok_and(|mut dir| dir.next().is_some());
        if found && data.join("audit.log").exists() { Ok(()) } else { Err(process.log()) }
    })
    .await;
    let (mut todo, mut seen) = (vec![data], 0);
    while let Some(path) = todo.pop() {
        // A running server may have removed the file.
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        assert_eq!(found.permissions().mode() & 0o077, 0, "{}", path.display());
        seen += 1;
        if found.is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(seen > 10, "{seen}");
    assert!(process.log().contains("other users could read"), "{}", process.log());
}
