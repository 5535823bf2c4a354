//! The hostpath driver on a socket, with real mounts. Without root it only registers and is published in the
//! cluster.

use std::os::unix::fs::FileTypeExt;

use orlop_csi::driver::Driver;
use orlop_csi::v1;
use orlop_csi::v1::volume_capability::AccessType;
use orlop_csi::v1::volume_capability::access_mode::Mode;
use orlop_csi_hostpath as hostpath;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::crashes::{clean_up, cut, quiet};
use super::*;
use crate::csi_drivers;
use crate::mount::LinuxMounter;

/// A machine with the hostpath driver.
struct Lab {
    /// Dropped last: until then everything is unmounted.
    mounts: MountsBelow,
    api: FakeApi,
    host: Host,
    known: DriverRegistry,
    driver: Driver,
    plugin: CsiPlugin,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
    _end: DropGuard,
}

/// A directory whose mounts and loop devices are removed on drop.
struct MountsBelow(TempDir);

impl Drop for MountsBelow {
    fn drop(&mut self) {
        let points = LinuxMounter::new(self.0.path().to_owned()).points().unwrap_or_default();
        for point in points.iter().rev().filter(|point| point.target.starts_with(self.0.path())) {
            let _ = rustix::mount::unmount(&point.target, rustix::mount::UnmountFlags::DETACH);
        }
        let listed = std::process::Command::new("losetup")
            .args(["--noheadings", "--output", "NAME,BACK-FILE"])
            .output();
        let listed =
            listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let own = self.0.path().display().to_string();
        for line in listed.lines().filter(|line| line.contains(&own)) {
            let device = line.split_whitespace().next().unwrap_or_default();
            let _ = std::process::Command::new("losetup").args(["--detach", device]).status();
        }
    }
}

fn is_root() -> bool {
    orlop_test_support::privileges::has_root("mounts of the lab driver")
}

impl Lab {
    async fn new() -> Self {
        let dir = scratch();
        let root = dir.path().canonicalize().unwrap();
        let (agent, end, api) = (root.join("agent"), CancellationToken::new(), FakeApi::new());
        std::fs::create_dir(&agent).unwrap();
        api.seed(json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}));
        let mut options = hostpath::Options::new(
            format!("unix://{}", root.join("csi.sock").display()),
            root.join("data"),
            "n1",
        );
        options.name = DRIVER.to_owned();
        options.topology = true;
        options.attach = false;
        options.registration = Some(agent.join("plugins_registry/d.example-reg.sock"));
        let (stop, stopped) = oneshot::channel();
        let (tell, ready) = oneshot::channel();
        let serving = tokio::spawn(async move {
            hostpath::serve(options, move || tell.send(()).unwrap(), async { drop(stopped.await) })
                .await
                .unwrap();
        });
        ready.await.unwrap();
        let drivers = Drivers::new(Duration::from_secs(60));
        let mounter = Arc::new(LinuxMounter::new(agent.clone()));
        let host = host(&agent, &api, drivers.clone(), mounter, &end);
        let known = known(json!({"attachRequired": false, "podInfoOnMount": true,
            "volumeLifecycleModes": ["Persistent", "Ephemeral"]}));
        let (finding, asked, until) = (host.clone(), known.clone(), end.clone());
        tokio::spawn(async move { csi_drivers::run(&finding, &asked, &[], &until).await });
        let mut changes = drivers.changes();
        let driver = loop {
            if let Some(driver) = drivers.get(DRIVER) {
                break driver;
            }
            changes.changed().await.unwrap();
        };
        let plugin = CsiPlugin::new(known.clone());
        let (mounts, stop) = (MountsBelow(dir), Some(stop));
        Self { mounts, api, host, known, driver, plugin, stop, serving, _end: end.drop_guard() }
    }

    async fn until(&self, holds: impl Fn(&FakeApi) -> bool) {
        let mut revisions = self.api.revisions();
        let waiting = async {
            while !holds(&self.api) {
                revisions.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("the cluster as expected");
    }

    /// Creates a volume of a form, and its PersistentVolume.
    async fn volume(&self, name: &str, form: &str) -> PodVolume {
        let block = form == "block";
        let access_mode = Some(v1::volume_capability::AccessMode { mode: Mode::SingleNodeWriter.into() });
        let access_type = Some(match block {
            true => AccessType::Block(Default::default()),
            false => AccessType::Mount(Default::default()),
        });
        let parameters = match block {
            true => Default::default(),
            false => [("form".to_owned(), form.to_owned())].into(),
        };
        let request = v1::CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(v1::CapacityRange { required_bytes: 8 << 20, limit_bytes: 0 }),
            volume_capabilities: vec![v1::VolumeCapability { access_mode, access_type }],
            parameters,
            ..Default::default()
        };
        let made = self.driver.create_volume(request).await.unwrap().volume.unwrap();
        let csi = json!({"driver": DRIVER, "volumeHandle": made.volume_id, "volumeAttributes": made.volume_context});
        persistent(name, json!({"accessModes": ["ReadWriteOnce"], "csi": csi}), block)
    }

    async fn take(&self, volume: &PodVolume, step: Step) {
        let done = take(&self.plugin, &self.host, volume, step).await;
        done.unwrap_or_else(|error| panic!("{step:?} of {}: {error}", volume.spec.dir_name()));
    }

    fn path(&self, volume: &PodVolume) -> PathBuf {
        self.plugin.path(&self.host, &place_of(volume))
    }

    fn mounted(&self) -> Vec<PathBuf> {
        let points = self.host.mounts.points().unwrap().into_iter().map(|point| point.target);
        points.filter(|target| target.starts_with(self.mounts.0.path())).collect()
    }
}

