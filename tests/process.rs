//! The process itself: exit codes, output, signals, and access.

use std::process::Stdio;

use rustix::process::Signal;

use crate::harness::plane::{Layout, Plane};
use crate::harness::process::{ORLOP, command};
use crate::harness::wait;

/// Runs to its end; returns exit code, stdout and stderr.
fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let home = tempfile::tempdir().unwrap();
    let output = command(&*ORLOP, home.path()).args(args).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn version_and_completion_are_printed() {
    let (code, out, _) = run(&["version"]);
    assert_eq!((code, out), (Some(0), format!("orlop {}\n", env!("CARGO_PKG_VERSION"))));
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, err) = run(&["completion", shell]);
        assert_eq!(code, Some(0), "{shell}: {err}");
        assert!(out.contains("store-retention-age"), "{shell} completes flags");
    }
}

#[test]
fn invalid_usage_exits_with_2() {
    for (args, part) in [
        (&["serve", "--no-such-flag"][..], "--no-such-flag"),
        (&["serve", "--listen", "0.0.0.0:0", "--tls-cert-file", "c"], "--tls-private-key-file"),
        (
            &["serve", "--listen", "0.0.0.0:0", "--tls-cert-file", "c", "--tls-private-key-file", "k"],
            "--token-auth-file",
        ),
        (&["serve", "--log-level", "a=b=c"], "--log-level"),
        (&["controller"], "--server"),
        (&[], "Usage"),
    ] {
        let (code, out, err) = run(args);
        assert_eq!(code, Some(2), "{args:?}: {out}{err}");
        assert!(err.contains(part), "{args:?}: {err}");
    }
}

#[test]
fn failure_exits_with_1() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().display().to_string();
    let (code, out, err) = run(&["apiserver", "--listen", &address, "--data-dir", &data]);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(err.contains(&address) && err.contains("another process"), "{err}");
}

/// The pages of the program that only the start uses are no memory of an idle server.
#[tokio::test]
async fn idle_server_releases_pages_of_the_program() {
    const FEW: u64 = 16 << 20;
    let mut plane = Plane::of(Layout::OneProcess).start().await;
    wait::until("the pages are released", async || match plane.server().resident_file_bytes() {
        few if few <= FEW => Ok(()),
        many => Err(format!("{} MiB of files are in memory", many >> 20)),
    })
    .await;
    let http = plane.http();
    http.create("/api/v1/namespaces", &serde_json::json!({"metadata": {"name": "after"}})).await;
    assert_eq!(http.get("/readyz").await.code, 200);
}

#[test]
fn named_pipes_and_devices_are_no_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    let tokens = dir.path().join("tokens.csv");
    std::fs::write(&tokens, "token,ann,1\n").unwrap();
    let tokens = tokens.display().to_string();
    let (pipe, data) = (pipe.display().to_string(), dir.path().join("data").display().to_string());
    let server = ["serve", "--listen", "127.0.0.1:0", "--data-dir", &data];
    for (file, kind) in [(pipe.as_str(), "a named pipe"), ("/dev/zero", "a character device")] {
        let flags: [&[&str]; 8] = [
            &["--config", file],
            &["--token-auth-file", file],
            &["--audit-policy-file", file, "--audit-log-path", "-"],
            &["--encryption-provider-config", file],
            &["--service-account-key-file", file],
            &["--tls-cert-file", file, "--tls-private-key-file", file, "--token-auth-file", &tokens],
            &["--authorization-config", file],
            &["--from", file],
        ];
        for flags in flags {
            let (code, out, err) = run(&[&server[..], flags].concat());
            assert!(matches!(code, Some(1 | 2)), "{flags:?}: {code:?} {out}{err}");
            assert!(err.contains(file) && err.contains(kind), "{flags:?}: {out}{err}");
        }
        let (code, out, err) = run(&["controller", "--kubeconfig", file]);
        assert!(matches!(code, Some(1 | 2)), "{code:?} {out}{err}");
        assert!(err.contains(file) && err.contains(kind), "{out}{err}");
    }
}

#[tokio::test]
async fn signal_stops_the_process_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut plane = Plane::start().await;
        plane.server().signal(signal);
        assert_eq!(plane.server().exit_code().await, 0, "{signal:?}");
    }
}

#[tokio::test]
async fn second_signal_exits_immediately() {
    let mut plane =
        Plane::of(Layout::ServerAlone).server_flags(&["--shutdown-delay-duration", "1h"]).start().await;
    plane.server().signal(Signal::TERM);
    crate::harness::wait::until("it says that it stops", async || {
        let log = plane.server().log();
        if log.contains("SIGTERM received, stopping") { Ok(()) } else { Err(log) }
    })
    .await;
    plane.server().signal(Signal::TERM);
    assert_eq!(plane.server().exit_code().await, 143);
}

#[tokio::test]
async fn hangup_is_ignored() {
    let mut plane = Plane::of(Layout::ServerAlone).start().await;
    plane.server().signal(Signal::HUP);
    crate::harness::wait::until("the log reports the signal", async || {
        let log = plane.server().log();
        if log.contains("SIGHUP received and ignored") { Ok(()) } else { Err(log) }
    })
    .await;
    assert_eq!(plane.http().get("/livez").await.code, 200);
}

#[tokio::test]
async fn startup_prints_the_address_and_a_kubectl_command() {
    let mut plane = Plane::start().await;
    let url = plane.url();
    let data = plane.data_dir().display().to_string();
    let log = plane.server().log();
    for part in [format!("listening on {url}\n"), format!("kubectl --server {url} get ns"), data] {
        assert!(log.contains(&part), "{part} is not in:\n{log}");
    }
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_forbidden() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    for headers in [&[("host", "evil.example")][..], &[("origin", "http://evil.example")]] {
        let answer = http.send(axum::http::Method::GET, "/api/v1/secrets", headers, Vec::new()).await;
        assert_eq!(answer.expect(403)["reason"], "Forbidden", "{headers:?}");
    }
}

#[tokio::test]
async fn watches_end_cleanly_on_shutdown() {
    let mut plane = Plane::start().await;
    let mut watch = plane.http().watch("/api/v1/namespaces?watch=1").await;
    watch.until("the namespaces that are always there", |event| event["type"] == "ADDED").await;
    plane.server().signal(Signal::TERM);
    // A clean end: a broken stream panics in `next`.
    while watch.next().await.is_some() {}
    assert_eq!(plane.server().exit_code().await, 0);
}

#[tokio::test]
async fn two_processes_form_one_control_plane() {
    let mut plane = Plane::of(Layout::TwoProcesses).start().await;
    plane.kill_and_restart_controllers().await;
    let namespaces = plane.http().get("/api/v1/namespaces").await.expect(200);
    assert_eq!(namespaces["kind"], "NamespaceList");
    plane.stop().await;
}

#[tokio::test]
async fn kubectl_can_use_the_server() {
    let plane = Plane::start().await;
    let out = plane.kubectl().run(&["get", "namespaces", "-o", "name"]).await.ok();
    assert!(out.contains("namespace/kube-system"), "{out}");
}
