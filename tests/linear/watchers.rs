//! Watchers that start, disconnect and resume in every possible way, and record every line that they receive.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::sync::watch;

use super::clients::Traffic;
use super::history::{Change, From, Revision, Selector, State, Stream, StreamLine, What, revision};
use super::requests::{PREFIXES, collection, one, selector};
use crate::harness::wait;

/// Tells a watcher the last revision of the round, once it is known.
pub(crate) type Finish = watch::Receiver<Option<Revision>>;

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By the server, the network or the watcher: it can be resumed.
    Over,
    /// The revision has expired: the watcher must start over.
    Lost,
    /// Everything has been received.
    Complete,
    /// The stream could not be opened.
    NoServer,
}

/// A watcher between two streams.
pub(crate) struct Watcher {
    pub(crate) traffic: Traffic,
    pub(crate) id: u32,
    pub(crate) finish: Finish,
    /// Restarts often: the transition from initial to live events is prone to errors.
    pub(crate) hasty: bool,
}

/// The parameters of a stream.
struct Open {
    prefix: String,
    selector: Selector,
    from: From,
    query: String,
    bookmarks: bool,
    resumed: bool,
    /// The number of events after which the client disconnects.
    patience: usize,
}

const NO_END: usize = usize::MAX;

impl Watcher {
    /// Records all events of a resource from the beginning, across all restarts.
    pub(crate) async fn record(self, resource: &str) {
        let mut after = self.traffic.begin;
        let mut resumed = false;
        loop {
            let open = Open {
                prefix: format!("{resource}/"),
                selector: Selector::Everything,
                from: From::After(after),
                query: format!("&resourceVersion={after}"),
                bookmarks: true,
                resumed,
                patience: NO_END,
            };
            let (end, last) = self.stream(open).await;
            after = last.unwrap_or(after);
            resumed |= last.is_some();
            match end {
                End::Over => {}
                End::NoServer => tokio::time::sleep(Duration::from_millis(5)).await,
                End::Lost => panic!("the log of {resource} behind {after} is lost, so nothing can be judged"),
                End::Complete => return,
            }
        }
    }

    /// Watches random prefixes until it has received every event of the last one.
    pub(crate) async fn roam(self, mut random: StdRng) {
        loop {
            let mut open = self.begin(&mut random);
            loop {
                let (prefix, selector, mut last) = (
                    open.prefix.clone(),
                    open.selector.clone(),
                    match open.from {
                        From::After(after) => Some(after),
                        From::Initial(_) | From::Now => None,
                    },
                );
                let mut resumed = open.resumed;
                let (end, heard) = self.stream(open).await;
                resumed |= heard.is_some();
                last = heard.or(last);
                match end {
                    End::Complete => return,
                    End::Lost => break,
                    End::Over => {}
                    End::NoServer => tokio::time::sleep(Duration::from_millis(5)).await,
                }
                let finishing = self.finish.borrow().is_some();
                let Some(after) = last else { break };
                if !finishing && (self.hasty || random.random_ratio(1, 4)) {
                    break;
                }
                let patience = if random.random_ratio(1, 2) { random.random_range(1..60) } else { NO_END };
                open = Open {
                    prefix,
                    selector,
                    from: From::After(after),
                    query: format!("&resourceVersion={after}"),
                    bookmarks: random.random_ratio(3, 4),
                    resumed,
                    patience,
                };
            }
        }
    }

