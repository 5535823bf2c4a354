//! Streams all kinds in one connection: the state of one revision, then every change in order, live or up to a
//! revision.
//!
//! The body is produced on demand: a live stream is a cursor of the store, and a stream of the past reads the log page
//! by page. The part that a client has not read is counted like that of a watch.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream as futures_stream};
use http::{HeaderValue, header};
use orlop_store::watch::BATCH;
use orlop_store::{Event, Revision, Snapshot, WatchError, Watcher};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::key_resolver::{KeyResolver, Selection};
use super::lines::{self, Type};
use super::past::{expired, key_resolver, moment_of, read_error};
use super::rights::{Rights, may_follow_now};
use crate::encode::{ComputedBody, LongBody};
use crate::limits::connection::Connection;
use crate::limits::old_states::OldState;
use crate::limits::unread::UnreadResponse;
use crate::projection::Projection;
use crate::registry::KindRef;
use crate::state::Inner;
use crate::verbs::watch::account::{IsAlive, is_alive, usual_timeout};
use orlop_api::query::Query;
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;

pub(super) const CONTENT_TYPE: &str = "application/x-ndjson";
/// The prefix of all keys that can be watched.
const EVERYTHING: &str = "/registry/";
/// The interval of progress lines in a live stream; clients rely on at most 5 s.
const PROGRESS_EVERY: Duration = Duration::from_secs(4);
/// Lines are combined into chunks of about this many bytes.
const PIECE: usize = 64 * 1024;

/// The end of a stream.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// The stream follows changes until its time limit, or until its account is deleted.
    Limit,
    /// After the initial state.
    StreamState,
    /// After the writes of this revision.
    At(Revision),
}

/// The content of a stream.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Whether the stream begins with the state at `at`, or only with the changes after it.
    pub(super) state: bool,
    pub(super) at: Revision,
    pub(super) end: End,
    pub(super) managed_fields: bool,
}

/// The server's clock, in milliseconds since the epoch.
pub(super) fn now_ms(server: &Inner) -> i64 {
    (server.config.clock)().as_millisecond()
}

/// `GET stream`: `from=REV` sends the changes after a revision; `at=REV|TIME` begins with the state then; without
/// both, with the current state. `until=REV|TIME` or `follow=false` ends the stream. A compacted revision results
/// in an ERROR line.
pub(super) async fn stream(
    rights: &Rights<'_>,
    connection: Option<Connection>,
    query: &Query,
) -> Result<Response, ApiError> {
    if query.has("from") && query.has("at") {
        return Err(ApiError::bad_request(
            "from and at exclude each other: from=REV sends the changes after REV, at=REV begins with the state at REV",
        ));
    }
    let server = rights.server;
    let resolver = key_resolver(rights, query).await?;
    let begun = match bounds(server, query).await {
        Ok(bounds) => start(rights, connection.clone(), resolver, bounds).await,
        Err(error) => Err(error),
    };
    let begun = match begun {
        Err(error) if error.code == 410 => Running::failed(rights, connection, error),
        begun => begun?,
    };
    let mut response = answer(begun);
    if !super::live::follows(query) {
        response.extensions_mut().insert(LongBody);
        response.extensions_mut().insert(ComputedBody);
    }
    Ok(response)
}

async fn bounds(server: &Inner, query: &Query) -> Result<Bounds, ApiError> {
    let from = moment_of(server, query, "from").await?;
    let at = moment_of(server, query, "at").await?;
    let until = moment_of(server, query, "until").await?;
    let head = server.store.head().revision();
    let start = from.or(at).unwrap_or(head);
    let end = match until {
        Some(until) => {
            check_end(start, until)?;
            End::At(until)
        }
        None if super::live::follows(query) => End::Limit,
        None if from.is_some() => End::At(head.max(start)),
        None => End::StreamState,
    };
    Ok(Bounds { state: from.is_none(), at: start, end, managed_fields: query.flag("managedFields") })
}

/// Checks that the end is not before the beginning.
///
/// # Errors
/// 400 if it is.
pub(super) fn check_end(start: Revision, until: Revision) -> Result<(), ApiError> {
    if until >= start {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "until is revision {until}, which is before the beginning of the stream, {start}"
    )))
}

/// Reads the state that a stream begins with.
///
/// # Errors
/// 410 if the revision is no longer known.
pub(super) async fn start(
    rights: &Rights<'_>,
    connection: Option<Connection>,
    resolver: KeyResolver,
    bounds: Bounds,
) -> Result<Running, ApiError> {
    let server = rights.server;
    let store = &server.store;
    let state = if bounds.state {
        let head = store.head();
        let snapshot = if head.revision() == bounds.at {
            head
        } else {
            store.at(bounds.at, EVERYTHING).await.map_err(read_error)?
        };
        let old_state = server.limits.old_states.hold(connection.as_ref(), store.data());
        StreamState::Initial { state: InitialState { snapshot, _old_state: old_state }, kind: 0, from: None }
    } else if bounds.at < store.oldest() {
        return Err(expired(format_args!("what came after revision {}", bounds.at), store.oldest()));
    } else {
        StreamState::Opening
    };
    Ok(Running::new(rights, connection, resolver, bounds, state))
}

