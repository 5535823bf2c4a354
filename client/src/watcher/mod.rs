//! List and watch of one kind as a stream of events.
//!
//! The stream begins with a list, page by page, and continues with a watch from the list's version. A watch that ends is
//! resumed from the last version; if the version is too old (410), a new list follows. Errors are items of the stream:
//! the next poll tries again, so the consumer decides how long to wait.
//!
//! Each object is decoded separately. One that cannot be decoded is an [`Undecodable`] in its event, so it does not prevent the others
//! from being read (I12).
//!
//! All code before the decoding of an object is compiled once, for raw JSON. (kube's watcher is compiled for each kind.)

mod undecodable;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{AsyncBufReadExt, Stream, StreamExt};
use http::HeaderValue;
use http::header::ACCEPT_ENCODING;
use kube::api::{ListParams, WatchParams};
use kube::core::{Request, Status};
use kube::{Client, Error};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api::{Api, Object, page};

pub use undecodable::Undecodable;

/// Objects on a page of the first list.
const PAGE: u32 = 500;
/// The server ends a watch after this number of seconds. kube's default.
const TIMEOUT: u32 = 290;
/// A watch that receives no line for this time is dead: the server sends bookmarks, and ends the watch after
/// [`TIMEOUT`].
const IDLE: Duration = Duration::from_secs(TIMEOUT as u64 + 5);

/// The objects that a list and its watch select. All by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// A field selector.
    pub fields: Option<String>,
}

impl Selection {
    /// The objects that a field selector such as `metadata.name=a` selects.
    pub fn fields(selector: &str) -> Self {
        Self { fields: Some(selector.to_owned()) }
    }
}

/// A step of a list or a watch.
#[derive(Debug)]
pub enum Event<K> {
    /// A list begins. Objects that it does not contain are deleted.
    Init,
    /// An object of the list.
    InitApply(K),
    /// The list is complete.
    InitDone,
    /// An object was created or changed.
    Apply(K),
    /// An object was deleted. Contains its last state.
    Delete(K),
}

impl<K> Event<K> {
    fn try_map<T, E>(self, convert: impl FnOnce(K) -> Result<T, E>) -> Result<Event<T>, E> {
        Ok(match self {
            Self::Init => Event::Init,
            Self::InitApply(object) => Event::InitApply(convert(object)?),
            Self::InitDone => Event::InitDone,
            Self::Apply(object) => Event::Apply(convert(object)?),
            Self::Delete(object) => Event::Delete(convert(object)?),
        })
    }
}

