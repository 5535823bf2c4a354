//! Users of the same machine: on a server without authentication, and on one that requires credentials on loopback.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use axum::http::Method;
use serde_json::{Value, json};

use crate::authorization::with_token;
use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::{ORLOP, command};
use crate::node::Swept;

/// Any user other than root and the one of the tests.
const OTHER_USER: u32 = 65_533;

/// The response to a request that a process of another user sends. bash sends it: it needs no file that the user cannot read.
fn as_user(user: u32, host: &str, port: &str, path: &str) -> String {
    let script = r#"exec 3<>"/dev/tcp/$1/$2"
printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$3" >&3
cat <&3"#;
    let output = Command::new("/bin/bash")
        .args(["-c", script, "bash", host, port, path])
        .current_dir("/")
        .uid(user)
        .gid(user)
        .output()
        .unwrap();
    let response = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(response.starts_with("HTTP/1.1 "), "{response:?} {}", String::from_utf8_lossy(&output.stderr));
    response
}

#[tokio::test]
async fn other_users_of_the_machine_need_a_token() {
    if !orlop_test_support::privileges::has_root("a request of another user") {
        return;
    }
    for (flags, code) in [(&[][..], "401"), (&["--insecure-loopback"][..], "200")] {
        let plane = Plane::of(Layout::OneProcess).default_authorization().server_flags(flags).start().await;
        let url = plane.url();
        let port = url.rsplit(':').next().unwrap();
        for (user, path, want) in [
            (0, "/api/v1/secrets", "200"),
            (OTHER_USER, "/api/v1/secrets", code),
            (OTHER_USER, "/apis/orlop.dev/v1/stream", code),
            (OTHER_USER, "/orlop/snapshot", code),
            (OTHER_USER, "/metrics", code),
            (OTHER_USER, "/livez", "200"),
        ] {
            if want == "200" && path.contains("stream") {
                continue;
            }
            let response = as_user(user, "127.0.0.1", port, path);
            assert!(
                response.starts_with(&format!("HTTP/1.1 {want} ")),
                "{flags:?} {user} {path}: {response}"
            );
            if want == "401" {
                let advice = ["kubectl create token", "TLS with a kubeconfig"];
                assert!(advice.iter().all(|part| response.contains(part)), "{response}");
            }
        }
        // A token identifies the user of any process.
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        plane.http().until(account, "created", |_| true).await;
        let token =
            plane.http().post(&format!("{account}/token"), &serde_json::json!({"spec": {}})).await.json();
        let token = token["status"]["token"].as_str().unwrap().to_owned();
        let mut config = kube::Config::new(url.parse().unwrap());
        config.auth_info.token = Some(token.into());
        let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let user = Http::with(config).post(review, &serde_json::json!({})).await.json();
        assert_eq!(user["status"]["userInfo"]["username"], "system:serviceaccount:default:default");
    }
}