#[tokio::test]
async fn driver_registers_and_unregisters() {
    let mut lab = Lab::new().await;
    lab.until(|api| {
        api.get("csinodes", "n1").is_some_and(|node| node["spec"]["drivers"][0]["nodeID"] == "n1")
    })
    .await;
    let node = lab.api.get("nodes", "n1").unwrap();
    assert_eq!(node["metadata"]["labels"], json!({"topology.d.example/node": "n1"}));
    lab.stop.take().unwrap().send(()).unwrap();
    lab.until(|api| api.get("csinodes", "n1").is_some_and(|node| node["spec"]["drivers"] == json!([]))).await;
    (&mut lab.serving).await.unwrap();
}

#[tokio::test]
async fn written_files_survive_republishing() {
    if !is_root() {
        return;
    }
    let lab = Lab::new().await;
    for form in ["directory", "image"] {
        let volume = lab.volume(&format!("pv-{form}"), form).await;
        for round in 0..2 {
            for step in [Step::MountDevice, Step::SetUp] {
                lab.take(&volume, step).await;
                lab.take(&volume, step).await;
            }
            let target = lab.path(&volume);
            assert!(lab.host.mounts.is_mounted(&target).unwrap(), "{form}");
            match round {
                0 => std::fs::write(target.join("dear"), "x").unwrap(),
                _ => assert_eq!(std::fs::read_to_string(target.join("dear")).unwrap(), "x", "{form}"),
            }
            for step in [Step::TearDown, Step::UnmountDevice] {
                lab.take(&volume, step).await;
                lab.take(&volume, step).await;
            }
            assert_eq!((lab.mounted(), places(&lab.host)), (Vec::new(), Vec::new()), "{form}");
        }
    }
}

#[tokio::test]
async fn block_volume_is_a_device() {
    if !is_root() {
        return;
    }
    let lab = Lab::new().await;
    let volume = lab.volume("pv-block", "block").await;
    for round in 0..2_u8 {
        for step in [Step::MountDevice, Step::MountDevice, Step::SetUp, Step::SetUp] {
            lab.take(&volume, step).await;
        }
        let link = lab.path(&volume);
        assert!(link.is_symlink() && std::fs::metadata(&link).unwrap().file_type().is_block_device());
        let mut first = [0_u8; 4];
        std::os::unix::fs::FileExt::read_exact_at(&std::fs::File::open(&link).unwrap(), &mut first, 0)
            .unwrap();
        assert_eq!(first, if round == 0 { [0; 4] } else { *b"dear" });
        let file = std::fs::File::options().write(true).open(&link).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"dear", 0).unwrap();
        file.sync_all().unwrap();
        drop(file);
        for step in [Step::TearDown, Step::TearDown, Step::UnmountDevice, Step::UnmountDevice] {
            lab.take(&volume, step).await;
        }
        assert_eq!((lab.mounted(), places(&lab.host)), (Vec::new(), Vec::new()));
    }
    assert_eq!(lab.plugin.devices(&lab.host).await.unwrap(), Vec::<String>::new());
}

