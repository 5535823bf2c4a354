//! One control plane per test: a data directory, a port, and one or two processes.
//!
//! Roles decide about every request (`--authorization-mode=Node,RBAC`), so that each test proves that controllers and
//! agents have the rights that they need, and no component is an administrator. The test's own clients are:
//!
//! * over plain HTTP without credentials, because the plane sets `--insecure-loopback`;
//! * on a plane with a node (`--node`) or after [`Builder::closed`], with the administrator's kubeconfig that the server
//!   writes. [`Plane::http`] and [`Plane::kubectl`] use it.
//!
//! When a plane is dropped, a component that lacked a right fails the test.

use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use super::http::Http;
use super::kubectl::Kubectl;
use super::process::Process;
use super::wait;

/// The processes of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `orlop serve`
    OneProcess,
    /// `orlop apiserver` and `orlop controller`
    TwoProcesses,
    /// `orlop apiserver`: no controllers run
    ServerAlone,
}

/// A control plane that is configured but not yet started.
pub(crate) struct Builder {
    layout: Layout,
    server_flags: Vec<String>,
    controller_flags: Vec<String>,
    default_authorization: bool,
    closed: bool,
}

/// A running control plane.
pub(crate) struct Plane {
    layout: Layout,
    server_flags: Vec<String>,
    controller_flags: Vec<String>,
    default_authorization: bool,
    /// Whether clients on loopback need credentials that the server writes.
    closed: bool,
    /// `127.0.0.1:PORT`; unchanged by restarts, so that clients reconnect.
    address: String,
    server: Option<Process>,
    controllers: Option<Process>,
    // The last field: the processes must end before their files are removed.
    dir: TempDir,
}

impl Builder {
    /// Flags of the API server (and of `serve`).
    pub(crate) fn server_flags(mut self, flags: &[&str]) -> Self {
        self.server_flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    /// Leaves the authorization mode to the server, which permits everything over loopback.
    pub(crate) fn default_authorization(mut self) -> Self {
        self.default_authorization = true;
        self
    }

    /// Requires credentials on loopback, as every server with authorization does.
    pub(crate) fn closed(mut self) -> Self {
        self.closed = true;
        self
    }

    /// Flags of the controllers, in either layout.
    pub(crate) fn controller_flags(mut self, flags: &[&str]) -> Self {
        self.controller_flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    /// Starts it, and waits until it is ready.
    pub(crate) async fn start(self) -> Plane {
        let mut plane = Plane {
            layout: self.layout,
            server_flags: self.server_flags,
            controller_flags: self.controller_flags,
            default_authorization: self.default_authorization,
            closed: self.closed,
            address: "127.0.0.1:0".to_owned(),
            server: None,
            controllers: None,
            dir: tempfile::tempdir().unwrap(),
        };
        plane.start_again().await;
        plane
    }
}

impl Plane {
    /// A control plane with this layout.
    pub(crate) fn of(layout: Layout) -> Builder {
        let (server_flags, controller_flags) = (Vec::new(), Vec::new());
        Builder { layout, server_flags, controller_flags, default_authorization: false, closed: false }
    }

    /// One process, all defaults.
    pub(crate) async fn start() -> Plane {
        Self::of(Layout::OneProcess).start().await
    }

    /// The URL of the API server.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The directory of this control plane; the store is in `data`.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The store's directory.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A client with its own connections.
    pub(crate) fn http(&self) -> Http {
        if !self.closed {
            return self.anonymous();
        }
        let kubeconfig = Kubeconfig::read_from(self.admin_kubeconfig()).expect("the server writes it");
        let options = KubeConfigOptions::default();
        let loaded = kube::Config::from_custom_kubeconfig(kubeconfig, &options).now_or_never();
        Http::with(loaded.expect("it waits for nothing").unwrap())
    }

    /// A client without credentials, over plain HTTP.
    pub(crate) fn anonymous(&self) -> Http {
        Http::new(&self.url())
    }

    /// The administrator's kubeconfig, which a server that requires credentials writes.
    pub(crate) fn admin_kubeconfig(&self) -> PathBuf {
        self.data_dir().join("admin.kubeconfig")
    }

    /// A typed client.
    pub(crate) fn client(&self) -> kube::Client {
        self.http().client()
    }

    /// kubectl for this control plane.
    pub(crate) fn kubectl(&self) -> Kubectl {
        match self.closed {
            true => Kubectl::with_kubeconfig(&self.admin_kubeconfig(), self.dir.path()),
            false => Kubectl::new(&self.url(), self.dir.path()),
        }
    }

    /// The process with the API server.
    pub(crate) fn server(&mut self) -> &mut Process {
        self.server.as_mut().expect("the server has been started")
    }

    /// The output of the process with the API server so far.
    pub(crate) fn log(&self) -> String {
        self.server.as_ref().expect("the server is running").log()
    }

    /// The resident memory of the process with the API server, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.server.as_ref().expect("the server is running").resident_bytes()
    }

    /// The process with the controllers, if it is separate.
    pub(crate) fn controllers(&mut self) -> &mut Process {
        self.controllers.as_mut().expect("the controllers have a process of their own")
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// A kubeconfig of another user, which the administrator impersonates.
    pub(crate) fn kubeconfig(&self, user: &str, groups: &[&str]) -> String {
        let file = self.path(&format!("{}.kubeconfig", user.replace(':', "-")));
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": self.url()}}],
            "users": [{"name": "u", "user": {"as": user, "as-groups": groups}}]});
        std::fs::write(&file, config.to_string()).unwrap();
        file
    }

