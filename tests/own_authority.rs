//! A server without given certificates: it creates its own, and users authenticate with the administrator's kubeconfig.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::http::Http;
use crate::harness::process::Process;
use crate::harness::wait;

pub(crate) struct Server {
    pub(crate) url: String,
    // Before the directory, so that the process ends first.
    process: Process,
    pub(crate) dir: TempDir,
}

pub(crate) async fn start(dir: TempDir, flags: &[&str]) -> Server {
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (data, address) = (path("data"), path("address"));
    let _ = std::fs::remove_file(dir.path().join("address"));
    let args = [&["serve", "--data-dir", &data, "--address-file", &address], flags].concat();
    let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
    let mut process = Process::start("own-authority", dir.path(), &args);
    let url = wait::until("the server is ready", async || {
        assert!(process.ended().is_none(), "it ended:\n{}", process.log());
        std::fs::read_to_string(dir.path().join("address")).map_err(|_| process.log())
    })
    .await;
    Server { url: url.trim().to_owned(), process, dir }
}

impl Server {
    /// A client with the administrator's kubeconfig, at the address on which the server listens.
    pub(crate) async fn admin(&self) -> Http {
        let file = self.dir.path().join("data/admin.kubeconfig");
        let kubeconfig = Kubeconfig::read_from(file).unwrap();
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        config.cluster_url = self.url.parse().unwrap();
        Http::with(config)
    }

    /// A client that trusts the server and has no credentials.
    pub(crate) fn anonymous(&self) -> Http {
        let mut config = kube::Config::new(self.url.parse().unwrap());
        config.root_cert_file = Some(self.dir.path().join("data/pki/ca.crt"));
        Http::with(config)
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn server_creates_its_certificates_and_the_administrators_kubeconfig() {
    let flags =
        ["--listen", "0.0.0.0:0", "--tls-san", "orlop.example.org", "--advertise-address", "127.0.0.1"];
    let server = start(tempfile::tempdir().unwrap(), &flags).await;
    let port = server.url.rsplit(':').next().unwrap().to_owned();
    assert!(server.url.starts_with("https://0.0.0.0:"), "{}", server.url);
    assert!(server.process.log().contains("admin.kubeconfig"), "{}", server.process.log());
    let server = Server { url: format!("https://127.0.0.1:{port}"), ..server };
    assert_eq!(server.anonymous().get("/livez").await.code, 200);
    assert_eq!(server.anonymous().get("/api/v1/namespaces").await.code, 403);
    let admin = server.admin().await;
    assert_eq!(admin.get("/api/v1/namespaces").await.code, 200);
    let data = server.dir.path().join("data");
    for (name, want) in [
        ("", 0o700),
        ("pki", 0o700),
        ("pki/ca.key", 0o600),
        ("pki/ca.crt", 0o600),
        ("pki/front-proxy-ca.key", 0o600),
        ("pki/front-proxy-client.key", 0o600),
        ("admin.kubeconfig", 0o600),
    ] {
        assert_eq!(mode(&data.join(name)), want, "{name}");
    }
    let authority = std::fs::read_to_string(data.join("pki/ca.crt")).unwrap();
    let published = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
    admin.until(published, "the authority", |map| map["data"]["ca.crt"] == authority).await;
    // The authority and the administrator's earlier kubeconfig stay valid over a restart.
    let earlier = server.admin().await;
    let Server { mut process, dir, .. } = server;
    process.signal(Signal::TERM);
    assert_eq!(process.exit_code().await, 0, "{}", process.log());
    let listen = format!("127.0.0.1:{port}");
    let server = start(dir, &["--listen", &listen, "--tls-san", "orlop.example.org"]).await;
    assert_eq!(server.url, format!("https://{listen}"));
    assert_eq!(std::fs::read_to_string(data.join("pki/ca.crt")).unwrap(), authority);
    for client in [earlier, server.admin().await] {
        assert_eq!(client.get("/api/v1/namespaces").await.code, 200);
    }
    // A proxy of the environment does not apply to this machine.
    let kubeconfig = data.join("admin.kubeconfig").display().to_string();
    let get = ["get", "namespaces", "--kubeconfig", &kubeconfig].map(str::to_owned);
    let proxy = [("HTTPS_PROXY", "http://127.0.0.1:1")];
    let mut get = Process::start_with("get", server.dir.path(), &get, &proxy);
    assert_eq!(get.exit_code().await, 0, "{}", get.log());
}

/// Neither server opens a store, so only the authority has a lock.
#[tokio::test]
async fn second_server_leaves_the_kubeconfig_of_the_first_unchanged() {
    let flags = ["--store-backend=memory", "--listen=127.0.0.1:0", "--authorization-mode=Node,RBAC"];
    let server = start(tempfile::tempdir().unwrap(), &flags).await;
    let data = server.dir.path().join("data");
    let kubeconfig = std::fs::read(data.join("admin.kubeconfig")).unwrap();
    let of_first = data.display().to_string();
    let args = [&["serve", "--data-dir", &of_first], &flags[..]].concat();
    let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
    let mut second = Process::start("second", server.dir.path(), &args);
    assert_eq!(second.exit_code().await, 1, "{}", second.log());
    let (log, pki) = (second.log(), data.join("pki").display().to_string());
    assert!(log.contains(&pki) && log.contains("set --data-dir DIR"), "{log}");
    assert_eq!(std::fs::read(data.join("admin.kubeconfig")).unwrap(), kubeconfig);
    // Over TLS: its plain HTTP address accepts no certificate.
    let server = Server { url: server.url.replace("http://", "https://"), ..server };
    assert_eq!(server.admin().await.get("/api/v1/namespaces").await.code, 200);
}