/// Why a step failed. The stream can be polled again.
#[derive(Debug, thiserror::Error)]
pub enum WatcherError {
    /// A page of the list could not be read.
    #[error("cannot list: {0}")]
    List(#[source] Error),
    /// The watch could not be started.
    #[error("cannot start to watch: {0}")]
    Start(#[source] Error),
    /// The server ended the watch with an error.
    #[error("the server ended the watch: {0}")]
    Ended(#[source] Box<Status>),
    /// The connection of the watch failed.
    #[error("the watch broke: {0}")]
    Broken(#[source] io::Error),
    /// A line of the watch is not an event, or its object has no name.
    #[error("cannot decode an event of the watch: {0}")]
    Event(#[source] serde_json::Error),
    /// An object of the list has no name. Do not poll the stream again: the object would be missing.
    #[error("cannot decode an object of the list: {0}")]
    Item(#[source] serde_json::Error),
    /// A list or an object has no resourceVersion to watch from.
    #[error("no metadata.resourceVersion in the response; the resource may not support watch")]
    NoVersion,
}

impl WatcherError {
    /// Whether the version to watch from is too old, so that a new list is required.
    pub fn is_expired(&self) -> bool {
        match self {
            Self::Start(Error::Api(status)) | Self::Ended(status) => status.code == 410,
            Self::Start(_)
            | Self::List(_)
            | Self::Broken(_)
            | Self::Event(_)
            | Self::Item(_)
            | Self::NoVersion => false,
        }
    }
}

/// The events of the selected objects, each with the object or the reason why it cannot be decoded. The stream never ends on
/// its own.
pub fn watcher<K: Object>(
    api: &Api<K>,
    selection: &Selection,
) -> impl Stream<Item = Result<Event<Result<K, Undecodable>>, WatcherError>> + Send + Unpin + use<K> {
    sized_watcher(api, selection).map(|event| event?.try_map(|(object, _)| Ok(object)))
}

/// An event with the object and the length of its JSON in bytes.
type SizedEvent<K> = Event<(Result<K, Undecodable>, usize)>;

/// As [`watcher`], with the length of each object's JSON in bytes.
pub(crate) fn sized_watcher<K: Object>(
    api: &Api<K>,
    selection: &Selection,
) -> impl Stream<Item = Result<SizedEvent<K>, WatcherError>> + Send + Unpin + use<K> {
    raw_events(api.client().clone(), api.request().clone(), api.is_metadata_only(), selection.clone()).map(
        |event| {
            let event = event?;
            let in_list = matches!(event, Event::InitApply(_));
            let decode = |json: Json| undecodable::decode(&json).map(|object| (object, json.get().len()));
            event.try_map(decode).map_err(|error| match in_list {
                true => WatcherError::Item(error),
                false => WatcherError::Event(error),
            })
        },
    )
}

type Json = Box<RawValue>;
type Step = Result<Event<Json>, WatcherError>;

fn raw_events(
    client: Client,
    request: Request,
    metadata_only: bool,
    selection: Selection,
) -> BoxStream<'static, Step> {
    let source = Source { client, request, metadata_only, selection };
    let steps = futures::stream::unfold((source, WatchState::Empty), |(source, mut state)| async move {
        loop {
            let (step, next) = source.step(state).await;
            state = next;
            if let Some(step) = step {
                return Some((step, (source, state)));
            }
        }
    });
    steps.boxed()
}

/// The resource to list and watch.
struct Source {
    client: Client,
    request: Request,
    metadata_only: bool,
    selection: Selection,
}

enum WatchState {
    /// Nothing is listed yet.
    Empty,
    /// A list is being read: the rest of a page, then the next page or the watch.
    Listing { items: VecDeque<Json>, next: AfterPage },
    /// The list is complete, or a watch has ended.
    Listed { version: String },
    /// A watch is open.
    Watching { version: String, lines: BoxStream<'static, io::Result<String>> },
}

/// The step after a page.
enum AfterPage {
    Page(Option<String>),
    Watch { version: String },
}

impl Source {
    async fn step(&self, state: WatchState) -> (Option<Step>, WatchState) {
        match state {
            WatchState::Empty => (
                Some(Ok(Event::Init)),
                WatchState::Listing { items: VecDeque::new(), next: AfterPage::Page(None) },
            ),
            WatchState::Listing { mut items, next } => match (items.pop_front(), next) {
                (Some(item), next) => (Some(Ok(Event::InitApply(item))), WatchState::Listing { items, next }),
                (None, AfterPage::Watch { version }) => {
                    (Some(Ok(Event::InitDone)), WatchState::Listed { version })
                }
                (None, AfterPage::Page(token)) => self.list(token).await,
            },
            WatchState::Listed { version } => match self.open(&version).await {
                Ok(lines) => (None, WatchState::Watching { version, lines }),
                Err(error) => {
                    let error = WatcherError::Start(error);
                    let state =
                        if error.is_expired() { WatchState::Empty } else { WatchState::Listed { version } };
                    (Some(Err(error)), state)
                }
            },
            WatchState::Watching { version, mut lines } => {
                let line = match tokio::time::timeout(IDLE, lines.next()).await {
                    Ok(Some(line)) => line,
                    Ok(None) | Err(_) => return (None, WatchState::Listed { version }),
                };
                match line {
                    Ok(line) => event(&line, version, lines),
                    Err(error) => (Some(Err(WatcherError::Broken(error))), WatchState::Listed { version }),
                }
            }
        }
    }

    async fn list(&self, token: Option<String>) -> (Option<Step>, WatchState) {
        let parameters = ListParams {
            field_selector: self.selection.fields.clone(),
            limit: Some(PAGE),
            continue_token: token,
            ..ListParams::default()
        };
        let page = match page(&self.client, &self.request, self.metadata_only, &parameters).await {
            Ok(page) => page,
            Err(error) => return (Some(Err(WatcherError::List(error))), WatchState::Empty),
        };
        let token = page.metadata.continue_.clone().filter(|token| !token.is_empty());
        let version = page.metadata.resource_version.clone().filter(|version| !version.is_empty());
        let next = match (token, version) {
            (Some(token), _) => AfterPage::Page(Some(token)),
            (None, Some(version)) => AfterPage::Watch { version },
            (None, None) => return (Some(Err(WatcherError::NoVersion)), WatchState::Empty),
        };
        (None, WatchState::Listing { items: page.into_items().into(), next })
    }

    async fn open(&self, version: &str) -> kube::Result<BoxStream<'static, io::Result<String>>> {
        let parameters = WatchParams {
            field_selector: self.selection.fields.clone(),
            timeout: Some(TIMEOUT),
            bookmarks: true,
            ..WatchParams::default()
        };
        let request = match self.metadata_only {
            true => self.request.watch_metadata(&parameters, version),
            false => self.request.watch(&parameters, version),
        };
        let mut request = request.map_err(Error::BuildRequest)?;
        // Kubernetes 1.37 compresses each event of a watch separately; clients then read only the first event.
        request.headers_mut().entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        Ok(self.client.request_stream(request).await?.lines().boxed())
    }
}

/// A line of a watch.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    type_: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The object metadata that a watch needs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Versioned {
    metadata: Version,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Version {
    resource_version: String,
}

/// Returns the event of a line of a watch, and the next state.
fn event(
    line: &str,
    version: String,
    lines: BoxStream<'static, io::Result<String>>,
) -> (Option<Step>, WatchState) {
    let line: Line<'_> = match serde_json::from_str(line) {
        Ok(line) => line,
        // The connection ended in the middle of the line.
        Err(error) if error.is_eof() => return (None, WatchState::Watching { version, lines }),
        Err(error) => match serde_json::from_str::<Status>(line) {
            Ok(status) => return ended(status, version, lines),
            Err(_) => {
                return (Some(Err(WatcherError::Event(error))), WatchState::Watching { version, lines });
            }
        },
    };
    if line.type_ == "ERROR" {
        return match serde_json::from_str(line.object.get()) {
            Ok(status) => ended(status, version, lines),
            Err(error) => (Some(Err(WatcherError::Event(error))), WatchState::Watching { version, lines }),
        };
    }
    let new: Versioned = match serde_json::from_str(line.object.get()) {
        Ok(new) => new,
        Err(error) => {
            return (Some(Err(WatcherError::Event(error))), WatchState::Watching { version, lines });
        }
    };
    let version = new.metadata.resource_version;
    if version.is_empty() {
        return (Some(Err(WatcherError::NoVersion)), WatchState::Empty);
    }
    let object = line.object.to_owned();
    let step = match line.type_ {
        "ADDED" | "MODIFIED" => Some(Ok(Event::Apply(object))),
        "DELETED" => Some(Ok(Event::Delete(object))),
        // A bookmark contains only a version. Types that do not exist yet are skipped in the same way.
        _ => None,
    };
    (step, WatchState::Watching { version, lines })
}

fn ended(
    status: Status,
    version: String,
    lines: BoxStream<'static, io::Result<String>>,
) -> (Option<Step>, WatchState) {
    let state = match status.code {
        410 => WatchState::Empty,
        _ => WatchState::Watching { version, lines },
    };
    (Some(Err(WatcherError::Ended(Box::new(status)))), state)
}

#[cfg(test)]
mod tests;
