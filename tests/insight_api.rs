//! The paths of the group `orlop.dev` on a real server with its controllers: deleted objects are restored, moved
//! claims stay bound, objects that have changed since the plan are left alone, and a stream has neither gaps nor
//! repetitions. The commands that use them are in `insight.rs`.

use std::collections::BTreeSet;
use std::path::Path;

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::http::{Answer, Http};
use crate::harness::plane::{Layout, Plane};
use crate::harness::process::Process;
use crate::harness::wait;

const ROOT: &str = "/apis/orlop.dev/v1";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn claims(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims")
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// A verb without options.
async fn verb(http: &Http, object: &str, verb: &str, options: Value) -> Answer {
    http.post(&format!("{ROOT}/{object}/{verb}"), &options).await
}

fn volume(name: &str, source: Value) -> Value {
    let mut volume = json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
        },
    });
    let (Value::Object(source), Some(spec)) = (source, volume["spec"].as_object_mut()) else {
        unreachable!()
    };
    spec.extend(source);
    volume
}

fn csi(name: &str) -> Value {
    volume(name, json!({"csi": {"driver": "d.example.com", "volumeHandle": format!("handle-{name}")}}))
}

fn claim(name: &str, volume: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": volume,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

async fn in_phase(http: &Http, path: &str, phase: &str) -> Value {
    http.until(path, phase, |object| text(object, "/status/phase") == phase).await
}

/// A volume and a claim of `default` that are bound to each other.
async fn bound(http: &Http, volume: Value, name: &str) -> Value {
    http.create(VOLUMES, &volume).await;
    http.create(&claims("default"), &claim(name, text(&volume, "/metadata/name"))).await;
    in_phase(http, &format!("{}/{name}", claims("default")), "Bound").await
}

#[tokio::test]
async fn accidentally_deleted_volume_is_restored_with_one_request() {
    let plane = Plane::start().await;
    let http = plane.http();
    for (name, aim, verb_name) in [
        ("pv-u", "persistentvolumes/pv-u", "undelete"),
        ("pv-r", "namespaces/default/persistentvolumeclaims/pv-r", "recover"),
    ] {
        let before = bound(&http, csi(name), name).await;
        let (path, claim_path) = (format!("{VOLUMES}/{name}"), format!("{}/{name}", claims("default")));
        // As users do it when a finalizer blocks the deletion.
        http.delete(&path).await.expect(200);
        http.patch(&path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
        http.until_gone(&path).await;
        in_phase(&http, &claim_path, "Lost").await;

        let plan = verb(&http, aim, &format!("{verb_name}?dryRun=All"), json!({})).await.expect(200);
        assert_eq!(plan["steps"][0]["action"], "create", "{plan:#}");
        assert_eq!(http.get(&path).await.code, 404, "a dry run does nothing");
        let options = json!({"revision": plan["revision"]});
        let done = verb(&http, aim, verb_name, options).await.expect(200);
        assert_eq!(done["steps"].as_array().map(Vec::len), Some(1), "{done:#}");

        let after = in_phase(&http, &claim_path, "Bound").await;
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(after["status"]["capacity"], before["status"]["capacity"]);
        let volume = in_phase(&http, &path, "Bound").await;
        assert_eq!(text(&volume, "/spec/csi/volumeHandle"), format!("handle-{name}"));
        assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Retain");
        assert_eq!(volume["spec"]["claimRef"]["uid"], before["metadata"]["uid"]);
        // A second request has nothing to do, and the response states this.
        let again = verb(&http, aim, verb_name, json!({})).await;
        assert_eq!(again.code, 409, "{}", again.text());
        let events = http.get("/apis/events.k8s.io/v1/namespaces/default/events").await.expect(200);
        let recorded = events["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|event| event["action"] == verb_name && text(event, "/note").contains(" by "));
        assert!(recorded, "{events:#}");
    }
}

#[tokio::test]
async fn moved_claim_is_never_lost() {
    let plane = Plane::start().await;
    let http = plane.http();
    http.create("/api/v1/namespaces", &json!({"metadata": {"name": "there"}})).await;
    bound(&http, csi("pv"), "c").await;
    let mut watch = http.watch("/api/v1/persistentvolumeclaims?watch=true&resourceVersion=0").await;
    let mut from = "default";
    for _ in 0..10 {
        let to = if from == "default" { "there" } else { "default" };
        let aim = format!("namespaces/{from}/persistentvolumeclaims/c");
        verb(&http, &aim, "transfer", json!({"namespace": to})).await.expect(200);
        let moved = http.get(&format!("{}/c", claims(to))).await.expect(200);
        assert_eq!(moved["status"]["phase"], "Bound", "in the same commit");
        assert_eq!(http.get(&format!("{}/c", claims(from))).await.code, 404);
        let volume = http.get(&format!("{VOLUMES}/pv")).await.expect(200);
        assert_eq!(volume["spec"]["claimRef"]["uid"], moved["metadata"]["uid"]);
        from = to;
    }
    // The binder has processed everything once it has bound the last claim.
    bound(&http, csi("last"), "last").await;
    let is_last = |event: &Value| {
        text(event, "/object/metadata/name") == "last" && text(event, "/object/status/phase") == "Bound"
    };
    let seen = watch.until("the last one is bound", is_last).await;
    let lost: Vec<&Value> =
        seen.iter().filter(|event| text(event, "/object/status/phase") == "Lost").collect();
    assert!(lost.is_empty(), "{lost:#?}");
    assert_eq!(text(&http.get(&format!("{VOLUMES}/pv")).await.json(), "/status/phase"), "Bound");
    // A claim in use cannot be moved.
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    }});
    http.create(&format!("/api/v1/namespaces/{from}/pods"), &pod).await;
    let aim = format!("namespaces/{from}/persistentvolumeclaims/c");
    let refused = verb(&http, &aim, "transfer", json!({"namespace": "kube-public"})).await;
    assert!(refused.code == 409 && refused.text().contains("used by pods"), "{}", refused.text());
}

