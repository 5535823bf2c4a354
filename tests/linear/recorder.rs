//! Records a history, and saves it as lines of JSON, so that a rejected one can be read and checked again.

use parking_lot::{Mutex, MutexGuard};
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::history::{At, History, Operation, Revision, State, Stream};

#[derive(Serialize, Deserialize)]
enum Line {
    Head { begin: Revision, retention: Revision, recorders: Vec<u32> },
    Operation(Operation),
    Stream(Stream),
    Object(u64, Value),
}

impl History {
    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        let head =
            Line::Head { begin: self.begin, retention: self.retention, recorders: self.recorders.clone() };
        let operations = self.operations.iter().cloned().map(Line::Operation);
        let streams = self.streams.iter().cloned().map(Line::Stream);
        let objects = self.objects.iter().map(|(sum, object)| Line::Object(*sum, object.clone()));
        for line in std::iter::once(head).chain(operations).chain(streams).chain(objects) {
            serde_json::to_writer(&mut file, &line)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    }

    pub(crate) fn read(path: &Path) -> std::io::Result<History> {
        let mut history = History::default();
        for line in std::io::BufReader::new(std::fs::File::open(path)?).lines() {
            match serde_json::from_str(&line?)? {
                Line::Head { begin, retention, recorders } => {
                    (history.begin, history.retention, history.recorders) = (begin, retention, recorders);
                }
                Line::Operation(operation) => history.operations.push(operation),
                Line::Stream(stream) => history.streams.push(stream),
                Line::Object(sum, object) => drop(history.objects.insert(sum, object)),
            }
        }
        Ok(history)
    }
}

/// Collects what clients and watchers observe. If it is dropped in a panic, it writes the history to a file.
pub(crate) struct Recorder {
    start: Instant,
    history: Mutex<History>,
    kept: PathBuf,
}

impl Recorder {
    /// `name` is the name of the file.
    pub(crate) fn new(name: &str, begin: Revision, retention: Revision) -> Recorder {
        let history = History { begin, retention, ..History::default() };
        let kept = std::env::temp_dir().join(format!("orlop-linear-{name}.jsonl"));
        Recorder { start: Instant::now(), history: Mutex::new(history), kept }
    }

    pub(crate) fn now(&self) -> At {
        At::try_from(self.start.elapsed().as_nanos()).expect("no test takes centuries")
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock()
    }

    /// The state of an object; the object itself is stored once.
    pub(crate) fn state(&self, resource: &str, object: &Value) -> State {
        let state = State::of(resource, object);
        self.history().objects.entry(state.sum).or_insert_with(|| object.clone());
        state
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let written = self.history().write(&self.kept);
        eprintln!("the history: {} ({written:?})", self.kept.display());
    }
}

#[test]
fn history_is_read_as_written() {
    use super::history::{Ask, Change, From, Outcome, Selector, StreamLine, What};
    let object = serde_json::json!({"kind": "Secret", "metadata": {"name": "a", "namespace": "hot",
        "resourceVersion": "7", "uid": "u", "annotations": {"value": "v"}, "labels": {"color": "red"}}});
    let recorder = Recorder::new("unused", 3, 100);
    let state = recorder.state("secrets", &object);
    assert_eq!((state.key.as_str(), state.revision, state.color.as_str()), ("secrets/hot/a", 7, "red"));
    let mut later = object.clone();
    later["metadata"]["resourceVersion"] = "8".into();
    assert_eq!(State::of("secrets", &later).sum, state.sum, "the revision is not in the sum");
    later["metadata"]["labels"]["color"] = "blue".into();
    assert_ne!(State::of("secrets", &later).sum, state.sum);
    let mut history = recorder.history().clone();
    history.recorders.push(1);
    let ask = Ask::Get { key: state.key.clone(), at_least: 0 };
    let outcome = Outcome::Object(state.clone());
    history.operations.push(Operation {
        client: 1,
        start: 1,
        end: 2,
        request: "GET".to_owned(),
        ask,
        outcome,
    });
    let heard = vec![StreamLine { at: 3, what: What::Event(Change::Added, state) }];
    let (prefix, selector) = ("secrets/".to_owned(), Selector::Color("red".to_owned()));
    let (from, request) = (From::After(3), "GET".to_owned());
    let (watcher, resumed, opened, answered, bookmarks) = (1, false, 1, 2, true);
    history.streams.push(Stream {
        watcher,
        resumed,
        opened,
        answered,
        request,
        prefix,
        selector,
        from,
        bookmarks,
        heard,
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history");
    history.write(&path).unwrap();
    assert_eq!(History::read(&path).unwrap(), history);
}