/// Whether the kernel allows growing a mounted file system: CAP_SYS_RESOURCE.
fn may_grow() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    let may = u64::from_str_radix(mask, 16).unwrap() & (1 << 24) != 0;
    if !may {
        eprintln!("without CAP_SYS_RESOURCE no file system is grown, only a device");
    }
    may
}

/// The size of a pod's volume.
fn size(path: &Path) -> u64 {
    use std::io::Seek;
    match std::fs::metadata(path).unwrap().is_dir() {
        true => rustix::fs::statvfs(path).map(|room| room.f_blocks * room.f_frsize).unwrap(),
        false => std::fs::File::open(path).unwrap().seek(std::io::SeekFrom::End(0)).unwrap(),
    }
}

#[tokio::test]
async fn volumes_grow_while_in_use() {
    if !is_root() {
        return;
    }
    let lab = Lab::new().await;
    for form in if may_grow() { &["block", "image"][..] } else { &["block"] } {
        let volume = lab.volume(&format!("pv-{form}"), form).await;
        lab.take(&volume, Step::MountDevice).await;
        lab.take(&volume, Step::SetUp).await;
        let path = lab.path(&volume);
        let (before, bytes) = (size(&path), 32_i64 << 20);
        let request = v1::ControllerExpandVolumeRequest {
            volume_id: CsiSource::of(&volume.spec).unwrap().handle("", ""),
            capacity_range: Some(v1::CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
            ..Default::default()
        };
        assert!(lab.driver.controller_expand_volume(request).await.unwrap().node_expansion_required);
        for _ in 0..2 {
            assert_eq!(lab.plugin.expand(&lab.host, &volume, bytes).await.unwrap(), ExpandOutcome::To(bytes));
            assert!(size(&path) > 2 * before, "{form}: {before} bytes before, {} now", size(&path));
        }
        lab.take(&volume, Step::TearDown).await;
        lab.take(&volume, Step::UnmountDevice).await;
    }
}

#[tokio::test]
async fn inline_volume_is_deleted_with_its_pod() {
    if !is_root() {
        return;
    }
    let lab = Lab::new().await;
    let volume = inline(json!({"driver": DRIVER, "volumeAttributes": {}}));
    for _ in 0..2 {
        lab.take(&volume, Step::SetUp).await;
        lab.take(&volume, Step::SetUp).await;
        let target = lab.path(&volume);
        assert!(lab.host.mounts.is_mounted(&target).unwrap());
        assert!(!target.join("dear").exists(), "it is a new one each time");
        std::fs::write(target.join("dear"), "x").unwrap();
        lab.take(&volume, Step::TearDown).await;
        lab.take(&volume, Step::TearDown).await;
        assert_eq!((lab.mounted(), places(&lab.host)), (Vec::new(), Vec::new()));
        let volumes = lab.driver.list_volumes(Default::default()).await.unwrap();
        assert!(volumes.entries.is_empty());
    }
}

#[tokio::test]
async fn crash_at_any_step_leaves_no_directory_mounted() {
    crash_anywhere("directory").await;
}

#[tokio::test]
async fn crash_at_any_step_leaves_no_device_mounted() {
    crash_anywhere("block").await;
}

async fn crash_anywhere(form: &str) {
    if !is_root() {
        return;
    }
    let lab = Lab::new().await;
    let volume = lab.volume("pv", form).await;
    let mut crashes = 0;
    loop {
        let life = async {
            for step in [Step::MountDevice, Step::SetUp, Step::TearDown, Step::UnmountDevice] {
                lab.take(&volume, step).await;
            }
        };
        let ended = cut(life, crashes).await;
        quiet(&lab.host, &volume, &lab.plugin).await;
        let when = format!("{form} after {crashes} polls");
        clean_up(&CsiPlugin::new(lab.known.clone()), &lab.host, &when).await;
        assert_eq!((lab.mounted(), places(&lab.host)), (Vec::new(), Vec::new()), "{when}");
        if ended {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 10, "{form}: {crashes}");
}