/// The response that sends the stream.
pub(super) fn answer(running: Running) -> Response {
    let mut response = Response::new(Body::from_stream(running.pieces()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The objects that a stream begins with.
struct InitialState {
    snapshot: Snapshot<Projection>,
    _old_state: Option<OldState>,
}

/// The state of a stream.
enum StreamState {
    /// The stream begins with changes. Nothing has been sent yet.
    Opening,
    /// Sends the initial state, from this key of a kind on (all its objects if `None`).
    Initial { state: InitialState, kind: usize, from: Option<String> },
    /// Reads pages of the log after a revision, up to the end.
    Reading { after: Revision, until: Revision },
    /// Sends received events from this position on, then continues with `then`.
    Sending { events: Vec<Arc<Event<Projection>>>, next: usize, then: Box<StreamState> },
    /// Waits for events.
    Following { watcher: Watcher<Projection> },
    /// Sends an error and ends.
    Failing(ApiError),
    /// The stream has ended.
    Ended,
}

/// A stream in progress.
pub(super) struct Running {
    server: Arc<Inner>,
    user: UserInfo,
    /// Taken and put back to update it when the served kinds change.
    resolver: Option<KeyResolver>,
    bounds: Bounds,
    state: StreamState,
    /// Completes when the server shuts down.
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    alarm: Pin<Box<Sleep>>,
    /// When a stream that follows changes ends.
    limit: Instant,
    /// For a service account: the stream ends after the account is deleted, or after the key of its token is no longer accepted.
    account: Option<IsAlive>,
    /// The part that the client has not read.
    unread: UnreadResponse,
}

impl Running {
    fn new(
        rights: &Rights<'_>,
        connection: Option<Connection>,
        resolver: KeyResolver,
        bounds: Bounds,
        state: StreamState,
    ) -> Self {
        let server = rights.server;
        Running {
            server: server.clone(),
            user: rights.user.clone(),
            resolver: Some(resolver),
            bounds,
            state,
            closing: Box::pin(server.closing.clone().cancelled_owned()),
            alarm: Box::pin(sleep_until(Instant::now() + PROGRESS_EVERY)),
            limit: Instant::now() + usual_timeout(server),
            account: is_alive(server, rights.user, rights.credential.clone()),
            unread: server.limits.unread.of(connection),
        }
    }

    /// A stream that consists of an error.
    fn failed(rights: &Rights<'_>, connection: Option<Connection>, error: ApiError) -> Self {
        let server = rights.server;
        let bounds = Bounds {
            state: false,
            at: server.store.head().revision(),
            end: End::Limit,
            managed_fields: false,
        };
        Running::new(
            rights,
            connection,
            KeyResolver::now(&server.kinds, Selection::default()),
            bounds,
            StreamState::Failing(error),
        )
    }

    fn pieces(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        let mut header = Vec::new();
        let until = match self.bounds.end {
            End::At(until) => Some(until),
            End::Limit | End::StreamState => None,
        };
        let oldest = self.server.store.oldest();
        lines::header(&mut header, self.bounds.at, oldest, now_ms(&self.server), until);
        let first = futures_stream::once(async move { Ok(Bytes::from(header)) });
        let rest = futures_stream::unfold(self, |mut running| async move {
            running.piece().await.map(|piece| (Ok(Bytes::from(piece)), running))
        });
        // Fused, so that polling after the end is safe.
        first.chain(rest).fuse()
    }

    /// The next chunk of the body; `None` at the end.
    async fn piece(&mut self) -> Option<Vec<u8>> {
        self.unread.is_read();
        let mut out = Vec::new();
        while out.is_empty() {
            if self.server.closing.is_cancelled() {
                return None;
            }
            self.state = match std::mem::replace(&mut self.state, StreamState::Ended) {
                StreamState::Opening => self.synced(&mut out),
                StreamState::Initial { state, kind, from } => {
                    let steps = self.server.limits.initial_steps.clone();
                    // The semaphore is never closed.
                    let turn = steps.acquire().await;
                    let next = self.initial(&mut out, state, kind, from);
                    drop(turn);
                    next
                }
                StreamState::Reading { after, until } => self.read(&mut out, after, until).await,
                StreamState::Following { watcher } => self.follow(&mut out, watcher).await,
                StreamState::Sending { events, next, then } => {
                    self.unread.hold_next(events.get(next..).unwrap_or_default()).await;
                    self.send(&mut out, events, next, then)
                }
                StreamState::Failing(error) => {
                    lines::error(&mut out, &error);
                    StreamState::Ended
                }
                StreamState::Ended => return None,
            };
        }
        let events = match &self.state {
            // The vector contains the sent events too.
            StreamState::Sending { events, .. } => events.as_slice(),
            StreamState::Opening
            | StreamState::Initial { .. }
            | StreamState::Reading { .. }
            | StreamState::Following { .. }
            | StreamState::Failing(_)
            | StreamState::Ended => &[],
        };
        self.unread.hold_events(out.len(), events).await;
        Some(out)
    }

    /// Sends a chunk of the initial state, from a key of a kind on.
    fn initial(
        &mut self,
        out: &mut Vec<u8>,
        state: InitialState,
        mut kind: usize,
        mut from: Option<String>,
    ) -> StreamState {
        let Some(resolver) = &self.resolver else { return StreamState::Ended };
        while let Some(place) = resolver.get(kind) {
            let mut next = None;
            for record in state.snapshot.range(place.prefix, from.as_deref()) {
                let written = (record.mod_revision, record.time_ms);
                lines::object(out, place, Type::Added, record, written, self.bounds.managed_fields);
                if out.len() >= PIECE {
                    // The smallest key after this one.
                    next = Some(format!("{}\0", record.key));
                    break;
                }
            }
            if next.is_some() {
                return StreamState::Initial { state, kind, from: next };
            }
            (kind, from) = (kind + 1, None);
        }
        self.synced(out)
    }

    /// Ends the initial state; returns the next state of the stream.
    fn synced(&mut self, out: &mut Vec<u8>) -> StreamState {
        lines::synced(out, self.bounds.at);
        match self.bounds.end {
            End::StreamState => StreamState::Ended,
            End::At(until) => StreamState::Reading { after: self.bounds.at, until },
            End::Limit => match self.server.store.watch(EVERYTHING, self.bounds.at) {
                Ok(watcher) => StreamState::Following { watcher },
                Err(error) => ended(error),
            },
        }
    }

    async fn read(&mut self, out: &mut Vec<u8>, after: Revision, until: Revision) -> StreamState {
        if after >= until {
            lines::progress(out, until, now_ms(&self.server));
            return StreamState::Ended;
        }
        // The end is at most the head, so that every revision up to it has an event.
        let most = usize::try_from(until.0 - after.0).unwrap_or(BATCH).min(BATCH);
        self.unread.hold_batch().await;
        let events = match self.server.store.events(after, most).await {
            Ok(events) => events,
            Err(error) => return StreamState::Failing(read_error(error)),
        };
        let after = events.last().map_or(until, |event| event.revision);
        StreamState::Sending { events, next: 0, then: Box::new(StreamState::Reading { after, until }) }
    }

    /// Encodes events up to the size of a chunk, regardless of how many there are and how large they are: a slow
    /// reader keeps its chunk in memory.
    fn send(
        &self,
        out: &mut Vec<u8>,
        events: Vec<Arc<Event<Projection>>>,
        mut next: usize,
        then: Box<StreamState>,
    ) -> StreamState {
        while let Some(event) = events.get(next) {
            self.event(out, event);
            next += 1;
            if out.len() >= PIECE {
                return StreamState::Sending { events, next, then };
            }
        }
        *then
    }

    async fn follow(&mut self, out: &mut Vec<u8>, mut watcher: Watcher<Projection>) -> StreamState {
        let events = tokio::select! {
            biased;
            () = &mut self.closing => return StreamState::Ended,
            // Checked before the events: under constant load it would never be polled otherwise.
            () = &mut self.alarm => {
                let now = Instant::now();
                if now >= self.limit || self.account.as_ref().is_some_and(|is_alive| !is_alive()) {
                    return StreamState::Ended;
                }
                self.alarm.as_mut().reset(now + PROGRESS_EVERY);
                lines::progress(out, watcher.progress(), now_ms(&self.server));
                return StreamState::Following { watcher };
            }
            events = self.unread.next_events(&mut watcher) => events,
        };
        match events {
            Ok(events) => {
                let may_read = |kind: &KindRef| may_follow_now(&self.server, &self.user, &**kind);
                self.resolver =
                    self.resolver.take().map(|resolver| resolver.refreshed(&self.server.kinds, may_read));
                StreamState::Sending { events, next: 0, then: Box::new(StreamState::Following { watcher }) }
            }
            Err(error) => ended(error),
        }
    }

    fn event(&self, out: &mut Vec<u8>, event: &Event<Projection>) {
        let place = self.resolver.as_ref().and_then(|resolver| resolver.of_key(event.key.as_str()));
        if let (Some(place), Some((ty, record))) = (place, Type::of(event)) {
            let written = (event.revision, event.time_ms);
            lines::object(out, place, ty, record, written, self.bounds.managed_fields);
        }
    }
}

/// The state after the end of a watch.
fn ended(error: WatchError) -> StreamState {
    match error {
        WatchError::Expired { after, oldest } => {
            StreamState::Failing(expired(format_args!("what came after revision {after}"), oldest))
        }
        WatchError::Closed => StreamState::Ended,
        WatchError::Damaged(why) => StreamState::Failing(ApiError::internal(why)),
    }
}
