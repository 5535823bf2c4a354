//! `orlop bench` on a small scale: every row is measured, nothing is lost, and the results have the fields that
//! docs/performance.md names. No test asserts a speed: speed is measured with the command, on a quiet machine.

use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::plane::{Layout, Plane};
use crate::harness::process::{ORLOP, Process, command};
use crate::harness::wait;
use crate::tls::{Secured, file};

/// Runs `orlop bench ARGS -o json` in `dir`: exit code, result, stderr.
async fn bench(dir: &Path, args: &[&str]) -> (Option<i32>, Value, String) {
    let mut command = command(&*ORLOP, dir);
    command.args(["bench", "--scale", "small", "-o", "json", "--data-dir"]).arg(dir).args(args);
    let output =
        tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output()).await.unwrap().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let result = if out.is_empty() { Value::Null } else { serde_json::from_str(&out).expect(&out) };
    (output.status.code(), result, err)
}

/// The figures of the cases of a row.
fn cases<'a>(result: &'a Value, row: &str) -> Vec<(&'a str, &'a Value)> {
    let rows = result["rows"].as_array().unwrap();
    let found =
        rows.iter().find(|found| found["row"] == row).unwrap_or_else(|| panic!("no {row} in {result:#}"));
    assert_eq!(found["problems"], serde_json::json!([]), "{row}");
    let cases = found["cases"].as_array().unwrap();
    cases.iter().map(|case| (case["case"].as_str().unwrap(), &case["server"])).collect()
}

fn number(figures: &Value, field: &str) -> f64 {
    figures[field].as_f64().unwrap_or_else(|| panic!("no number {field} in {figures:#}"))
}

