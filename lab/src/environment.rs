//! Starts a lab: a server in memory, the driver, three virtual nodes, classes, and the ConfigMap that
//! controls it. The server is `orlop serve` with flags, so it behaves like a real one.

use std::error::Error;
use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use orlop_apiserver::ApiService;
use orlop_cli::args::EnvironmentArgs;
use orlop_cli::config::{self, Config, ConfigError, Role};
use orlop_cli::output_file;
use orlop_client::client::{self, Endpoint};
use orlop_csi_hostpath::{self as hostpath, Options, ServeError};
use orlop_node::config::NodeConfig;
use orlop_node::eviction::Thresholds;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::api::LAB;
use crate::error::LabError;
use crate::machines::Machines;
use crate::plane::Plane;
use crate::step::{NODES, condition, has_taint};

const NODE_NAMES: [&str; 3] = ["virtual-1", "virtual-2", "virtual-3"];
const STORAGE: &str = "/apis/storage.k8s.io/v1";
/// Period of the readiness checks at the start.
const LOOK: Duration = Duration::from_millis(50);

/// The error with which the server ended.
type ServerError = Box<dyn Error + Send + Sync>;

/// A running lab.
pub(crate) struct Environment {
    url: String,
    stop: CancellationToken,
    serving: JoinHandle<Result<(), ServerError>>,
    driving: JoinHandle<Result<(), ServeError>>,
    machines: JoinHandle<()>,
    // Declared last: all parts end before their files are deleted.
    _dir: TempDir,
}

fn socket(dir: &Path, name: &str) -> String {
    format!("unix://{}", dir.join(format!("{name}.sock")).display())
}

/// Formats a flag and its value.
fn flag(name: &str, value: impl std::fmt::Display) -> OsString {
    format!("--{name}={value}").into()
}

/// Formats a duration for a flag.
fn millis(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// The command line of the server.
fn server_line(args: &EnvironmentArgs, port: u16, driver: &str) -> Vec<OsString> {
    let address = args.listen.unwrap_or_else(|| ([127, 0, 0, 1], port).into());
    vec![
        "orlop".into(),
        "serve".into(),
        flag("listen", address),
        flag("store-backend", "memory"),
        flag("csi-endpoint", driver),
        // Short, so that a lost answer is detected early.
        flag("csi-timeout", "2s"),
        flag("pvclaimbinder-sync-period", "5s"),
        flag("node-monitor-grace-period", millis(args.node_monitor_grace_period)),
        flag("node-eviction-rate", 10),
        flag("attach-detach-force-detach-after", millis(args.attach_detach_force_detach_after)),
    ]
}

fn driver_options(dir: &Path) -> Options {
    Options {
        node_endpoints: NODE_NAMES.map(|name| (name.to_owned(), socket(dir, name))).into(),
        mounts: false,
        faults: Some(dir.join("faults")),
        ..Options::new(socket(dir, "csi"), dir.join("volumes"), NODE_NAMES[0])
    }
}

fn node(dir: &Path, name: &str) -> NodeConfig {
    let endpoint =
        orlop_csi::drivers::Endpoint { name: hostpath::NAME.to_owned(), endpoint: socket(dir, name) };
    NodeConfig {
        is_virtual: true,
        // Virtual nodes need no resources, so low resources on the machine must not stop a scenario.
        thresholds: Thresholds::default(),
        // The agent renews the lease four times in this period.
        lease: Duration::from_secs(4),
        status_period: Duration::from_secs(2),
        csi_endpoints: vec![endpoint],
        ..NodeConfig::new(name, dir.join("nodes").join(name))
    }
}

/// The initial objects, each with its collection.
fn objects(driver: &str) -> Vec<(String, Value)> {
    let class = |name: &str, mode: &str, is_default: &str| {
        json!({"metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": is_default}},
            "provisioner": hostpath::NAME, "allowVolumeExpansion": true, "volumeBindingMode": mode})
    };
    vec![
        (
            format!("{STORAGE}/csidrivers"),
            json!({"metadata": {"name": hostpath::NAME}, "spec": {"attachRequired": true}}),
        ),
        (format!("{STORAGE}/storageclasses"), class("lab", "Immediate", "true")),
        (format!("{STORAGE}/storageclasses"), class("lab-first-consumer", "WaitForFirstConsumer", "false")),
        (
            "/api/v1/namespaces/default/configmaps".to_owned(),
            json!({"metadata": {"name": "lab"}, "data": {"driver": driver, "silent": "", "faults": "[]"}}),
        ),
    ]
}

