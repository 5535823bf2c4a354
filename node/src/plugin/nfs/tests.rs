//! The NFS plugin with recorded mounts, and with a mount helper that binds directories of this machine instead of
//! an export.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;
use crate::mount::Programs;
use crate::plugin::Outcome;
use crate::plugin::testing::{Fixture, inline, persistent, place, program, with};

fn volume(server: &str) -> PodVolume {
    persistent(
        "pv-1",
        json!({"nfs": {"server": server, "path": "/export"}, "mountOptions": ["hard", "nfsvers=4.2"]}),
    )
}

#[test]
fn volume_sources_are_parsed() {
    let plugin = NfsPlugin::default();
    for (server, name, source) in [
        ("nas", "nas//export", "nas:/export"),
        ("192.0.2.1", "192.0.2.1//export", "192.0.2.1:/export"),
        ("2001:db8::1", "2001:db8::1//export", "[2001:db8::1]:/export"),
        ("fe80::1%eth0", "fe80::1%eth0//export", "[fe80::1%eth0]:/export"),
        ("[2001:db8::1]", "[2001:db8::1]//export", "[2001:db8::1]:/export"),
    ] {
        let volume = volume(server);
        assert_eq!(plugin.volume_name(&volume.spec).unwrap(), name);
        assert_eq!(Export::of(&volume.spec).unwrap().source(), source);
    }
    for (server, path, part) in [
        ("", "/x", "nfs.server is empty"),
        ("nas", "", "nfs.path is empty"),
        ("a b", "/x", "no name and no address"),
        ("a/b", "/x", "no name and no address"),
        ("nas", "/x\ny", "control character"),
    ] {
        let volume = inline(json!({"name": "v", "nfs": {"server": server, "path": path}}));
        let error = plugin.volume_name(&volume.spec).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("\"v\""), "{error}");
    }
    let other = inline(json!({"name": "v", "emptyDir": {}}));
    assert!(!plugin.can_support(&other.spec.source) && plugin.volume_name(&other.spec).is_err());
}

#[tokio::test]
async fn each_step_recovers_from_one_failure() {
    let (rig, plugin) = (Fixture::recorded(), NfsPlugin::default());
    let is_there = |rig: &Fixture| assert_eq!(rig.points()[0].source, "nas:/export");
    rig.whole_way(&plugin, &volume("nas"), &is_there).await;
    rig.every_step(&plugin, &volume("nas"), &is_there).await;
}

#[tokio::test]
async fn volume_is_mounted_once_with_its_options() {
    let (rig, plugin) = (Fixture::recorded(), NfsPlugin::default());
    for (read_only, in_source, options) in [
        (false, false, ["rw", "hard", "nfsvers=4.2"]),
        (true, false, ["ro", "hard", "nfsvers=4.2"]),
        (false, true, ["ro", "hard", "nfsvers=4.2"]),
    ] {
        let nfs = json!({"server": "nas", "path": "/export", "readOnly": in_source});
        let volume = persistent("pv-1", json!({"nfs": nfs, "mountOptions": ["nfsvers=4.2", "hard"]}));
        let volume = with(&volume, |spec| spec.read_only = read_only);
        let before = rig.record().calls().len();
        for _ in 0..3 {
            plugin.set_up(&rig.host, &volume).await.unwrap();
        }
        assert_eq!(rig.record().calls().len() - before, 1);
        let points = rig.points();
        assert_eq!((&*points[0].fs_type, &*points[0].source), ("nfs", "nas:/export"));
        assert_eq!(points[0].options, options);
        plugin.tear_down(&rig.host, &place(&plugin, "pv-1")).await.unwrap();
    }
}

#[tokio::test]
async fn failed_mount_leaves_nothing_and_reports_the_reason() {
    let (rig, plugin) = (Fixture::recorded(), NfsPlugin::default());
    rig.record().fail_next_mount("mount.nfs: access denied by server while mounting nas:/export");
    let error = plugin.set_up(&rig.host, &volume("nas")).await.unwrap_err();
    assert!(error.message.contains("nas:/export") && error.message.contains("access denied"), "{error}");
    assert_eq!(error.outcome, Outcome::Final);
    assert_eq!(rig.left(), Vec::<String>::new());
}

