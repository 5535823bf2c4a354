#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use orlop_csi_hostpath::{self as hostpath, Options};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;

struct Rig {
    dir: tempfile::TempDir,
    drivers: Drivers,
    shutdown: CancellationToken,
}

/// A running driver.
struct Served {
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Served {
    async fn ends(self) {
        self.stop.send(()).unwrap();
        self.serving.await.unwrap();
    }
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("plugins")).unwrap();
        Rig { dir, drivers: Drivers::new(Duration::from_secs(60)), shutdown: CancellationToken::new() }
    }

    fn plugins(&self) -> PathBuf {
        self.dir.path().join("plugins")
    }

    /// Starts a driver of this name that registers with the socket `at`, and waits until it is reachable.
    async fn serve(&self, name: &str, at: &str) -> Served {
        let own = self.dir.path().join(format!("{at}-{name}"));
        let endpoint = format!("unix://{}", own.join("csi.sock").display());
        let mut options = Options::new(endpoint, own.join("data"), "n1");
        options.name = name.to_owned();
        options.registration = Some(self.plugins().join(at));
        let (stop, stopped) = oneshot::channel();
        let (tell, ready) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let ready = move || tell.send(()).unwrap();
            hostpath::serve(options, ready, async { drop(stopped.await) }).await.unwrap();
        });
        ready.await.unwrap();
        Served { stop, serving }
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
async fn driver_with_two_sockets_is_removed_with_the_second() {
    let rig = Rig::new();
    let plugins = rig.plugins();
    let mut follower = Follower::new(&rig.drivers, &[], &plugins, &rig.shutdown);
    let (one, two) = (rig.serve("d.example", "one").await, rig.serve("d.example", "two").await);
    follower.look().await.unwrap();
    rig.until(|drivers| drivers.get("d.example").is_some()).await;
    one.ends().await;
    follower.look().await.unwrap();
    let driver = rig.drivers.get("d.example").expect("it is behind the other socket still");
    drop(driver);
    let answers = async {
        // The driver is reachable again as soon as it is contacted at the other socket.
        while rig.drivers.get("d.example").unwrap().list_volumes(Default::default()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), answers).await.expect("it is asked at once, not in 30 s");
    two.ends().await;
    follower.look().await.unwrap();
    assert!(rig.drivers.get("d.example").is_none());
}

#[tokio::test]
async fn driver_of_the_command_line_is_not_removed() {
    let rig = Rig::new();
    let plugins = rig.plugins();
    let named = [Endpoint { name: "d.example".to_owned(), endpoint: "unix:///elsewhere".to_owned() }];
    let mut follower = Follower::new(&rig.drivers, &named, &plugins, &rig.shutdown);
    let one = rig.serve("d.example", "one").await;
    follower.look().await.unwrap();
    rig.until(|drivers| drivers.get("d.example").is_some()).await;
    one.ends().await;
    follower.look().await.unwrap();
    assert!(rig.drivers.get("d.example").is_some());
}

#[tokio::test]
async fn replaced_socket_is_another_driver() {
    let rig = Rig::new();
    let plugins = rig.plugins();
    let mut follower = Follower::new(&rig.drivers, &[], &plugins, &rig.shutdown);
    let first = rig.serve("d.example", "one").await;
    follower.look().await.unwrap();
    rig.until(|drivers| drivers.get("d.example").is_some()).await;
    // The directory is not read between the two.
    first.ends().await;
    let _second = rig.serve("e.example", "one").await;
    follower.look().await.unwrap();
    rig.until(|drivers| drivers.get("e.example").is_some()).await;
    assert!(rig.drivers.get("d.example").is_none());
}

#[test]
fn reused_inode_is_another_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let _listener = UnixListener::bind(&path).unwrap();
    let mark = || sockets(dir.path()).unwrap()[std::ffi::OsStr::new("s")];
    let before = mark();
    assert_eq!(mark(), before);
    let begin = std::time::Instant::now();
    // File system timestamps have a granularity of milliseconds.
    while mark() == before {
        assert!(begin.elapsed() < Duration::from_secs(10), "the time of the change is not looked at");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert_eq!(mark().inode, before.inode);
}

#[tokio::test]
async fn silent_sockets_do_not_delay_shutdown_or_each_other() {
    let rig = Rig::new();
    let (registering, csi) = (rig.plugins().join("hangs"), rig.dir.path().join("csi-hangs"));
    // The sockets accept connections and never respond.
    let _listeners = [&registering, &csi].map(|path| UnixListener::bind(path).unwrap());
    let named =
        [Endpoint { name: "hangs.example".to_owned(), endpoint: format!("unix://{}", csi.display()) }];
    let (drivers, shutdown, plugins) = (rig.drivers.clone(), rig.shutdown.clone(), rig.plugins());
    let finding = tokio::spawn(async move { drivers.find(&named, Some(plugins), shutdown).await });
    let begin = std::time::Instant::now();
    while begin.elapsed() < Duration::from_millis(50) {
        tokio::task::yield_now().await;
    }
    rig.shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(3), finding).await.expect("it ends at once").unwrap();
}

#[tokio::test]
async fn stopped_endpoint_adds_no_driver() {
    let rig = Rig::new();
    let _served = rig.serve("d.example", "one").await;
    let csi = rig.dir.path().join("one-d.example/csi.sock");
    let at = Endpoint { name: "d.example".to_owned(), endpoint: format!("unix://{}", csi.display()) };
    let driver = rig.drivers.ask(&at).await.unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    // The driver was queried before the stop, and its response arrived afterwards.
    rig.drivers.take_up(driver.clone(), false, &stop);
    assert!(rig.drivers.get("d.example").is_none());
    rig.drivers.take_up(driver, false, &CancellationToken::new());
    assert!(rig.drivers.get("d.example").is_some());
}
