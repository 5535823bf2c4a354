//! The agent crashes between every two steps, and the next one cleans up.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use super::*;

/// Polls a future at most that often and then drops it. Returns whether it had completed.
pub(super) async fn cut(future: impl Future<Output = ()>, polls: usize) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        future.as_mut().poll(context).map(|()| true)
    })
    .await
}

/// Waits until disk operations of a crashed agent have ended. A real crash of the process would end them too.
pub(super) async fn quiet(host: &Host, volume: &PodVolume, plugin: &CsiPlugin) {
    let place = place_of(volume);
    let handle = CsiSource::of(&volume.spec).unwrap().handle(&place.uid, &volume.spec.name);
    let driver = plugin.volume_name(&volume.spec).unwrap();
    let driver = driver.split(SEPARATOR).next().unwrap().to_owned();
    for queue in [format!("{driver}^{handle}"), format!("{}/{}", place.uid, place.dir_name)] {
        host.mounts.run(&format!("{NAME}/{queue}"), "waiting".to_owned(), |_| Ok(())).await.unwrap();
    }
}

/// Tears everything down, like an agent that no longer needs any of the volumes.
pub(super) async fn clean_up(plugin: &CsiPlugin, host: &Host, when: &str) {
    let mut devices: BTreeSet<String> = plugin.devices(host).await.unwrap().into_iter().collect();
    for place in places(host) {
        let found = plugin.found(host, &place).await.unwrap_or_else(|error| panic!("{when}: {error}"));
        devices.extend(found);
        plugin.tear_down(host, &place).await.unwrap_or_else(|error| panic!("{when}: {place:?}: {error}"));
    }
    for name in devices {
        let gone = plugin.unmount_device(host, &name).await;
        gone.unwrap_or_else(|error| panic!("{when}: {name}: {error}"));
    }
}

#[tokio::test]
async fn crash_at_any_step_leaves_nothing_undiscovered() {
    for form in FORMS {
        let mut crashes = 0;
        loop {
            let rig = Fixture::new(both_lives()).await;
            let volume = volume(form);
            let life = async {
                for step in steps(form) {
                    take(&rig.plugin, &rig.host, &volume, step).await.unwrap();
                }
            };
            let ended = cut(life, crashes).await;
            quiet(&rig.host, &volume, &rig.plugin).await;
            let when = format!("{form:?} after {crashes} polls");
            rig.check_records(&when);
            clean_up(&CsiPlugin::new(rig.known.clone()), &rig.host, &when).await;
            let state = rig.double.state();
            assert!(state.staged.is_empty(), "{when}: {:?}", state.staged);
            assert!(state.targets.is_empty(), "{when}: {:?}", state.targets);
            drop(state);
            assert_eq!(rig.left(), Vec::<PathBuf>::new(), "{when}");
            if ended {
                break;
            }
            crashes += 1;
        }
        assert!(crashes > 10, "{form:?}: {crashes}");
    }
}

#[tokio::test]
async fn wanted_volume_is_mounted_again_after_a_crash_at_any_step() {
    for form in FORMS {
        let mut crashes = 0;
        loop {
            let rig = Fixture::new(both_lives()).await;
            let volume = volume(form);
            let up = || async {
                for step in
                    steps(form).into_iter().filter(|step| matches!(step, Step::MountDevice | Step::SetUp))
                {
                    take(&CsiPlugin::new(rig.known.clone()), &rig.host, &volume, step).await.unwrap();
                }
            };
            let ended = cut(up(), crashes).await;
            quiet(&rig.host, &volume, &rig.plugin).await;
            up().await;
            let when = format!("{form:?} after {crashes} polls");
            assert_eq!(rig.double.state().targets.len(), 1, "{when}");
            clean_up(&rig.plugin, &rig.host, &when).await;
            assert_eq!(rig.left(), Vec::<PathBuf>::new(), "{when}");
            if ended {
                break;
            }
            crashes += 1;
        }
    }
}

#[tokio::test]
async fn damaged_record_does_not_block_other_volumes() {
    let rig = Fixture::new(both_lives()).await;
    let (good, bad) = (volume(Form::Block), volume(Form::Files));
    for volume in [&good, &bad] {
        for step in [Step::MountDevice, Step::SetUp] {
            take(&rig.plugin, &rig.host, volume, step).await.unwrap();
        }
    }
    let global = rig.host.paths.csi_global(DRIVER, "h").join("vol_data.json");
    let own = rig.plugin.path(&rig.host, &place_of(&bad)).with_file_name("vol_data.json");
    for record in [&global, &own] {
        std::fs::write(record, "{\"driverName\":").unwrap();
    }
    assert_eq!(rig.plugin.devices(&rig.host).await.unwrap(), [format!("{DRIVER}^b")]);
    let error = rig.plugin.found(&rig.host, &place_of(&bad)).await.unwrap_err().to_string();
    assert!(error.contains(&own.display().to_string()) && error.contains("is damaged"), "{error}");
    assert!(take(&rig.plugin, &rig.host, &bad, Step::TearDown).await.is_err());
    assert_eq!(rig.plugin.found(&rig.host, &place_of(&good)).await.unwrap().as_deref(), Some("d.example^b"));
    take(&rig.plugin, &rig.host, &good, Step::TearDown).await.unwrap();
}

#[tokio::test]
async fn mount_without_a_record_is_not_reported_as_a_volume() {
    let rig = Fixture::new(both_lives()).await;
    let place = place_of(&volume(Form::Files));
    let target = rig.plugin.path(&rig.host, &place);
    std::fs::create_dir_all(&target).unwrap();
    assert_eq!(rig.plugin.found(&rig.host, &place).await.unwrap(), None, "nothing was asked for yet");
    rig.mounts.0.lock().insert(target.clone());
    assert!(rig.plugin.found(&rig.host, &place).await.is_err());
    assert!(rig.plugin.tear_down(&rig.host, &place).await.is_err());
    assert!(target.is_dir());
    // Unknown content is not deleted.
    rig.mounts.0.lock().clear();
    std::fs::write(target.join("dear"), "x").unwrap();
    assert!(rig.plugin.tear_down(&rig.host, &place).await.is_err());
    assert!(target.join("dear").is_file());
}

#[tokio::test]
async fn another_volume_at_an_occupied_path_is_refused() {
    let rig = Fixture::new(both_lives()).await;
    let first = volume(Form::Block);
    for step in [Step::MountDevice, Step::SetUp] {
        take(&rig.plugin, &rig.host, &first, step).await.unwrap();
    }
    // The PersistentVolume was recreated for another volume.
    let second = persistent("pvb", json!({"csi": {"driver": DRIVER, "volumeHandle": "h"}}), true);
    let error = take(&rig.plugin, &rig.host, &second, Step::MountDevice).await.unwrap_err().to_string();
    assert!(
        error.contains("belongs to volume d.example^b, which must be unmounted before d.example^h"),
        "{error}"
    );
    // Nor is it unstaged while a pod uses it.
    let error = take(&rig.plugin, &rig.host, &first, Step::UnmountDevice).await.unwrap_err().to_string();
    assert_eq!(error, "volume d.example^b is still published for the pod with UID u1");
}