#[tokio::test]
async fn existing_mount_is_checked() {
    for (errno, is_good, calls) in [
        (Some(Errno::STALE), true, 3),
        (Some(Errno::NOTCONN), true, 3),
        (Some(Errno::ACCESS), true, 1),
        (Some(Errno::IO), false, 1),
        (None, true, 1),
    ] {
        let rig = Fixture::recorded();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let probe = move |_: &Path, _: &Path| match (errno, count.fetch_add(1, Ordering::Relaxed)) {
            (Some(errno), 0) => Err(errno.into()),
            _ => Ok(()),
        };
        let plugin = NfsPlugin { patience: PATIENCE, probe: Arc::new(probe) };
        plugin.set_up(&rig.host, &volume("nas")).await.unwrap();
        let again = plugin.set_up(&rig.host, &volume("nas")).await;
        assert_eq!(again.is_ok(), is_good, "{errno:?}: {again:?}");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!(rig.record().calls().len(), calls, "{errno:?}");
        assert_eq!(rig.points().len(), 1, "{errno:?}: it is mounted once, whatever happens");
    }
}

#[tokio::test]
async fn hung_mount_is_uncertain_and_adopted_when_it_finishes() {
    let (mut rig, plugin) = (Fixture::recorded(), NfsPlugin::default());
    rig.set_deadline(Duration::from_millis(50));
    let release = rig.record().hang_next_mount();
    let error = plugin.set_up(&rig.host, &volume("nas")).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Uncertain);
    assert!(error.message.contains("no answer"), "{error}");
    // Other volumes are not blocked.
    let other = inline(json!({"name": "v", "nfs": {"server": "other", "path": "/"}}));
    while plugin.set_up(&rig.host, &other).await.is_err() {}
    assert!(plugin.set_up(&rig.host, &volume("nas")).await.is_err(), "its queue is taken");
    drop(release);
    while plugin.set_up(&rig.host, &volume("nas")).await.is_err() {}
    assert_eq!(rig.points().len(), 2);
}

#[tokio::test]
async fn hung_unmount_is_forced() {
    let (rig, plugin) = (Fixture::recorded(), NfsPlugin::with_patience(Duration::from_millis(50)));
    plugin.set_up(&rig.host, &volume("nas")).await.unwrap();
    let release = rig.record().hang_next_unmount();
    let end = async {
        // The forced unmount ends the hung one.
        while rig.record().calls().len() < 3 {
            tokio::task::yield_now().await;
        }
        drop(release);
    };
    let place = place(&plugin, "pv-1");
    let (outcome, ()) = tokio::join!(plugin.tear_down(&rig.host, &place), end);
    outcome.unwrap();
    assert_eq!(rig.left(), Vec::<String>::new());
    assert_eq!(rig.points(), []);
}

/// The kernel removes the mount immediately and contacts the server afterwards; the pod does not wait for that.
#[tokio::test]
async fn unmount_that_hangs_after_force_is_not_waited_for() {
    let (mut rig, plugin) = (Fixture::recorded(), NfsPlugin::with_patience(Duration::from_millis(50)));
    rig.set_deadline(Duration::from_secs(5));
    plugin.set_up(&rig.host, &volume("nas")).await.unwrap();
    let release = rig.record().hang_next_unmount();
    plugin.tear_down(&rig.host, &place(&plugin, "pv-1")).await.unwrap();
    assert_eq!((rig.left(), rig.points()), (Vec::<String>::new(), Vec::new()));
    drop(release);
}

