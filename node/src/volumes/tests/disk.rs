//! Tests of the recovery from disk at the agent's start, and of unknown directories.

use std::fs;
use std::time::Duration;

use super::fixture::{Bench, pod, tell};
use crate::volumes::{LeftVolume, OrphanOutcome, PodVolumes, Remains, Survey, purge, quarantined};

/// An agent that has mounted a disk and an own directory for a pod, and crashed.
async fn leave(bench: &Bench) {
    bench.disk("a", "ReadWriteOnce", "d");
    let agent = bench.agent().await;
    agent.volumes.want(pod("p", "u", &["a", "+x"]));
    bench.settle().await;
    assert!(agent.is_ready("u"));
    agent.crash().await;
    bench.machine.take_calls();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_unmounted_before_pods_and_node_are_known() {
    let bench = Bench::new();
    leave(&bench).await;
    let agent = bench.quiet_agent().await;
    assert_eq!(agent.in_use(), ["test/disk/a"], "from the first moment on");
    assert!(matches!(agent.state("u"), PodVolumes::Releasing(_)));
    bench.rest().await;
    assert_eq!(bench.machine.take_calls(), Vec::<String>::new());
    agent.volumes.synced();
    bench.rest().await;
    assert_eq!(bench.machine.take_calls(), Vec::<String>::new(), "the Node was not seen");
    tell(&bench.api, &agent.volumes);
    bench.settle().await;
    let mut calls = bench.machine.take_calls();
    assert_eq!(calls.pop().unwrap(), "unstage a");
    assert_eq!(calls.len(), 2);
    assert_eq!(agent.state("u"), PodVolumes::Released);
    assert!(!bench.paths().pod("u").exists());
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn requested_volumes_are_remounted_without_an_unmount() {
    let bench = Bench::new();
    leave(&bench).await;
    // The claim cannot be read at first: the existing mounts stay nevertheless.
    let claim = bench.api.get("persistentvolumeclaims", "ns/a").unwrap();
    bench.api.delete("persistentvolumeclaims", "ns/a");
    let agent = bench.quiet_agent().await;
    bench.register(&agent);
    agent.volumes.want(pod("p", "u", &["a", "+x"]));
    agent.volumes.synced();
    bench.rest().await;
    assert_eq!(bench.machine.take_calls(), ["publish x u"]);
    assert_eq!(agent.in_use(), ["test/disk/a"]);
    bench.api.seed(claim);
    bench.rest().await;
    assert_eq!(bench.machine.take_calls(), ["stage a", "publish a u"]);
    assert!(agent.is_ready("u"));
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn held_volumes_stay_until_they_are_released() {
    let bench = Bench::new();
    leave(&bench).await;
    let agent = bench.quiet_agent().await;
    agent.volumes.hold("u");
    agent.volumes.synced();
    bench.register(&agent);
    bench.rest().await;
    assert_eq!(bench.machine.take_calls(), Vec::<String>::new());
    assert_eq!(agent.volumes.gc(false).await, []);
    agent.volumes.release("u");
    bench.settle().await;
    assert_eq!(bench.machine.take_calls().len(), 3);
    assert_eq!(agent.state("u"), PodVolumes::Released);
    bench.nothing_wrong();
}

#[tokio::test(start_paused = true)]
async fn unknown_directories_are_removed_or_quarantined() {
    let bench = Bench::new();
    let paths = bench.paths();
    fs::create_dir_all(paths.pod_volumes("empty").join("test~gone")).unwrap();
    let full = paths.pod("full").join("plugins/what");
    fs::create_dir_all(&full).unwrap();
    fs::write(full.join("file"), "data").unwrap();
    let linked = paths.pod("linked").join("plugins");
    fs::create_dir_all(&linked).unwrap();
    std::os::unix::fs::symlink(bench.root.path(), linked.join("out")).unwrap();
    let mounted = paths.pod("mounted").join("somewhere");
    fs::create_dir_all(&mounted).unwrap();
    bench.machine.mount_at(&mounted);
    let agent = bench.quiet_agent().await;
    let fates = |findings: Vec<crate::volumes::Finding>| -> Vec<(String, &'static str)> {
        let fate = |fate: &OrphanOutcome| match fate {
            OrphanOutcome::Removed => "removed",
            OrphanOutcome::Mounted(_) => "mounted",
            OrphanOutcome::Quarantined(_) => "quarantined",
            OrphanOutcome::Kept(_) => "kept",
        };
        findings.iter().map(|finding| (finding.uid.clone(), fate(&finding.fate))).collect()
    };
    let wanted =
        [("empty", "removed"), ("full", "quarantined"), ("linked", "quarantined"), ("mounted", "mounted")]
            .map(|(uid, fate)| (uid.to_owned(), fate));
    // Before pods and Node are known, nothing is touched in either mode.
    for (dry_run, findings) in [(true, &wanted[..]), (false, &[])] {
        assert_eq!(fates(agent.volumes.gc(dry_run).await), findings);
        assert!(full.exists() && !paths.quarantine().exists());
    }
    agent.volumes.synced();
    tell(&bench.api, &agent.volumes);
    bench.settle().await;
    let left = |dir: &std::path::Path| -> Vec<String> {
        let entries =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    };
    assert_eq!(left(&paths.pods()), ["mounted"]);
    let quarantined = left(&paths.quarantine());
    assert!(quarantined[0].ends_with("Z-full") && quarantined[1].ends_with("Z-linked"), "{quarantined:?}");
    let file = paths.quarantine().join(&quarantined[0]).join("plugins/what/file");
    assert_eq!(fs::read_to_string(file).unwrap(), "data");
    assert_eq!(bench.events("OrphanedPodVolume").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn directory_with_a_new_mount_is_moved_back() {
    let bench = Bench::new();
    let paths = bench.paths();
    fs::create_dir_all(paths.pod("u").join("late")).unwrap();
    fs::write(paths.pod("u").join("file"), "data").unwrap();
    bench.machine.state().mounts_late = Some(paths.quarantine());
    let agent = bench.quiet_agent().await;
    agent.volumes.synced();
    tell(&bench.api, &agent.volumes);
    bench.settle().await;
    assert_eq!(fs::read_to_string(paths.pod("u").join("file")).unwrap(), "data");
    assert_eq!(fs::read_dir(paths.quarantine()).unwrap().count(), 0);
    assert_eq!(bench.events("OrphanedPodVolume"), Vec::<String>::new());
    // No mount is left in it.
    let findings = agent.volumes.gc(false).await;
    assert!(
        matches!(&findings[..], [one] if matches!(one.fate, OrphanOutcome::Quarantined(_))),
        "{findings:?}"
    );
}

#[tokio::test]
async fn quarantine_is_listed_and_purged_only_without_mounts() {
    let bench = Bench::new();
    let (paths, outside) = (bench.paths(), bench.root.path().join("outside"));
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("file"), "stays").unwrap();
    assert_eq!(quarantined(&paths).unwrap(), []);
    for name in ["20260101T000000Z-a", "20260102T030405Z-b", "other"] {
        let inner = paths.quarantine().join(name).join("plugins/x");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("file"), "data").unwrap();
        std::os::unix::fs::symlink(&outside, inner.join("out")).unwrap();
    }
    let listed = quarantined(&paths).unwrap();
    let since: Vec<_> = listed.iter().map(|one| one.since.map(|at| at.to_string())).collect();
    let expected = [Some("2026-01-01T00:00:00Z"), Some("2026-01-02T03:04:05Z"), None];
    assert_eq!(since, expected.map(|at| at.map(str::to_owned)));
    let mounted = listed[1].path.join("plugins/x");
    bench.machine.mount_at(&mounted);
    let host = bench.host();
    let why = purge(&host, &listed[1].path).await.unwrap_err();
    assert_eq!(why, format!("something is mounted at {}; unmount it", mounted.display()));
    assert!(mounted.join("file").exists(), "nothing of it was touched");
    purge(&host, &listed[0].path).await.unwrap();
    assert!(!listed[0].path.exists());
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "stays");
    bench.machine.mount_at(&paths.quarantine());
    assert!(purge(&host, &listed[2].path).await.is_err(), "what is mounted over the quarantine is not ours");
}

#[tokio::test(start_paused = true)]
async fn survey_leaves_volumes_to_the_agent() {
    let bench = Bench::new();
    leave(&bench).await;
    let paths = bench.paths();
    for (uid, file) in [("empty", None), ("full", Some("what/file")), ("runs", Some("containers/none.json"))]
    {
        fs::create_dir_all(paths.pod(uid).join("what")).unwrap();
        fs::create_dir_all(paths.pod(uid).join("containers")).unwrap();
        if let Some(file) = file {
            fs::write(paths.pod(uid).join(file), "data").unwrap();
        }
    }
    let known = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect();
    let (host, plugins) = (bench.host(), bench.plugins());
    let survey = Survey::new(&host, &plugins).await.unwrap();
    let left = survey.left(&host, &known(&["u", "empty", "full", "runs"]), true).await;
    assert_eq!(left, Remains::default());
    for tidy in [false, true] {
        let left = survey.left(&host, &known(&[]), tidy).await;
        let volume = |volume: &str, uid: Option<&str>| LeftVolume {
            volume: volume.to_owned(),
            uid: uid.map(str::to_owned),
        };
        let expected =
            [volume("test/disk/a", None), volume("test/disk/a", Some("u")), volume("test/own/x", Some("u"))];
        let mut volumes = left.volumes;
        volumes.sort_by(|a, b| (&a.volume, &a.uid).cmp(&(&b.volume, &b.uid)));
        assert_eq!(volumes, expected);
        let fates: Vec<(&str, &OrphanOutcome)> =
            left.findings.iter().map(|finding| (finding.uid.as_str(), &finding.fate)).collect();
        assert!(
            matches!(
                fates[..],
                [
                    ("empty", OrphanOutcome::Removed),
                    ("full", OrphanOutcome::Quarantined(_)),
                    ("runs", OrphanOutcome::Kept(_))
                ]
            ),
            "{fates:?}"
        );
        assert_eq!(paths.pod("empty").exists(), !tidy);
        assert_eq!(paths.pod("full").exists(), !tidy);
    }
    assert!(paths.pod("runs").exists() && paths.pod("u").exists());
    assert_eq!(bench.machine.take_calls(), Vec::<String>::new(), "no driver was asked");
}

/// Unrecognized mounts are removed in a separate thread, so this test runs in real time.
#[tokio::test]
async fn unrecognized_mounts_are_removed_when_unrequested() {
    let bench = Bench::new();
    let paths = bench.paths();
    let places = [
        paths.pod_volume("u", "test/unknown", "v"),
        paths.pod_volume("u", "test/disk", "without-record"),
        paths.pod_volume("w", "test/disk", "pv-a"),
    ];
    for place in &places {
        fs::create_dir_all(place.join("mount")).unwrap();
        bench.machine.mount_at(place);
        bench.machine.mount_at(&place.join("mount"));
    }
    bench.disk("a", "ReadWriteOnce", "d");
    let agent = bench.quiet_agent().await;
    assert_eq!(agent.in_use(), Vec::<String>::new());
    bench.register(&agent);
    agent.volumes.want(pod("p", "w", &["a"]));
    agent.volumes.synced();
    let level = async {
        while places[..2].iter().any(|place| place.exists()) || !agent.is_ready("w") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), level).await.unwrap();
    let unmounts: Vec<String> =
        bench.machine.take_calls().into_iter().filter(|call| call.starts_with("unmount ")).collect();
    for place in &places[..2] {
        let at = |path: &std::path::Path| {
            let call = format!("unmount {}", path.display());
            unmounts.iter().position(|unmount| *unmount == call)
        };
        assert!(at(&place.join("mount")).unwrap() < at(place).unwrap(), "the last mount first: {unmounts:?}");
    }
    assert_eq!(unmounts.len(), 4, "what a pod wants is not unmounted: {unmounts:?}");
}