/// Runs the rows on servers that bench starts, and checks the fields that every result has.
async fn measured(rows: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let (code, result, err) = bench(dir.path(), rows).await;
    assert_eq!(code, Some(0), "{err}\n{result:#}");
    assert_eq!(result["orlop_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&result["scale"], &result["problems"]), (&"small".into(), &serde_json::json!([])));
    for field in ["cores", "memory_bytes"] {
        assert!(number(&result["machine"], field) > 0.0, "{field}");
    }
    // On a disk in memory it is too short to measure.
    for field in ["sync_of_2_kib_p50_us", "sync_of_2_kib_p99_us"] {
        assert!(number(&result["machine"], field) >= 0.0, "{field}");
    }
    for field in ["cpu_model", "kernel", "file_system", "file_system_source"] {
        assert!(result["machine"][field].as_str().is_some_and(|text| !text.is_empty()), "{field}");
    }
    let names: Vec<&str> =
        result["rows"].as_array().unwrap().iter().map(|row| row["row"].as_str().unwrap()).collect();
    assert_eq!(names, rows);
    assert!(rows.iter().all(|row| err.contains(&format!("bench: {row} ..."))), "progress in {err}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    result
}

#[tokio::test]
async fn request_rows_are_measured() {
    let rows = ["create-64", "create-1", "get-64", "list-5000", "patch-64"];
    let result = measured(&rows).await;
    for row in ["create-64", "create-1", "get-64", "patch-64"] {
        let [(_, figures)] = cases(&result, row)[..] else { panic!("{row} has one case") };
        assert!(number(figures, "per_s") > 1.0, "{row}");
        assert!(number(figures, "p50_us") <= number(figures, "p99_us"), "{row}");
        assert!(number(figures, "server_cpu_us") > 0.0 && number(figures, "bench_cpu_us") > 0.0, "{row}");
    }
    // On a disk in memory, nothing can be expressed in syncs.
    if number(&result["machine"], "sync_of_2_kib_p50_us") > 0.0 {
        assert!(number(cases(&result, "create-1")[0].1, "p50_syncs") > 0.0);
    }
    let list = cases(&result, "list-5000")[0].1;
    assert_eq!(number(list, "volumes"), 200.0);
    // 200 volumes of 700 bytes and more.
    assert!(number(list, "answer_mb") > 0.14 && number(list, "p50_ms") > 0.0, "{list:#}");
}

#[tokio::test]
async fn event_and_claim_rows_are_measured() {
    let result = measured(&["watch", "bind"]).await;
    let watch = cases(&result, "watch")[0].1;
    for field in ["lost", "duplicated", "out_of_order"] {
        assert_eq!(number(watch, field), 0.0, "{field}");
    }
    assert_eq!(number(watch, "events"), 30.0 * 100.0);
    assert!(number(watch, "p50_ms") <= number(watch, "p99_ms"));
    let bind = cases(&result, "bind");
    let conditions: Vec<(f64, f64)> =
        bind.iter().map(|(_, case)| (number(case, "pairs"), number(case, "released"))).collect();
    assert_eq!(conditions, [(20.0, 0.0), (50.0, 0.0), (50.0, 50.0)]);
    assert!(bind.iter().all(|(_, case)| number(case, "bound_per_s") > 0.1), "{bind:?}");
}

#[tokio::test]
async fn csi_driver_row_is_measured() {
    let result = measured(&["csi"]).await;
    let [(_, claims), (_, attachments), (_, moves)] = cases(&result, "csi")[..] else {
        panic!("claims, attachments, moves: {result:#}")
    };
    assert!(number(claims, "claims") >= 1.0 && number(claims, "provisioned_per_s") > 0.1, "{claims:#}");
    assert_eq!(number(attachments, "attachments"), number(claims, "claims"), "a pod for each claim");
    for field in ["attached_per_s", "detached_per_s", "round_trips_per_s"] {
        assert!(number(attachments, field) > 0.1, "{field}: {attachments:#}");
    }
    assert!(number(moves, "moves") >= 1.0 && number(moves, "move_p50_ms") > 0.0, "{moves:#}");
    assert!(number(moves, "move_p50_ms") <= number(moves, "move_p99_ms"), "{moves:#}");
}

#[tokio::test]
async fn node_row_is_measured() {
    if !orlop_test_support::privileges::has_root("the bench row of a node") {
        return;
    }
    let result = measured(&["node"]).await;
    let found = cases(&result, "node");
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["5 local", "5 csi", "5 emptyDir", "5 secret"]);
    for (name, case) in found {
        assert_eq!(number(case, "pods"), 5.0, "{name}");
        for field in ["mounted_ms", "unmounted_ms", "rss_mb", "own_mb", "threads"] {
            assert!(number(case, field) > 0.0, "{name}, {field}: {case:#}");
        }
        assert!(number(case, "own_mb") <= number(case, "rss_mb"), "{name}: {case:#}");
        assert_eq!(case["after_attached_ms"].is_number(), name == "5 csi", "{name}: {case:#}");
    }
}

#[tokio::test]
async fn process_rows_are_measured() {
    let result = measured(&["memory", "start", "idle", "disk"]).await;
    let volumes = |row: &str| -> Vec<f64> {
        cases(&result, row).iter().map(|(_, case)| number(case, "volumes")).collect()
    };
    assert_eq!(volumes("memory"), [0.0, 100.0, 300.0]);
    // 200 are written before the kill.
    assert_eq!(volumes("start"), [0.0, 300.0, 500.0]);
    for (name, case) in cases(&result, "memory") {
        assert!(number(case, "rss_mb") > 5.0 && number(case, "rss_mb") < 2_000.0, "{name}: {case:#}");
    }
    let (name, most) = *cases(&result, "memory").last().unwrap();
    assert!(number(most, "why_p50_ms") > 0.0, "{name}: {most:#}");
    assert!(number(most, "why_p50_ms") <= number(most, "why_max_ms"), "{name}: {most:#}");
    for (name, case) in cases(&result, "start") {
        assert!(
            number(case, "ready_s") > 0.0 && number(case, "ready_s") <= number(case, "longest_s"),
            "{name}"
        );
    }
    assert!(number(cases(&result, "idle")[0].1, "cpu_percent") >= 0.0);
    let disk = cases(&result, "disk");
    assert_eq!(disk.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["running", "stopped"]);
    for (name, case) in disk {
        // At least the size of the data itself.
        assert!(number(case, "ratio") > 1.0, "{name}: {case:#}");
    }
}

#[tokio::test]
async fn external_servers_are_compared_and_left_clean() {
    let plane = Plane::start().await;
    let other = Plane::of(Layout::ServerAlone).start().await;
    let dir = tempfile::tempdir().unwrap();
    let (url, other_url) = (plane.url(), other.url());
    let rows = ["create-64", "watch", "start", "-n", "60"];
    let servers = ["--server", url.as_str(), "--against", other_url.as_str()];
    let (code, result, err) = bench(dir.path(), &[&rows[..], &servers].concat()).await;
    assert_eq!(code, Some(0), "{err}\n{result:#}");
    assert_eq!((&result["server"], &result["against"]), (&url.as_str().into(), &other_url.as_str().into()));
    assert_eq!(result["left_out"][0]["row"], "start", "it cannot be started by bench");
    let create = &result["rows"][0]["cases"][0];
    let ratio = number(&create["server"], "per_s") / number(&create["against"], "per_s");
    assert!((number(&create["ratio"], "per_s") - ratio).abs() < 1e-6, "{create:#}");
    for side in ["server", "against"] {
        assert_eq!(number(&result["rows"][1]["cases"][0][side], "events"), 30.0 * 60.0, "{side}");
        assert_eq!(number(&result["rows"][1]["cases"][0][side], "lost"), 0.0, "{side}");
    }
    for plane in [&plane, &other] {
        // A volume is removed when the protection controller has removed its finalizer.
        let is_empty = |list: &serde_json::Value| list["items"] == serde_json::json!([]);
        plane.http().until("/api/v1/persistentvolumes", "without volumes", is_empty).await;
    }
}

#[tokio::test]
async fn claims_on_an_external_server_are_deleted() {
    let plane = Plane::start().await;
    let dir = tempfile::tempdir().unwrap();
    let (code, result, err) = bench(dir.path(), &["bind", "-n", "5", "--server", &plane.url()]).await;
    assert_eq!(code, Some(0), "{err}\n{result:#}");
    assert_eq!(cases(&result, "bind").len(), 2);
    wait::until("everything of the run is gone", async || {
        let mut left = Vec::new();
        for path in ["persistentvolumes", "persistentvolumeclaims", "namespaces"] {
            let list =
                plane.http().get(&format!("/api/v1/{path}?labelSelector=orlop-bench")).await.expect(200);
            left.extend(
                list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()),
            );
        }
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
}

#[tokio::test]
async fn external_server_is_measured_over_tls_with_a_token() {
    let secured = Secured::start().await;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(path("token"), "hush\n").unwrap();
    std::fs::write(path("wrong"), "open\n").unwrap();
    let (ca, token, wrong) = (file("ca.crt").display().to_string(), path("token"), path("wrong"));
    let server = ["--server", &secured.url, "--certificate-authority", &ca, "--token-file"];
    let rows = ["get-64", "watch", "-n", "40"];
    let (code, result, err) = bench(dir.path(), &[&rows[..], &server, &[&token]].concat()).await;
    assert_eq!(code, Some(0), "{err}\n{result:#}");
    assert_eq!(number(cases(&result, "watch")[0].1, "lost"), 0.0);

    let (code, result, err) = bench(dir.path(), &[&["create-1"], &server[..], &[&wrong]].concat()).await;
    assert_eq!(code, Some(1), "{result:#}");
    assert!(err.contains("error: create-1") && err.contains("401"), "{err}");
}

#[tokio::test]
async fn invalid_arguments_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    for (args, part) in [
        (&["no-such-row"][..], "create-64"),
        (&["--server", "https://127.0.0.1:1"], "--certificate-authority"),
        (&["--server", "127.0.0.1"], "http://"),
        (&["--data-dir", "/no/such/place"], "/no/such/place"),
        (&["-n", "0"], "0"),
        (&["--program", "orlop", "--server", "http://127.0.0.1:1"], "--program"),
    ] {
        let mut command = command(&*ORLOP, dir.path());
        let output = command.arg("bench").args(args).stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains(part), "{args:?}: {err}");
    }
}

#[tokio::test]
async fn unreachable_server_is_a_failure() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let (code, result, err) = bench(dir.path(), &["create-1", "watch", "-n", "3", "--server", &url]).await;
    assert_eq!(code, Some(1), "{err}");
    assert_eq!(result["problems"].as_array().map(Vec::is_empty), Some(false), "{result:#}");
    assert!(err.contains("cannot be reached"), "{err}");
}