#[tokio::test]
async fn released_volume_can_be_bound_again() {
    let plane = Plane::start().await;
    let http = plane.http();
    // With its data, for one claim.
    bound(&http, csi("kept"), "first").await;
    let path = format!("{VOLUMES}/kept");
    let early = verb(&http, "persistentvolumes/kept", "reclaim", json!({"keepData": true})).await;
    assert!(early.code == 409 && early.text().contains("default/first"), "{}", early.text());
    http.delete(&format!("{}/first", claims("default"))).await.expect(200);
    in_phase(&http, &path, "Released").await;
    let options = json!({"keepData": true, "for": "default/second"});
    verb(&http, "persistentvolumes/kept", "reclaim", options).await.expect(200);
    http.create(&claims("default"), &claim("stranger", "")).await;
    http.create(&claims("default"), &claim("second", "")).await;
    let second = in_phase(&http, &format!("{}/second", claims("default")), "Bound").await;
    assert_eq!(second["spec"]["volumeName"], "kept");
    http.delete(&format!("{}/stranger", claims("default"))).await.expect(200);
    // The binder may still give a volume to a claim that is being deleted.
    http.until_gone(&format!("{}/stranger", claims("default"))).await;

    // Without its data, once; then its previous reclaim policy applies again.
    let place = volume("wiped", json!({"hostPath": {"path": plane.dir().join("wiped")}}));
    bound(&http, place, "third").await;
    let path = format!("{VOLUMES}/wiped");
    http.delete(&format!("{}/third", claims("default"))).await.expect(200);
    in_phase(&http, &path, "Released").await;
    let refused =
        verb(&http, "persistentvolumes/wiped", "reclaim", json!({"scrub": true, "for": "a/b"})).await;
    assert_eq!(refused.code, 400, "{}", refused.text());
    verb(&http, "persistentvolumes/wiped", "reclaim", json!({"scrub": true})).await.expect(200);
    let recycler = "/api/v1/namespaces/default/pods/recycler-for-wiped";
    http.until(recycler, "there", |pod| pod["metadata"]["name"].is_string()).await;
    let scrubbed =
        http.patch(&format!("{recycler}/status"), &json!({"status": {"phase": "Succeeded"}})).await;
    scrubbed.expect(200);
    let free = in_phase(&http, &path, "Available").await;
    assert_eq!(free["spec"]["persistentVolumeReclaimPolicy"], "Retain", "{free:#}");
    assert_eq!(free["spec"].get("claimRef"), None, "{free:#}");
    assert!(!free["metadata"].to_string().contains("orlop.dev/reclaim-policy-after-scrub"), "{free:#}");
}

