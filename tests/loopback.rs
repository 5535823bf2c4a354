//! Users of the same machine on a server without authentication.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::harness::http::Http;
use crate::harness::plane::{Layout, Plane};

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
