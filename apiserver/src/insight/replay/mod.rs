//! Replays a capture (docs/insight.md) into an empty store, write by write: objects keep their UIDs and the times
//! of their writes, but get new revisions. A sequence of writes that is impossible is rejected with its line
//! number.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use line::{CaptureLine, LineType};
use orlop_api::registry::custom_resource_definition::PREFIX;
use orlop_apimachinery::input_file;
use orlop_store::{Clock, Expect, Key, Kv, Op, Revision, SystemClock, Write};
use tokio_util::sync::CancellationToken;

use super::key_resolver::{kinds, resource_name};
use super::redact;
use crate::allocation;
use crate::custom::{Kinds, crd_controller};
use crate::dispatch;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::{KindRef, Scope};
use orlop_api::object::Object;

mod line;

pub use line::Until;

/// The maximum number of writes per commit, and their maximum size in bytes.
const MOST_WRITES: usize = 256;
const MOST_BYTES: usize = 1 << 20;

/// The limit of a line, in bytes. An object has at most 2 MiB.
const MAX_LINE: u64 = 16 << 20;

/// A clock for the store: during the replay it stands at the time of the current line, afterwards it follows the
/// system clock.
#[derive(Debug)]
pub struct HeldClock {
    held_ms: AtomicI64,
    system: SystemClock,
}

/// The value that means the system clock.
const GOES: i64 = i64::MIN;

impl Default for HeldClock {
    fn default() -> Self {
        HeldClock { held_ms: AtomicI64::new(GOES), system: SystemClock::default() }
    }
}

impl HeldClock {
    fn hold(&self, time_ms: i64) {
        self.held_ms.store(time_ms, Ordering::SeqCst);
    }

    /// Switches to the system clock.
    pub fn release(&self) {
        self.held_ms.store(GOES, Ordering::SeqCst);
    }
}

impl Clock for HeldClock {
    fn now_ms(&self) -> i64 {
        match self.held_ms.load(Ordering::SeqCst) {
            GOES => self.system.now_ms(),
            time_ms => time_ms,
        }
    }
}

/// Why a file cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The store has objects that would mix with those of the file.
    #[error("the store is not empty (it is at revision {0}): --from requires an empty --data-dir")]
    NotEmpty(Revision),
    /// The file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// A line is invalid at its position.
    #[error("{}, line {line}: {what}", path.display())]
    CaptureLine {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: u64,
        /// The problem with the line.
        what: String,
    },
    /// The file ends too early or begins too late.
    #[error("{}: {what}", path.display())]
    Short {
        /// The file.
        path: PathBuf,
        /// The missing part.
        what: String,
    },
    /// The store rejects the writes.
    #[error("the store does not take line {line} of {}: {what}", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// The last line of the commit.
        line: u64,
        /// The cause.
        what: String,
    },
}

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The revision of the file that the replay reached.
    pub reached: u64,
    /// The number of writes, including the initial state.
    pub writes: u64,
    /// The number of objects at the end.
    pub objects: usize,
    /// The number of secrets among them; these have keys without values.
    pub secrets: usize,
    /// Why the file is incomplete, if it is.
    pub broken_off: Option<String>,
}

/// Replays a capture into an empty store, up to a point or to the end of the file.
///
/// # Errors
/// The store is not empty, or a line is invalid. Writes before an invalid line remain in the store; for a store
/// on disk, replay into memory first.
pub async fn replay(
    store: &dyn Kv<Projection>,
    clock: &HeldClock,
    path: &Path,
    until: Option<Until>,
) -> Result<Replayed, ReplayError> {
    let head = store.head().revision();
    if head != Revision::ZERO {
        return Err(ReplayError::NotEmpty(head));
    }
    let mut replay = Replay {
        store,
        clock,
        path,
        kinds: Kinds::listing(false),
        served: HashMap::new(),
        closing: CancellationToken::new(),
        waiting: Waiting::default(),
        done: Replayed::default(),
    };
    replay.learn();
    let done = replay.file(until).await;
    clock.release();
    done
}

/// Writes that are not committed yet.
#[derive(Default)]
struct Waiting {
    writes: Vec<Write<Projection>>,
    bytes: usize,
    time_ms: i64,
    line: u64,
}

struct Replay<'a> {
    store: &'a dyn Kv<Projection>,
    clock: &'a HeldClock,
    path: &'a Path,
    /// Includes the kinds of replayed CustomResourceDefinitions.
    kinds: Kinds,
    /// The served kinds, by resource name in lines.
    served: HashMap<String, KindRef>,
    closing: CancellationToken,
    waiting: Waiting,
    done: Replayed,
}