#[tokio::test]
async fn other_programs_can_be_measured() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("another");
    std::os::unix::fs::symlink(&*ORLOP, &program).unwrap();
    let program = program.display().to_string();
    let (code, result, err) = bench(dir.path(), &["create-1", "-n", "5", "--program", &program]).await;
    assert_eq!(code, Some(0), "{err}");
    assert!(result["server"].as_str().is_some_and(|words| words.contains(&program)), "{result:#}");
    // A program that is not a server never reports its address.
    let (code, _, err) = bench(dir.path(), &["create-1", "--program", "/bin/true"]).await;
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("ended before it listened"), "{err}");
}

#[tokio::test]
async fn signal_stops_servers_and_removes_their_data() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let args = ["bench", "create-64", "-n", "1000000", "--data-dir"].map(str::to_owned);
    let mut bench = Process::start("bench", dir.path(), &[&args[..], &[data.display().to_string()]].concat());
    let child = wait::until("its server has data", async || {
        let log = bench.log();
        let inside = |path: &Path| {
            std::fs::read_dir(path).map(|found| found.flatten().next().map(|entry| entry.path()))
        };
        let Ok(Some(run)) = inside(&data) else { return Err(log) };
        let lock = run.join("data-0/LOCK");
        let text = std::fs::read_to_string(&lock).map_err(|_| log.clone())?;
        text.split_whitespace().nth(1).and_then(|pid| pid.parse::<i32>().ok()).ok_or(log)
    })
    .await;
    bench.signal(Signal::INT);
    assert_eq!(bench.exit_code().await, 130);
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "its data is removed");
    let gone = !Path::new(&format!("/proc/{child}")).exists();
    assert!(gone, "its server {child} still runs");
}
