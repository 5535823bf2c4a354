//! Repeated `kill -9` under load (I2, I3, I4, I6, I11).
//!
//! Writers create, update and delete, and record the acknowledged writes in a ledger. A watch resumes across all
//! restarts from the last revision that it saw. After each restart the list must agree with the ledger; at the
//! end the history must agree with the ledger write by write, the watch must have seen exactly the history, and
//! every claim must have a volume.
//!
//! ORLOP_CRASH_CYCLES sets the number of kills (10 when unset), ORLOP_CRASH_SEED repeats the choices of a run.

pub(crate) mod ledger;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{Method, Request};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::RwLock;

use crate::harness::http::{Answer, Http};
use crate::harness::plane::{Layout, Plane};
use crate::harness::wait;
use ledger::{KnownState, Ledger, SeenEvent, Wish, revision};

const MAPS: &str = "/api/v1/namespaces/load/configmaps";
const CLAIMS: &str = "/api/v1/namespaces/load/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";

/// The number of kills in a default run.
const CYCLES: u64 = 10;
const WRITERS: usize = 4;
/// Objects of each writer: few, so that each of them has a long history.
const OBJECTS: usize = 5;
const LARGEST: usize = 4096;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

/// The state that the writers share.
#[derive(Clone)]
struct Load {
    ledger: Arc<Mutex<Ledger>>,
    /// Each write locks it shared; the comparison after a restart locks it exclusively.
    gate: Arc<RwLock<()>>,
    stop: Arc<AtomicBool>,
    http: Http,
}