impl Replay<'_> {
    async fn file(&mut self, until: Option<Until>) -> Result<Replayed, ReplayError> {
        let path = self.path;
        let failed = |cause| ReplayError::Read { path: path.to_owned(), cause };
        let mut file = BufReader::new(input_file::open(path, OpenOptions::new().read(true)).map_err(failed)?);
        let (mut number, mut is_cut) = (0, false);
        let mut next = || -> Result<Option<(u64, CaptureLine)>, ReplayError> {
            let mut bytes = Vec::new();
            while file.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes).map_err(failed)? > 0 {
                number += 1;
                if bytes.len() as u64 == MAX_LINE && !bytes.ends_with(b"\n") {
                    return Err(wrong(path, number, format!("it is longer than {} MiB", MAX_LINE >> 20)));
                }
                if bytes.iter().all(u8::is_ascii_whitespace) {
                    bytes.clear();
                    continue;
                }
                if number > 1 && breaks_off(&bytes) {
                    is_cut = true;
                    return Ok(None);
                }
                let line = CaptureLine::parse(&bytes, number == 1);
                return line.map(|line| Some((number, line))).map_err(|what| wrong(path, number, what));
            }
            Ok(None)
        };

        // The initial state is ordered by kind; replay it in the order of its revisions.
        let mut state = Vec::new();
        let mut end = None;
        loop {
            let Some((number, line)) = next()? else {
                let what = "it ends before the state at its beginning is whole".to_owned();
                return Err(ReplayError::Short { path: path.to_owned(), what });
            };
            match line.said {
                LineType::Header { until } => end = until,
                LineType::Added => state.push((number, line)),
                LineType::Synced => {
                    self.done.reached = line.revision;
                    break;
                }
                LineType::Error(message) => {
                    let what = format!("the server had no state to begin with: {message}");
                    return Err(wrong(path, number, what));
                }
                LineType::Modified | LineType::Deleted | LineType::Progress => {
                    let what = "the state at the beginning has ADDED lines alone, up to SYNCED".to_owned();
                    return Err(wrong(path, number, what));
                }
            }
        }
        state.sort_by_key(|(_, line)| line.revision);
        let last = state.last().map(|(_, line)| line.time_ms);
        if until.is_some_and(|until| until.is_before(self.done.reached, last)) {
            let what = format!(
                "it begins with the state at revision {}, which is later than what --at asks for",
                self.done.reached
            );
            return Err(ReplayError::Short { path: path.to_owned(), what });
        }
        for (number, line) in &state {
            self.write(*number, line, true).await?;
        }
        drop(state);

        let (mut whole, mut reached) = (end.is_none_or(|end| end <= self.done.reached), self.done.reached);
        while let Some((number, line)) = next()? {
            match &line.said {
                LineType::Added | LineType::Modified | LineType::Deleted => {
                    if line.revision <= reached {
                        let what = format!("revision {} follows revision {reached}", line.revision);
                        return Err(wrong(path, number, what));
                    }
                    reached = line.revision;
                    if until.is_some_and(|until| until.is_before(line.revision, Some(line.time_ms))) {
                        whole = true;
                        break;
                    }
                    self.write(number, &line, false).await?;
                    self.done.reached = line.revision;
                }
                LineType::Progress => {
                    reached = reached.max(line.revision);
                    let is_asked = until.is_none_or(|until| !until.is_before(line.revision, None));
                    if is_asked {
                        self.done.reached = reached;
                    }
                    whole |= end.is_some_and(|end| line.revision >= end);
                }
                LineType::Error(message) => {
                    self.done.broken_off = Some(message.clone());
                    whole = true;
                }
                LineType::Header { .. } | LineType::Synced => {
                    let what = "a second beginning; a file is one stream".to_owned();
                    return Err(wrong(path, number, what));
                }
            }
        }
        self.commit().await?;
        if let Some(Until::Revision(wanted)) = until
            && wanted > self.done.reached.max(reached)
        {
            let what = format!("it ends at revision {reached}, but --at requests revision {wanted}");
            return Err(ReplayError::Short { path: path.to_owned(), what });
        }
        if (is_cut || !whole) && self.done.broken_off.is_none() {
            self.done.broken_off = Some("its last lines are missing".to_owned());
        }
        self.count();
        Ok(std::mem::take(&mut self.done))
    }

    /// Adds a line to the pending writes. With `state` the line is an object of the initial state; its times count as
    /// equal within one second.
    async fn write(&mut self, number: u64, line: &CaptureLine, state: bool) -> Result<(), ReplayError> {
        let refused = |what: String| wrong(self.path, number, what);
        let Some(kind) = self.served.get(&line.resource).cloned() else {
            return Err(refused(format!(
                "this server has no {}, and no CustomResourceDefinition of it came before",
                line.resource
            )));
        };
        let mut object = Object::from_value(line.object.clone());
        for name in ["kind", "apiVersion"] {
            object.0.remove(name);
        }
        object.meta().remove("resourceVersion");
        let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
        let is_namespaced = kind.scope() == Scope::Namespaced;
        let is_part = |part: &str| !part.is_empty() && !part.contains('/');
        if !is_part(&name) || is_namespaced != is_part(&namespace) || namespace.contains('/') {
            return Err(refused(format!("{namespace:?} and {name:?} name no object of {}", line.resource)));
        }
        if object.uid().is_empty() || object.at(&["metadata", "creationTimestamp"]).is_none() {
            return Err(refused(format!("{} {name} has no uid or no creationTimestamp", line.resource)));
        }
        let key = dispatch::key(&*kind, &namespace, &name);
        let is_definition = key.starts_with(PREFIX);
        let time_ms = line.time_ms;
        let same_time = match state {
            true => time_ms.div_euclid(1000) == self.waiting.time_ms.div_euclid(1000),
            false => time_ms == self.waiting.time_ms,
        };
        let is_full = self.waiting.writes.len() >= MOST_WRITES || self.waiting.bytes >= MOST_BYTES;
        // Allocations of an object are looked up in the head.
        let stands_alone =
            kind.reserves() || self.waiting.writes.iter().any(|write| write.key.as_str() == key);
        if !same_time || is_full || stands_alone {
            self.commit().await?;
        }
        let head = self.store.head();
        let there = head.get(&key);
        let expect = match (line.said == LineType::Added, there) {
            (true, None) => Expect::Absent,
            (false, Some(there)) => Expect::Revision(there.mod_revision),
            (true, Some(_)) => {
                return Err(refused(format!("{} {name} is ADDED, and is there already", line.resource)));
            }
            (false, None) => {
                return Err(refused(format!("{} {name} changes, and is not there", line.resource)));
            }
        };
        let bare = kind.to_stored(object);
        let old =
            there.map(|there| stored::decode(there)).transpose().map_err(|error| refused(error.message))?;
        let new = (line.said != LineType::Deleted).then_some(&bare);
        let reserved = allocation::writes(&*kind, &key, old.as_ref(), new, &head);
        let op = match new {
            Some(new) => {
                let (value, view) = stored::encode(&*kind, new);
                self.waiting.bytes += value.len();
                Op::Put { value, view }
            }
            None => Op::Delete,
        };
        self.waiting.writes.push(Write { key: Key::from(key), expect, op });
        self.waiting.writes.extend(reserved);
        self.waiting.time_ms = time_ms;
        self.waiting.line = number;
        self.done.writes += 1;
        if is_definition {
            self.commit().await?;
            self.learn();
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), ReplayError> {
        let Waiting { writes, time_ms, line, .. } = std::mem::take(&mut self.waiting);
        if writes.is_empty() {
            return Ok(());
        }
        self.clock.hold(time_ms);
        let done = self.store.commit(writes).await;
        let failed = |error: orlop_store::CommitError<Projection>| ReplayError::Store {
            path: self.path.to_owned(),
            line,
            what: error.to_string(),
        };
        done.map(drop).map_err(failed)
    }

    /// Updates the kinds to the replayed definitions.
    fn learn(&mut self) {
        crd_controller::serve_all(&self.kinds, &self.store.head(), &self.closing);
        let all = kinds(&self.kinds.now()).into_iter().filter(|kind| !kind.is_view());
        self.served = all.map(|kind| (resource_name(&kind), kind)).collect();
    }

    /// Counts the objects in the store.
    fn count(&mut self) {
        let head = self.store.head();
        for kind in self.served.values() {
            let count = head.range(kind.storage_prefix(), None).count();
            self.done.objects += count;
            if redact::is_secret(&**kind) {
                self.done.secrets += count;
            }
        }
    }
}

/// Whether the file ends in the middle of this line: an interrupted copy can end anywhere.
fn breaks_off(line: &[u8]) -> bool {
    let read = || serde_json::from_slice::<serde::de::IgnoredAny>(line);
    !line.ends_with(b"\n") && read().is_err_and(|error| error.is_eof())
}

fn wrong(path: &Path, line: u64, what: String) -> ReplayError {
    ReplayError::CaptureLine { path: path.to_owned(), line, what }
}