    /// The flag with which an agent connects as its node.
    pub(crate) fn agent_flag(&self, node: &str) -> String {
        format!("--kubeconfig={}", self.kubeconfig(&format!("system:node:{node}"), &["system:nodes"]))
    }

    /// Starts the processes that are not running, and waits until the server is ready.
    pub(crate) async fn start_again(&mut self) {
        if self.server.is_none() {
            self.start_server().await;
        }
        if self.layout == Layout::TwoProcesses && self.controllers.is_none() {
            let user = self.kubeconfig("system:kube-controller-manager", &[]);
            let mut args = vec!["controller".to_owned(), "--kubeconfig".to_owned(), user];
            args.push("--use-service-account-credentials".to_owned());
            args.extend(self.controller_flags.iter().cloned());
            self.controllers = Some(Process::start("controller", self.dir.path(), &args));
        }
    }

    async fn start_server(&mut self) {
        let command = match self.layout {
            Layout::OneProcess => "serve",
            Layout::TwoProcesses | Layout::ServerAlone => "apiserver",
        };
        let address_file = self.dir.path().join("address");
        let _ = std::fs::remove_file(&address_file);
        let mut args: Vec<String> = [command, "--listen", &self.address].map(str::to_owned).into();
        args.extend(["--data-dir".to_owned(), self.path("data")]);
        args.extend(["--address-file".to_owned(), self.path("address")]);
        args.extend(self.server_flags.iter().cloned());
        let sets_mode = args.iter().any(|flag| {
            flag.starts_with("--authorization-mode") || flag.starts_with("--authorization-config")
        });
        if !self.default_authorization && !sets_mode {
            args.push("--authorization-mode=Node,RBAC".to_owned());
        }
        let has = |name: &str| args.iter().any(|flag| flag == name);
        self.closed |= has("--node");
        if !self.default_authorization && !self.closed && !has("--insecure-loopback") {
            args.push("--insecure-loopback".to_owned());
        }
        if self.layout == Layout::OneProcess {
            args.extend(self.controller_flags.iter().cloned());
        }
        let mut process = Process::start("server", self.dir.path(), &args);
        let url = wait::until("the server says where it listens", async || {
            if let Some(status) = process.ended() {
                panic!("the server ended at its start ({status}); its log:\n{}", process.log());
            }
            std::fs::read_to_string(&address_file).map_err(|_| process.log())
        })
        .await;
        let (_, address) = url.trim().split_once("://").expect("an URL is announced");
        self.address = address.to_owned();
        self.server = Some(process);
        let http = self.http();
        wait::until("the server is ready", async || {
            let answer = http.try_get("/readyz").await?;
            if answer.code == 200 { Ok(()) } else { Err(answer.text()) }
        })
        .await;
    }

    /// kill -9 for every process.
    pub(crate) async fn kill(&mut self) {
        for process in [&mut self.controllers, &mut self.server] {
            if let Some(mut process) = process.take() {
                process.kill().await;
            }
        }
    }

    /// kill -9 for every process, and a restart of all on the same data and the same port.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.kill().await;
        self.start_again().await;
    }

    /// kill -9 for the API server's process only.
    pub(crate) async fn kill_server(&mut self) {
        self.server().kill().await;
        self.server = None;
    }

    /// kill -9 for the API server's process only, and a restart on the same data and the same port.
    pub(crate) async fn kill_and_restart_server(&mut self) {
        self.kill_server().await;
        self.start_again().await;
    }

    /// kill -9 for the controllers only, and a restart.
    pub(crate) async fn kill_and_restart_controllers(&mut self) {
        self.controllers().kill().await;
        self.controllers = None;
        self.start_again().await;
    }

    /// SIGTERM for every process, controllers first; all must exit with 0.
    pub(crate) async fn stop(&mut self) {
        for process in [&mut self.controllers, &mut self.server] {
            if let Some(mut process) = process.take() {
                // A process that has just started does not handle signals before its first output.
                wait::until("the process has begun", async || {
                    let has_begun = process.ended().is_some() || process.has_begun();
                    if has_begun { Ok(()) } else { Err("nothing is logged".to_owned()) }
                })
                .await;
                process.signal(Signal::TERM);
                let code = process.exit_code().await;
                assert_eq!(code, 0, "a clean stop; the log:\n{}", process.log());
            }
        }
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for name in ["server.log", "controller.log"] {
            let log = std::fs::read(self.dir.path().join(name)).unwrap_or_default();
            let log = String::from_utf8_lossy(&log).into_owned();
            let lacks_right = |line: &&str| {
                line.contains("a component of this process lacks a right")
                    || line.contains("system:serviceaccount:kube-system:") && line.contains(" cannot ")
            };
            let refused: Vec<&str> = log.lines().filter(lacks_right).take(5).collect();
            assert!(refused.is_empty(), "{name}: a component lacks a right:\n{}", refused.join("\n"));
        }
    }
}