/// Runs a command of orlop; returns its exit code, stdout and stderr.
pub(crate) fn orlop(plane: &Plane, data_dir: Option<&Path>, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = command(&*ORLOP, plane.dir());
    command.args(args).stdin(Stdio::null());
    if let Some(dir) = data_dir {
        command.env("ORLOP_DATA_DIR", dir);
    }
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The user of the server's process and root are no administrators here.
#[tokio::test]
async fn authorization_alone_requires_credentials() {
    let plane = Plane::of(Layout::OneProcess).closed().start().await;
    let (url, data) = (plane.url(), plane.data_dir());
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    for (path, code) in [("/livez", 200), ("/api", 403), ("/api/v1/secrets", 403), ("/metrics", 403)] {
        assert_eq!(plane.anonymous().get(path).await.code, code, "{path}");
    }
    assert_eq!(plane.http().get("/api/v1/secrets").await.code, 200, "the administrator, over TLS");
    plane.kubectl().run(&["get", "namespaces"]).await.ok();
    let mode = std::fs::metadata(plane.admin_kubeconfig()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let get = ["get", "namespaces", "--server", &url];
    let (code, out, err) = orlop(&plane, Some(&data), &get);
    assert!(code == Some(0) && out.contains("kube-system"), "{code:?} {out} {err}");
    let (code, out, err) = orlop(&plane, None, &get);
    assert!(code != Some(0) && err.contains("system:anonymous"), "{code:?} {out} {err}");
    // Components are no administrators, so they do not use the administrator's kubeconfig.
    for (component, user) in [
        (&["controller", "--server", &url][..], "system:kube-controller-manager"),
        (&["node", "--name=n1", "--server", &url], "system:node:n1"),
    ] {
        let (code, _, err) = orlop(&plane, Some(&data), component);
        assert!(code == Some(1) && err.contains("--kubeconfig FILE") && err.contains(user), "{code:?} {err}");
    }
    // A certificate of a user needs no further authority.
    let file = plane.dir().join("ann.kubeconfig").display().to_string();
    let create = ["kubeconfig", "create", "--user=ann", "--server", &url, "--output", &file];
    let (code, _, err) = orlop(&plane, Some(&data), &create);
    assert_eq!(code, Some(0), "{err}");
    let refused = orlop(&plane, None, &["get", "namespaces", "--kubeconfig", &file]).2;
    assert!(refused.contains("\"ann\" cannot list"), "{refused}");
}

/// The link that `orlop page` prints is valid once.
#[tokio::test]
async fn page_signs_in_with_a_link() {
    let mut plane = Plane::of(Layout::ServerAlone).closed().start().await;
    let (url, data) = (plane.url(), plane.data_dir());
    let anonymous = plane.anonymous();
    for path in ["/ui/", "/ui/app.js", "/docs"] {
        assert_eq!(anonymous.get(path).await.code, 200, "{path}");
    }
    let codes = "/orlop/sign-in/codes";
    assert_eq!(anonymous.post(codes, &json!({})).await.code, 403, "a code needs credentials");
    let (code, out, err) = orlop(&plane, Some(&data), &["page", "--server", &url]);
    assert_eq!(code, Some(0), "{err}");
    let secret = out.trim().strip_prefix(&format!("{url}/#code=")).unwrap_or_else(|| panic!("{out}"));
    let exchange = async |code: &str| anonymous.post("/orlop/sign-in", &json!({"code": code})).await;
    assert_eq!(exchange("guess").await.code, 401);
    let session = exchange(secret).await.expect(200);
    assert_eq!(exchange(secret).await.code, 401, "only once");
    let token = session["token"].as_str().unwrap();
    let page = with_token(&plane, token);
    let review = page.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await.expect(201);
    assert_eq!(review["status"]["userInfo"]["username"], "system:admin");
    let foreign = [("origin", "http://evil.example"), ("content-type", "application/json")];
    let body = json!({"code": secret}).to_string().into_bytes();
    let answer = anonymous.send(Method::POST, "/orlop/sign-in", &foreign, body).await;
    assert_eq!(answer.code, 403, "a page of another origin");
    let log = plane.log();
    assert!(!log.contains(secret) && !log.contains(token), "{log}");
    assert!(log.contains("orlop page"), "the log is no terminal, so it has no link: {log}");
    plane.kill_and_restart().await;
    assert_eq!(with_token(&plane, token).get("/api").await.code, 401, "sessions end with the process");
}

/// Probes connect from the agent, which runs as root on the machine of the server.
#[tokio::test]
async fn server_with_a_node_trusts_no_process_of_the_machine() {
    if !orlop_test_support::privileges::has_root("a node") {
        return;
    }
    let flags = ["--node", "--node-name=n1", "--runtime=process", "--port=0", "--eviction-hard="];
    let plane = Plane::of(Layout::OneProcess).default_authorization().server_flags(&flags).start().await;
    let _swept = Swept(plane.dir().canonicalize().unwrap());
    let refused = plane.anonymous().get("/api/v1/secrets").await.expect(401);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("admin.kubeconfig") && message.contains("orlop page"), "{message}");
    let (http, url) = (plane.http(), plane.url());
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    let probe = |path: &str| json!({"periodSeconds": 1, "httpGet": {"host": "127.0.0.1", "port": port, "path": path}});
    let container = |name: &str, kind: &str, probe: Value| json!({"name": name, "image": "dir:///", "command": ["sleep", "120"], kind: probe});
    let pods = "/api/v1/namespaces/default/pods";
    let spec = json!({"nodeName": "n1", "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false, "containers": [
        container("health", "readinessProbe", probe("/livez")),
        container("secrets", "livenessProbe", probe("/api/v1/secrets")),
    ]});
    http.until("/api/v1/namespaces/default/serviceaccounts/default", "created", |_| true).await;
    http.create(pods, &json!({"metadata": {"name": "prober"}, "spec": spec})).await;
    let is_ready = |pod: &Value, name: &str| {
        let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        statuses.filter(|status| status["name"] == name).any(|status| status["ready"] == true)
    };
    // The probe of a public path proves that probes reach the server.
    http.until(&format!("{pods}/prober"), "reaches /livez", |pod| is_ready(pod, "health")).await;
    let events = "/api/v1/namespaces/default/events?fieldSelector=reason%3DUnhealthy";
    let pod_events = http.until(events, "the probe of Secrets fails", |list| {
        list["items"].as_array().is_some_and(|items| {
            items
                .iter()
                .any(|event| event["message"].as_str().is_some_and(|text| text.contains("statuscode: 401")))
        })
    });
    pod_events.await;
    http.delete(&format!("{pods}/prober")).await.expect(200);
    http.until_gone(&format!("{pods}/prober")).await;
}