impl Environment {
    /// Starts a lab and waits until it is complete. `port`: the port if `--listen` is not set.
    pub(crate) async fn start(
        plane: &'static dyn Plane,
        args: &EnvironmentArgs,
        port: u16,
    ) -> Result<Self, LabError> {
        let private = Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix("orlop-lab-").permissions(private).tempdir()?;
        let stop = CancellationToken::new();
        std::fs::write(dir.path().join("faults"), "[]")?;
        let options = driver_options(dir.path());
        let driver = format!("{}={}", options.name, options.endpoint);
        let (ready, is_ready) = oneshot::channel();
        let ready = move || {
            // The receiver is dropped if the start was cancelled.
            let _ = ready.send(());
        };
        let driving = tokio::spawn(hostpath::serve(options, ready, stop.clone().cancelled_owned()));
        if is_ready.await.is_err() {
            return Err(driving.await.map_or(LabError::Ended("the driver"), |end| match end {
                Ok(()) => LabError::Ended("the driver"),
                Err(error) => error.into(),
            }));
        }

        let Config::Run(run) = config::load(server_line(args, port, &driver), |_| None)? else {
            return Err(ConfigError::Wrong("the server printed an unexpected first line".to_owned()).into());
        };
        let (ready, is_ready) = oneshot::channel();
        let until = stop.clone();
        let serving = tokio::spawn(async move {
            let Role::Serve(server, loops, nodes) = run.role else { return Ok(()) };
            let on_ready = move |url: &str, service: &ApiService| {
                let _ = ready.send((url.to_owned(), service.clone()));
            };
            plane.serve(server, loops, nodes, until, Box::new(on_ready)).await
        });
        let Ok((url, service)) = is_ready.await else {
            stop.cancel();
            return Err(serving.await.map_or(LabError::Ended("the server"), |end| match end {
                Ok(()) => LabError::Ended("the server"),
                Err(error) => LabError::Server(error),
            }));
        };

        let api = connect(&url).await?;
        for (collection, object) in objects(&driver) {
            api.create(&collection, &object).await?;
        }
        let machines = Machines {
            service,
            configs: NODE_NAMES.map(|name| node(dir.path(), name)).into(),
            faults: dir.path().join("faults"),
            client: api.client().clone(),
        };
        let machines = tokio::spawn(machines.run(stop.clone()));
        let mut environment = Environment { url, stop, serving, driving, machines, _dir: dir };
        tokio::select! {
            complete = complete(&api) => complete?,
            error = environment.ended() => return Err(error),
        }
        if let Some(file) = &args.address_file {
            output_file::check_replaceable(file)?;
            let new = file.with_extension("new");
            std::fs::write(&new, &environment.url)?;
            std::fs::rename(&new, file)?;
        }
        Ok(environment)
    }

    /// The URL of the server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Waits until a part of the lab ends, which is an error.
    pub(crate) async fn ended(&mut self) -> LabError {
        tokio::select! {
            end = &mut self.serving => match end {
                Ok(Err(error)) => LabError::Server(error),
                Ok(Ok(())) | Err(_) => LabError::Ended("the server"),
            },
            end = &mut self.driving => match end {
                Ok(Err(error)) => error.into(),
                Ok(Ok(())) | Err(_) => LabError::Ended("the driver"),
            },
            _ = &mut self.machines => LabError::Ended("the nodes"),
        }
    }

    /// Stops the lab. Parts that ended before are not awaited again.
    pub(crate) async fn end(mut self) -> Result<(), LabError> {
        self.stop.cancel();
        if !self.machines.is_finished() {
            let _ = (&mut self.machines).await;
        }
        if !self.serving.is_finished() {
            let end = (&mut self.serving).await.map_err(|_| LabError::Ended("the server"))?;
            end.map_err(LabError::Server)?;
        }
        if !self.driving.is_finished() {
            (&mut self.driving).await.map_err(|_| LabError::Ended("the driver"))??;
        }
        Ok(())
    }
}

/// A client of the server at `url`.
pub(crate) async fn connect(url: &str) -> Result<Api, LabError> {
    let endpoint = Endpoint::Url { url: url.to_owned(), token: None, ca_file: None, insecure: false };
    Ok(Api::new(client::connect(endpoint).await?))
}

/// Waits until the nodes are schedulable, their drivers are registered, and the default namespace is complete.
async fn complete(api: &Api) -> Result<(), LabError> {
    loop {
        let mut all = api.get("/api/v1/namespaces/default/serviceaccounts/default").await?.is_some();
        all &= api.get(LAB).await?.is_some_and(|lab| crate::scenarios::heard(&lab));
        for name in NODE_NAMES {
            let node = api.get(&format!("{NODES}/{name}")).await?.unwrap_or_default();
            let closed = ["not-ready", "unreachable"].map(|key| format!("node.kubernetes.io/{key}"));
            all &= condition(&node, "Ready") == "True" && !closed.iter().any(|key| has_taint(&node, key));
            let drivers = api.get(&format!("{STORAGE}/csinodes/{name}")).await?.unwrap_or_default();
            all &= drivers["spec"]["drivers"].as_array().is_some_and(|drivers| !drivers.is_empty());
        }
        if all {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}