    /// A new start.
    fn begin(&self, random: &mut StdRng) -> Open {
        let newest = self.traffic.newest.load(Ordering::SeqCst);
        let back = if random.random_ratio(1, 3) { newest - self.traffic.begin } else { 100 };
        let old = newest.saturating_sub(random.random_range(0..=back)).max(self.traffic.begin);
        let (from, query) = match random.random_range(0..8) {
            0 => (From::Initial(0), String::new()),
            1 => (From::Initial(0), "&resourceVersion=0".to_owned()),
            2 => (From::Initial(0), "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned()),
            3 => {
                let query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=";
                (From::Initial(old), format!("{query}{old}"))
            }
            4 => (From::Now, "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan".to_owned()),
            5 => (From::After(newest), format!("&resourceVersion={newest}")),
            _ => (From::After(old), format!("&resourceVersion={old}")),
        };
        if self.hasty {
            return Open {
                prefix: PREFIXES[0].to_owned(),
                selector: Selector::Everything,
                from: From::Initial(0),
                query: "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
                bookmarks: true,
                resumed: false,
                patience: random.random_range(4..12),
            };
        }
        Open {
            prefix: one(random, &PREFIXES).to_owned(),
            selector: selector(random),
            from,
            query,
            bookmarks: random.random_ratio(2, 3),
            resumed: false,
            patience: random.random_range(1..150),
        }
    }

    /// Runs one stream; returns how it ended, and the last revision received.
    async fn stream(&self, mut open: Open) -> (End, Option<Revision>) {
        let finish = *self.finish.borrow();
        if finish.is_some() {
            // The bookmark that arrives within a second shows that every event was received.
            open.bookmarks = true;
        }
        let (path, resource) = collection(&open.prefix);
        let seconds = if finish.is_some() || self.id.is_multiple_of(2) { "&timeoutSeconds=3" } else { "" };
        let bookmarks = if open.bookmarks { "&allowWatchBookmarks=true" } else { "" };
        let request = format!("{path}?watch=1{}{bookmarks}{seconds}{}", open.query, open.selector.query());
        let recorder = self.traffic.recorder.clone();
        let opened = recorder.now();
        let client = self.traffic.http.client();
        let sent = client.send(Request::get(&request).body(Body::empty()).unwrap());
        let Ok(response) = wait::in_time(&request, sent).await else { return (End::NoServer, None) };
        if response.status().as_u16() >= 500 {
            return (End::NoServer, None);
        }
        assert_eq!(response.status().as_u16(), 200, "{request}");
        let index = {
            let mut history = recorder.history();
            history.streams.push(Stream {
                watcher: self.id,
                resumed: open.resumed,
                opened,
                answered: recorder.now(),
                request: request.clone(),
                prefix: open.prefix.clone(),
                selector: open.selector.clone(),
                from: open.from,
                bookmarks: open.bookmarks,
                heard: Vec::new(),
            });
            history.streams.len() - 1
        };
        let mut body = response.into_body();
        let (mut rest, mut last, mut heard) = (Vec::new(), None, 0);
        let mut finished = self.finish.clone();
        loop {
            let frame = tokio::select! {
                frame = wait::in_time(&request, body.frame()) => frame,
                // Asked to finish: disconnect, and resume with a stream that ends.
                _ = finished.wait_for(Option::is_some), if finish.is_none() => return (End::Over, last),
            };
            let Some(Ok(frame)) = frame else { return (End::Over, last) };
            let Ok(data) = frame.into_data() else { continue };
            rest.extend_from_slice(&data);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).expect("a watch is lines of JSON");
                let what = self.what(resource, &event);
                let line = StreamLine { at: recorder.now(), what };
                last = line.revision().or(last);
                let (lost, bookmark) =
                    (matches!(line.what, What::Failed(_)), matches!(line.what, What::Bookmark { .. }));
                self.traffic.newest.fetch_max(last.unwrap_or(0), Ordering::SeqCst);
                recorder.history().streams[index].heard.push(line);
                heard += 1;
                if lost {
                    return (End::Lost, last);
                }
                if bookmark && finish.is_some_and(|finish| last >= Some(finish)) {
                    return (End::Complete, last);
                }
                if heard >= open.patience && finish.is_none() {
                    return (End::Over, last);
                }
            }
        }
    }

    fn what(&self, resource: &str, event: &Value) -> What {
        let object = &event["object"];
        let change = match event["type"].as_str().unwrap_or_default() {
            "ADDED" => Change::Added,
            "MODIFIED" => Change::Modified,
            "DELETED" => Change::Deleted,
            "BOOKMARK" => {
                let end = &object["metadata"]["annotations"]["k8s.io/initial-events-end"];
                return What::Bookmark { revision: revision(object), initial_end: end == "true" };
            }
            "ERROR" => return What::Failed(object["code"].as_u64().unwrap_or(0)),
            other => panic!("{other:?} is no type of an event: {event}"),
        };
        let state: State = self.traffic.recorder.state(resource, object);
        What::Event(change, state)
    }
}

/// Watchers from this number on are hasty.
const HASTY: u32 = 50;

/// A watcher's task.
pub(crate) type Task = tokio::task::JoinHandle<()>;

/// Starts the recorders, one for each resource, and the roaming watchers.
pub(crate) fn start(
    traffic: &Traffic,
    finish: &Finish,
    roaming: u32,
    mut random: impl FnMut(u32) -> StdRng,
) -> Vec<Task> {
    let resources = ["secrets", "persistentvolumeclaims", "persistentvolumes"];
    let watcher = |id| Watcher { traffic: traffic.clone(), id, finish: finish.clone(), hasty: id >= HASTY };
    let mut tasks = Vec::new();
    for (id, resource) in (1..).zip(resources) {
        traffic.recorder.history().recorders.push(id);
        tasks.push(tokio::spawn(watcher(id).record(resource)));
    }
    let others = (10..10 + roaming).chain(HASTY..HASTY + 2);
    tasks.extend(others.map(|id| tokio::spawn(watcher(id).roam(random(id)))));
    tasks
}