#[tokio::test]
async fn finalizers_are_removed_only_when_nothing_needs_them() {
    let plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let attachment = json!({
        "metadata": {"name": "va", "finalizers": ["external-attacher/d-example-com"]},
        "spec": {"attacher": "d.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}},
    });
    let aim = "volumeattachments.storage.k8s.io/va";
    http.create("/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await;
    http.create(attachments, &attachment).await;
    for (case, options, code, words) in [
        ("1 its node is there", json!({}), 409, "may still write to the volume"),
        ("2 other words", json!({"force": "yes"}), 400, "data may be corrupted"),
    ] {
        let refused = verb(&http, aim, "release", options).await;
        assert!(refused.code == code && refused.text().contains(words), "{case}: {}", refused.text());
    }
    let forced = verb(&http, aim, "release?dryRun=All", json!({"force": "data may be corrupted"})).await;
    assert!(text(&forced.expect(200), "/warnings/0").contains("data may be corrupted"));
    http.delete("/api/v1/nodes/n1").await.expect(200);
    verb(&http, aim, "release", json!({})).await.expect(200);
    // No object refers to the attachment's driver, which does not prove that the driver is not running.
    let held = http.get(&format!("{attachments}/va")).await.expect(200);
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held:#}");
    let force = json!({"force": "data may be corrupted"});
    for (case, name, options, words) in [
        ("3 the driver is not confirmed as removed", "release", json!({}), "can force it"),
        ("4 by another verb", "unblock", force.clone(), "release asks"),
    ] {
        let refused = verb(&http, aim, name, options).await;
        assert!(refused.code == 409 && refused.text().contains(words), "{case}: {}", refused.text());
    }
    verb(&http, aim, "release", force).await.expect(200);
    assert_eq!(http.get(&format!("{attachments}/va")).await.code, 404, "its driver is gone as well");

    // A claim whose controller no longer exists, with a pod and without.
    let path = format!("{}/c", claims("default"));
    http.create(&claims("default"), &claim("c", "")).await;
    let aim = "namespaces/default/persistentvolumeclaims/c";
    let early = verb(&http, aim, "unblock", json!({})).await;
    assert!(early.code == 409 && early.text().contains("not being deleted"), "{}", early.text());
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    }});
    http.create("/api/v1/namespaces/default/pods", &pod).await;
    http.delete(&path).await.expect(200);
    let held = verb(&http, aim, "unblock", json!({})).await;
    assert!(held.code == 409 && held.text().contains("default/p"), "{}", held.text());
    let now = [("content-type", "application/json")];
    let body = json!({"gracePeriodSeconds": 0}).to_string().into();
    http.send(Method::DELETE, "/api/v1/namespaces/default/pods/p", &now, body).await.expect(200);
    verb(&http, aim, "unblock", json!({})).await.expect(200);
    assert_eq!(http.get(&path).await.code, 404);
}

#[tokio::test]
async fn outdated_plan_is_not_executed() {
    let plane = Plane::start().await;
    let http = plane.http();
    http.create("/api/v1/namespaces", &json!({"metadata": {"name": "there"}})).await;
    bound(&http, csi("pv"), "c").await;
    let aim = "namespaces/default/persistentvolumeclaims/c";
    let plan = verb(&http, aim, "transfer?dryRun=All", json!({"namespace": "there"})).await.expect(200);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = http.patch(&format!("{VOLUMES}/pv"), &label).await.expect(200);
    let options = json!({"namespace": "there", "revision": plan["revision"]});
    let refused = verb(&http, aim, "transfer", options).await;
    assert!(
        refused.code == 409 && refused.text().contains("persistentvolumes/pv has changed"),
        "{}",
        refused.text()
    );
    let volume = http.get(&format!("{VOLUMES}/pv")).await.expect(200);
    assert_eq!(volume["metadata"]["resourceVersion"], changed["metadata"]["resourceVersion"]);
    assert_eq!(http.get(&format!("{}/c", claims("there"))).await.code, 404);

    // An object that was created and deleted in between counts, too.
    http.create(CONFIG_MAPS, &json!({"metadata": {"name": "m"}, "data": {"n": "1"}})).await;
    let path = format!("{CONFIG_MAPS}/m");
    http.delete(&path).await.expect(200);
    let aim = "namespaces/default/configmaps/m";
    let plan = verb(&http, aim, "undelete?dryRun=All", json!({})).await.expect(200);
    http.create(CONFIG_MAPS, &json!({"metadata": {"name": "m"}, "data": {"n": "2"}})).await;
    http.delete(&path).await.expect(200);
    let options = json!({"revision": plan["revision"]});
    let refused = verb(&http, aim, "undelete", options).await;
    assert!(refused.code == 409 && refused.text().contains("has changed since"), "{}", refused.text());
    assert_eq!(http.get(&path).await.code, 404);
    let seen = http.get(&format!("{ROOT}/revisions?at={}", text(&plan, "/revision"))).await.expect(200);
    let at = text(&seen, "/time");
    verb(&http, aim, "undelete", json!({"at": "2001-01-01T00:00:00Z"})).await.expect(409);
    verb(&http, aim, "undelete", json!({"at": at})).await.expect(409);
    verb(&http, aim, "undelete", json!({})).await.expect(200);
    assert_eq!(http.get(&path).await.expect(200)["data"]["n"], "2");
}

