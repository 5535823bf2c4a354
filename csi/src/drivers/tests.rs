#![allow(clippy::unwrap_used)]

use std::path::Path;

use orlop_csi_hostpath::{self as hostpath, Options};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;

const NAME: &str = "d.example";

struct Rig {
    dir: tempfile::TempDir,
    drivers: Drivers,
    shutdown: CancellationToken,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Rig { dir, drivers: Drivers::new(Duration::from_secs(5)), shutdown: CancellationToken::new() }
    }

    fn endpoint(&self) -> String {
        format!("unix://{}", self.dir.path().join("csi.sock").display())
    }

    /// Starts the driver and waits until it is reachable.
    async fn serve(&self, registration: Option<&Path>) -> (oneshot::Sender<()>, JoinHandle<()>) {
        let mut options = Options::new(self.endpoint(), self.dir.path().join("data"), "n1");
        options.name = NAME.to_owned();
        options.registration = registration.map(Path::to_owned);
        let (stop, stopped) = oneshot::channel();
        let (tell, ready) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let ready = move || tell.send(()).unwrap();
            hostpath::serve(options, ready, async { drop(stopped.await) }).await.unwrap();
        });
        ready.await.unwrap();
        (stop, serving)
    }

    fn find(&self, name: &str, plugin_dir: Option<PathBuf>) -> JoinHandle<()> {
        let endpoints = match &plugin_dir {
            Some(_) => Vec::new(),
            None => vec![Endpoint { name: name.to_owned(), endpoint: self.endpoint() }],
        };
        let (drivers, shutdown) = (self.drivers.clone(), self.shutdown.clone());
        tokio::spawn(async move { drivers.find(&endpoints, plugin_dir, shutdown).await })
    }

    async fn until(&self, holds: impl Fn(&Drivers) -> bool) {
        let mut changes = self.drivers.changes();
        let waiting = async {
            while !holds(&self.drivers) {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("drivers as expected");
    }
}

#[tokio::test]
async fn driver_that_starts_late_is_found() {
    let rig = Rig::new();
    let finding = rig.find(NAME, None);
    let (stop, serving) = rig.serve(None).await;
    rig.until(|drivers| drivers.get(NAME).is_some()).await;
    let driver = rig.drivers.get(NAME).unwrap();
    assert!(driver.can().can(crate::capabilities::Rpc::CreateDeleteVolume));
    assert_eq!(rig.drivers.all().len(), 1);
    stop.send(()).unwrap();
    serving.await.unwrap();
    let error = driver.list_volumes(Default::default()).await.unwrap_err();
    assert!(error.is_uncertain(), "{error}");
    assert!(rig.drivers.get(NAME).is_some(), "a driver that is away is still known");
    rig.shutdown.cancel();
    finding.await.unwrap();
}

#[tokio::test]
async fn driver_with_another_name_is_refused() {
    let rig = Rig::new();
    let (_stop, _serving) = rig.serve(None).await;
    let at = Endpoint { name: "other.example".to_owned(), endpoint: rig.endpoint() };
    let refusal = rig.drivers.ask(&at).await.unwrap_err();
    assert_eq!(refusal.to_string(), "it calls itself \"d.example\"; correct the name in --csi-endpoint");
}

#[tokio::test]
async fn drivers_register_and_unregister() {
    let rig = Rig::new();
    let plugins = rig.dir.path().join("plugins");
    std::fs::create_dir(&plugins).unwrap();
    std::fs::write(plugins.join("no-socket"), "").unwrap();
    let finding = rig.find(NAME, Some(plugins.clone()));
    let (stop, serving) = rig.serve(Some(&plugins.join("d.example-reg.sock"))).await;
    rig.until(|drivers| drivers.get(NAME).is_some()).await;
    stop.send(()).unwrap();
    serving.await.unwrap();
    rig.until(|drivers| drivers.get(NAME).is_none()).await;
    rig.shutdown.cancel();
    finding.await.unwrap();
}