#[tokio::test]
async fn busy_or_obstructed_mounts_stay_and_are_reported() {
    let (rig, plugin) = (Fixture::recorded(), NfsPlugin::default());
    let target = rig.target(&plugin, "pv-1");
    plugin.set_up(&rig.host, &volume("nas")).await.unwrap();
    rig.record().set_busy(&target, true);
    let error = plugin.tear_down(&rig.host, &place(&plugin, "pv-1")).await.unwrap_err();
    assert!(
        error.message.contains("is busy") && error.message.contains("stop the processes that use it"),
        "{error}"
    );
    rig.record().set_busy(&target, false);
    fs::write(target.join("file"), "x").unwrap();
    let error = plugin.tear_down(&rig.host, &place(&plugin, "pv-1")).await.unwrap_err();
    assert!(error.message.contains("not empty; it was left as it is"), "{error}");
    assert!(target.join("file").exists());
    fs::remove_file(target.join("file")).unwrap();
    plugin.tear_down(&rig.host, &place(&plugin, "pv-1")).await.unwrap();
    fs::write(&target, "x").unwrap();
    let error = plugin.set_up(&rig.host, &volume("nas")).await.unwrap_err();
    assert!(error.message.contains("is not a directory"), "{error}");
    assert_eq!(fs::read(&target).unwrap(), b"x");
    fs::remove_file(&target).unwrap();
    std::os::unix::fs::symlink(&rig.base, &target).unwrap();
    let error = plugin.set_up(&rig.host, &volume("nas")).await.unwrap_err();
    assert!(error.message.contains("is a link; links are not followed"), "{error}");
}

/// mount(8) and a helper that behaves like mount.nfs.
fn helper(base: &Path) -> Programs {
    let dir = base.join("sbin");
    let mount = "shift 3; [ \"$1\" = -o ] && { options=$2; shift 2; }\nexec \"${0%/*}/mount.nfs\" \"$1\" \"$2\" -n -o \"$options\"";
    program(&dir.join("mount"), mount);
    let nfs = "base=${0%/*}/..\n\
         case $1 in\n\
         172.16.51.58.1:*) echo 'mount.nfs: Failed to resolve server 172.16.51.58.1: Name or service not known' >&2; exit 32;;\n\
         gone:*) while [ ! -e \"$base/end\" ]; do sleep 0.05; done; exit 32;;\n\
         esac\n\
         exec mount --bind \"$base/${1#*:/}\" \"$2\"";
    program(&dir.join("mount.nfs"), nfs);
    Programs { mount: dir.join("mount"), search: vec![dir] }
}

#[tokio::test]
async fn real_mount_by_a_helper() {
    let Some(rig) = Fixture::with_programs(helper) else { return };
    let plugin = NfsPlugin::default();
    fs::create_dir(rig.base.join("export")).unwrap();
    fs::write(rig.base.join("export/dear"), "dear").unwrap();
    let target = rig.target(&plugin, "pv-1");
    let seen = target.join("dear");
    let is_there = move |_: &Fixture| assert_eq!(fs::read(&seen).unwrap(), b"dear");
    rig.whole_way(&plugin, &volume("nas"), &is_there).await;
    rig.every_step(&plugin, &volume("nas"), &is_there).await;
    let read_only = with(&volume("nas"), |spec| spec.read_only = true);
    plugin.set_up(&rig.host, &read_only).await.unwrap();
    // The open file keeps the mount busy.
    let open = fs::File::open(target.join("dear")).unwrap();
    let error = plugin.tear_down(&rig.host, &place(&plugin, "pv-1")).await.unwrap_err();
    assert!(
        error.message.contains("open in") && error.message.contains("stop the processes that use it"),
        "{error}"
    );
    drop(open);
    plugin.tear_down(&rig.host, &place(&plugin, "pv-1")).await.unwrap();
    assert_eq!(fs::read(rig.base.join("export/dear")).unwrap(), b"dear");
}

#[tokio::test]
async fn unknown_and_unresponsive_servers_are_reported() {
    let Some(mut rig) = Fixture::with_programs(helper) else { return };
    let plugin = NfsPlugin::default();
    let error = plugin.set_up(&rig.host, &volume("172.16.51.58.1")).await.unwrap_err();
    let words = "mount.nfs: Failed to resolve server 172.16.51.58.1: Name or service not known";
    assert!(error.message.contains(words), "{error}");
    assert_eq!((error.outcome, rig.left()), (Outcome::Final, Vec::new()));
    rig.set_deadline(Duration::from_millis(200));
    let error = plugin.set_up(&rig.host, &volume("gone")).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Uncertain, "{error}");
    fs::write(rig.base.join("end"), "").unwrap();
    let place = place(&plugin, "pv-1");
    while plugin.tear_down(&rig.host, &place).await.is_err() {}
    assert_eq!(rig.left(), Vec::<String>::new());
}