/// Reads lines of a stream up to the last of `count` writes.
fn take(lines: &[Value], seen: &mut Vec<(u64, String)>) {
    for line in lines.iter().filter(|line| line["object"].is_object()) {
        let revision = text(line, "/revision").parse().unwrap();
        seen.push((revision, format!("{} {}", text(line, "/type"), text(line, "/object/metadata/name"))));
    }
}

#[tokio::test]
async fn stream_resumes_without_gaps_after_restart() {
    let mut plane = Plane::of(Layout::ServerAlone).start().await;
    let http = plane.http();
    let map = |name: &str| json!({"metadata": {"name": name}});
    http.create(CONFIG_MAPS, &map("old")).await;
    let mut stream = http.watch(&format!("{ROOT}/stream?resource=configmaps")).await;
    let begin = stream.until("SYNCED", |line| line["type"] == "SYNCED").await;
    let mut seen = Vec::new();
    take(&begin, &mut seen);
    assert!(seen.iter().any(|(_, what)| what == "ADDED old"), "{seen:?}");
    seen.clear();
    for n in 0..20 {
        http.create(CONFIG_MAPS, &map(&format!("m{n}"))).await;
    }
    let is = |name: &'static str| move |line: &Value| text(line, "/object/metadata/name") == name;
    take(&stream.until("half of them", is("m9")).await, &mut seen);
    drop(stream);
    plane.kill_and_restart().await;
    http.delete(&format!("{CONFIG_MAPS}/old")).await.expect(200);
    let last = seen.last().unwrap().0;
    let mut stream = http.watch(&format!("{ROOT}/stream?resource=configmaps&from={last}")).await;
    assert_eq!(stream.next().await.unwrap()["type"], "HEADER");
    assert_eq!(stream.next().await.unwrap()["type"], "SYNCED");
    take(&stream.until("the deletion", |line| line["type"] == "DELETED").await, &mut seen);
    let mut wanted: Vec<String> = (0..20).map(|n| format!("ADDED m{n}")).collect();
    wanted.push("DELETED old".to_owned());
    assert_eq!(seen.iter().map(|(_, what)| what.clone()).collect::<Vec<_>>(), wanted);
    let revisions: BTreeSet<u64> = seen.iter().map(|(revision, _)| *revision).collect();
    assert_eq!(revisions.len(), seen.len(), "no revision twice");
    let progress = stream.until("a sign of life", |line| line["type"] == "PROGRESS").await;
    assert!(!progress.is_empty());
}

#[tokio::test]
async fn compacted_revisions_are_reported() {
    let flags = ["--store-retention-age=100ms", "--store-retention-revisions=64"];
    let plane = Plane::of(Layout::ServerAlone).server_flags(&flags).start().await;
    let http = plane.http();
    let made = http.create(CONFIG_MAPS, &json!({"metadata": {"name": "m"}})).await;
    let first = text(&made, "/metadata/resourceVersion").to_owned();
    let mut n = 0;
    let oldest = wait::until("the first revision is forgotten", async || {
        for _ in 0..100 {
            n += 1;
            http.patch(&format!("{CONFIG_MAPS}/m"), &json!({"data": {"n": n.to_string()}})).await.expect(200);
        }
        let known = http.get(&format!("{ROOT}/revisions")).await.expect(200);
        let oldest = text(&known, "/oldest/revision").to_owned();
        if oldest.parse::<u64>().unwrap() > first.parse::<u64>().unwrap() { Ok(oldest) } else { Err(oldest) }
    })
    .await;
    for path in [
        format!("stream?from={first}"),
        format!("stream?at={first}"),
        format!("stream?at={first}&follow=false"),
    ] {
        let answer = http.get(&format!("{ROOT}/{path}")).await;
        let lines: Vec<Value> =
            answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((answer.code, lines.len()), (200, 2), "{path}: {lines:?}");
        assert_eq!((&lines[1]["type"], &lines[1]["code"]), (&json!("ERROR"), &json!(410)), "{path}");
    }
    let object = "namespaces/default/configmaps/m";
    for path in [
        format!("{object}/diff?from={first}"),
        format!("revisions?at={first}"),
        format!("timeline?after={first}"),
        format!("capture?from={first}"),
    ] {
        let status = http.get(&format!("{ROOT}/{path}")).await.expect(410);
        let reported: u64 = text(&status, "/message").rsplit(' ').next().unwrap().parse().unwrap();
        assert!(reported >= oldest.parse().unwrap(), "{path}: {status}");
    }
    http.get(&format!("{ROOT}/{object}/history")).await.expect(200);
    assert_eq!(http.get(&format!("{ROOT}/capture")).await.code, 200, "what is known");
}