impl Load {
    fn ledger(&self) -> parking_lot::MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    /// Writes until it is stopped and none of its writes is pending.
    async fn write(self, writer: usize, mut random: StdRng) {
        let mut written = 0_u64;
        loop {
            let names: Vec<String> = (0..OBJECTS).map(|n| format!("w{writer}-{n}")).collect();
            let open = names.iter().find(|name| self.ledger().at(name).1.is_some()).cloned();
            if open.is_none() && self.stop.load(Ordering::SeqCst) {
                return;
            }
            let turn = self.gate.read().await;
            let done = match open {
                Some(name) => self.resolve(&name).await,
                None => {
                    written += 1;
                    let name = &names[random.random_range(0..OBJECTS)];
                    let padding = "x".repeat(random.random_range(0..LARGEST));
                    let delete = random.random_ratio(1, 5);
                    self.attempt(name, format!("{writer}/{written}/{padding}"), delete).await
                }
            };
            drop(turn);
            if done.is_err() {
                // The server is down; the test is about to restart it.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    /// One write. After an error its outcome is unknown.
    async fn attempt(&self, name: &str, value: String, delete: bool) -> Result<(), String> {
        let (now, floor) = {
            let ledger = self.ledger();
            (ledger.at(name).0, ledger.highest)
        };
        let path = format!("{MAPS}/{name}");
        let mut object = json!({"metadata": {"name": name}, "data": {"value": value}});
        let (method, path, wanted, wish) = match (&now, delete) {
            (Some(_), true) => (Method::DELETE, path, 200, Wish::Delete),
            (Some(now), false) => {
                object["metadata"]["resourceVersion"] = now.revision.to_string().into();
                (Method::PUT, path, 200, Wish::Put(value))
            }
            (None, _) => (Method::POST, MAPS.to_owned(), 201, Wish::Put(value)),
        };
        self.ledger().sent(name, wish.clone());
        let body = if wish == Wish::Delete { Vec::new() } else { object.to_string().into_bytes() };
        let answer = self.send(method.clone(), &path, body).await?;
        assert_eq!(answer.code, wanted, "{method} {path}: {}", answer.text());
        let now = match wish {
            Wish::Put(_) => Some(KnownState::of(&answer.json())),
            Wish::Delete => None,
        };
        self.ledger().acknowledged(name, now, floor);
        Ok(())
    }

    /// Determines the outcome of a pending write.
    async fn resolve(&self, name: &str) -> Result<(), String> {
        let answer = self.send(Method::GET, &format!("{MAPS}/{name}"), Vec::new()).await?;
        let now = match answer.code {
            404 => None,
            200 => Some(KnownState::of(&answer.json())),
            code => panic!("{name}: {code} {}", answer.text()),
        };
        self.ledger().resolved(name, now);
        Ok(())
    }

    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Answer, String> {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        wait::in_time(path, self.http.try_send(request.body(body).unwrap())).await
    }
}

/// Follows a collection across all restarts, from the last revision that it saw.
struct Follower {
    seen: Arc<Mutex<Vec<SeenEvent>>>,
    /// The last revision received, bookmarks included.
    last: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Follower {
    fn start(http: Http, path: &'static str, from: u64) -> Follower {
        let (seen, last) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(from)));
        let task = tokio::spawn({
            let (seen, last) = (Arc::clone(&seen), Arc::clone(&last));
            async move {
                loop {
                    let from = last.load(Ordering::SeqCst);
                    let query = format!("{path}?watch=1&allowWatchBookmarks=true&resourceVersion={from}");
                    let Ok(mut watch) = http.try_watch(&query).await else {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        continue;
                    };
                    // A broken stream and one that ended are treated alike: resume from the last revision.
                    while let Ok(Some(event)) = watch.try_next().await {
                        assert_ne!(event["type"], "ERROR", "{path} from {from}: {event}");
                        let event = SeenEvent::of(&event);
                        let before = last.load(Ordering::SeqCst);
                        if event.kind == "BOOKMARK" {
                            assert!(
                                event.revision >= before,
                                "{path}: bookmark {} after {before}",
                                event.revision
                            );
                        } else {
                            assert!(event.revision > before, "{path}: {event:?} after {before}");
                            seen.lock().push(event.clone());
                        }
                        last.store(event.revision, Ordering::SeqCst);
                    }
                }
            }
        });
        Follower { seen, last, task }
    }

    /// I3: the watch has seen exactly the history.
    async fn check(&self, history: &[SeenEvent]) {
        let wanted = history.last().map_or(0, |event| event.revision);
        wait::until("the resumed watch has seen everything", async || {
            assert!(!self.task.is_finished(), "the resumed watch has failed");
            let last = self.last.load(Ordering::SeqCst);
            if last >= wanted {
                Ok(())
            } else {
                Err(format!("it is at {last}, the history ends at {wanted}"))
            }
        })
        .await;
        let seen = self.seen.lock();
        for (index, (seen, wanted)) in seen.iter().zip(history).enumerate() {
            assert_eq!(seen, wanted, "event {index} of the resumed watch");
        }
        assert_eq!(seen.len(), history.len(), "events of the resumed watch");
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All changes to a collection from a revision until now.
async fn history(http: &Http, path: &str, from: u64) -> Vec<SeenEvent> {
    let now = revision(&http.get(path).await.expect(200));
    let query = format!("{path}?watch=1&timeoutSeconds=2&resourceVersion={from}");
    let mut watch = http.watch(&query).await;
    let mut events = Vec::new();
    while let Some(event) = watch.next().await {
        assert_ne!(event["type"], "ERROR", "{path} from {from}: {event}");
        events.push(SeenEvent::of(&event));
    }
    events.retain(|event| event.revision <= now);
    events
}

/// Creates a volume and a matching claim; all pairs are alike, so the claim may bind to any volume.
async fn pair(http: &Http, number: u64) {
    let volume = json!({"metadata": {"name": format!("v{number}")}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": format!("/tmp/{number}")}}});
    let claim = json!({"metadata": {"name": format!("c{number}")}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    // Every other pair creates the claim first.
    let both = [(VOLUMES, volume), (CLAIMS, claim)];
    let order = if number.is_multiple_of(2) { [0, 1] } else { [1, 0] };
    for (path, object) in order.map(|index| &both[index]) {
        http.create(path, object).await;
    }
}

/// I6: every claim has a volume of its own, and both refer to each other.
async fn converged(http: &Http, pairs: u64) {
    wait::until("every claim has its volume", async || {
        let items = async |path: &str| match http.get(path).await.expect(200)["items"].take() {
            Value::Array(items) => items,
            other => panic!("{path} lists {other}"),
        };
        let volumes: BTreeMap<String, Value> = items(VOLUMES)
            .await
            .into_iter()
            .map(|volume| (volume["metadata"]["name"].as_str().unwrap().to_owned(), volume))
            .collect();
        let claims = items(CLAIMS).await;
        assert_eq!(
            (volumes.len() as u64, claims.len() as u64),
            (pairs, pairs),
            "nothing that was created is lost"
        );
        let fits = |claim: &&Value| {
            let volume = volumes.get(claim["spec"]["volumeName"].as_str().unwrap_or_default());
            claim["status"]["phase"] == "Bound"
                && volume.is_some_and(|volume| {
                    volume["status"]["phase"] == "Bound"
                        && volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
                })
        };
        match claims.iter().find(|claim| !fits(claim)) {
            None => Ok(()),
            Some(claim) => Err(format!("{claim:#}\n{volumes:#?}")),
        }
    })
    .await;
}

async fn crash(layout: Layout) {
    let cycles = number("ORLOP_CRASH_CYCLES").unwrap_or(CYCLES);
    let seed = number("ORLOP_CRASH_SEED").unwrap_or_else(rand::random);
    eprintln!("{layout:?}: {cycles} crashes, ORLOP_CRASH_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    // Only the test's writers may write ConfigMaps, because the ledger is compared with all of them.
    let controllers = "--controllers=*,-root-ca-certificate-publisher-controller";
    let mut plane = Plane::of(layout).controller_flags(&[controllers]).start().await;
    let http = plane.http();
    http.create("/api/v1/namespaces", &json!({"metadata": {"name": "load"}})).await;
    let list = http.get(MAPS).await.expect(200);
    let begin = revision(&list);
    assert_eq!(list["items"], json!([]));

    let load =
        Load { ledger: Arc::default(), gate: Arc::default(), stop: Arc::default(), http: plane.http() };
    let maps = Follower::start(plane.http(), MAPS, begin);
    let volumes = Follower::start(plane.http(), VOLUMES, begin);
    let writer = |n| tokio::spawn(load.clone().write(n, StdRng::seed_from_u64(seed ^ n as u64)));
    let writers: Vec<_> = (0..WRITERS).map(writer).collect();
    let mut pairs = 0;
    for cycle in 0..cycles {
        let until = load.ledger().acknowledged + random.random_range(1..80);
        for _ in 0..2 {
            pair(&http, pairs).await;
            pairs += 1;
        }
        wait::until("writes are acknowledged", async || {
            assert!(!writers.iter().any(tokio::task::JoinHandle::is_finished), "a writer has failed");
            let acknowledged = load.ledger().acknowledged;
            if acknowledged >= until {
                Ok(())
            } else {
                Err(format!("cycle {cycle}: {acknowledged} of {until}"))
            }
        })
        .await;
        if layout == Layout::TwoProcesses && random.random_ratio(1, 3) {
            plane.kill_and_restart_controllers().await;
            continue;
        }
        // Kill at a random point of the writers' work; only then pause them.
        if layout == Layout::TwoProcesses && random.random_ratio(1, 2) {
            plane.kill_server().await;
        } else {
            plane.kill().await;
        }
        let alone = load.gate.write().await;
        plane.start_again().await;
        let list = http.get(MAPS).await.expect(200);
        load.ledger().check_list(&list);
        drop(alone);
    }
    load.stop.store(true, Ordering::SeqCst);
    for writer in writers {
        wait::in_time("the writers end", writer).await.unwrap();
    }
    converged(&http, pairs).await;

    let happened = history(&http, MAPS, begin).await;
    load.ledger().check_history(&happened);
    maps.check(&happened).await;
    volumes.check(&history(&http, VOLUMES, begin).await).await;
    eprintln!(
        "{layout:?}: {} writes acknowledged, {} in the history",
        load.ledger().acknowledged,
        happened.len()
    );

    // A clean shutdown loses nothing either.
    let before = http.get(MAPS).await.expect(200);
    plane.stop().await;
    plane.start_again().await;
    let after = http.get(MAPS).await.expect(200);
    assert_eq!(after["items"], before["items"]);
    assert!(revision(&after) >= revision(&before));
}

#[tokio::test]
async fn one_process_survives_kills() {
    crash(Layout::OneProcess).await;
}

#[tokio::test]
async fn two_processes_survive_kills() {
    crash(Layout::TwoProcesses).await;
}