/// The output of a server that fails to start.
async fn refused(dir: &Path, flags: &[&str]) -> String {
    let args = ["serve", "--listen", "127.0.0.1:0"].iter().chain(flags).map(|arg| (*arg).to_owned());
    // Each start has its own log.
    let name = format!("refused-{}", std::fs::read_dir(dir).unwrap().count());
    let mut process = Process::start(&name, dir, &args.collect::<Vec<_>>());
    assert_eq!(process.exit_code().await, 1, "{flags:?}:\n{}", process.log());
    process.log()
}

#[tokio::test]
async fn server_starts_from_the_recording_of_another() {
    let plane = Plane::start().await;
    let http = plane.http();
    let claim_before = bound(&http, csi("pv"), "c").await;
    let volume_before = http.get(&format!("{VOLUMES}/pv")).await.expect(200);
    http.create(CONFIG_MAPS, &json!({"metadata": {"name": "gone"}, "data": {"n": "1"}})).await;
    http.delete(&format!("{CONFIG_MAPS}/gone")).await.expect(200);
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2-top"}});
    http.create("/api/v1/namespaces/default/secrets", &secret).await;
    let capture = http.get(&format!("{ROOT}/capture")).await;
    assert!(
        !capture.text().contains("hunter2") && capture.text().contains("\"password\""),
        "secrets are listed without values"
    );
    let file = plane.dir().join("it.capture");
    std::fs::write(&file, &capture.body).unwrap();
    let file = file.display().to_string();

    for flags in [vec![], vec!["--store-backend", "memory"]] {
        let flags: Vec<&str> = flags.into_iter().chain(["--from", &file]).collect();
        let mut second = Plane::of(Layout::OneProcess).server_flags(&flags).start().await;
        let there = second.http();
        let claim = in_phase(&there, &format!("{}/c", claims("default")), "Bound").await;
        let volume = in_phase(&there, &format!("{VOLUMES}/pv"), "Bound").await;
        for (now, before) in [(&claim, &claim_before), (&volume, &volume_before)] {
            assert_eq!(now["metadata"]["uid"], before["metadata"]["uid"]);
            assert_eq!(now["metadata"]["creationTimestamp"], before["metadata"]["creationTimestamp"]);
            assert_eq!((&now["spec"], &now["status"]), (&before["spec"], &before["status"]));
        }
        let secret = there.get("/api/v1/namespaces/default/secrets/s").await.expect(200);
        assert_eq!(secret["data"], json!({"password": ""}));
        // The recording includes the past: an object that was deleted there is restored here.
        let path = format!("{ROOT}/namespaces/default/configmaps/gone/history");
        let (here, was) = (there.get(&path).await.expect(200), http.get(&path).await.expect(200));
        let times = |history: &Value| {
            let items = history["items"].as_array().unwrap().iter();
            items.map(|item| format!("{} {}", item["type"], item["time"])).collect::<Vec<_>>()
        };
        assert_eq!(times(&here), times(&was));
        verb(&there, "namespaces/default/configmaps/gone", "undelete", json!({})).await.expect(200);
        let log = second.server().log();
        assert!(log.contains("captures do not contain the values of Secrets"), "{log}");
        second.kill().await;
        let data = second.data_dir().display().to_string();
        if !flags.contains(&"memory") {
            let said = refused(second.dir(), &["--data-dir", &data, "--from", &file]).await;
            assert!(said.contains("the store is not empty"), "{said}");
        }
    }

    let whole = String::from_utf8(capture.body).unwrap();
    let broken = plane.dir().join("broken.capture");
    // A truncated line in the middle; at the end of a file it would only be an interrupted copy.
    let mut lines: Vec<&str> = whole.lines().collect();
    let line = lines.len() / 2;
    lines[line - 1] = &lines[line - 1][..40];
    std::fs::write(&broken, lines.join("\n")).unwrap();
    let data = plane.dir().join("new").display().to_string();
    let said = refused(plane.dir(), &["--data-dir", &data, "--from", &broken.display().to_string()]).await;
    assert!(said.contains(&format!("broken.capture, line {line}: it is damaged")), "{said}");
    // Nothing was written to the disk: the second start fails on the line again, not on the store.
    let said = refused(plane.dir(), &["--data-dir", &data, "--from", &broken.display().to_string()]).await;
    assert!(said.contains("it is damaged") && !said.contains("not empty"), "{said}");
}
