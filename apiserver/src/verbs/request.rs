//! The input of a verb.

use bytes::Bytes;
use jiff::Timestamp;
use orlop_store::{Record, ReservedMemory, Revision, Snapshot};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use crate::admission;
use crate::admission::policy::PolicyIndex;
use crate::admission::webhook::WebhookIndex;
use crate::audit::context::AuditContext;
use crate::authentication::StreamCredential;
use crate::dispatch::{self, Resource};
use crate::encode::head::ObjectHead;
use crate::encode::negotiate::{Endpoint, RequestedEncoding, negotiate, negotiate_unrouted};
use crate::encode::stored;
use crate::encode::undecoded::{Undecoded, UndecodedRecord};
use crate::kubelet_client::relay::ClientUpgrade;
use crate::limits::connection::Connection;
use crate::projection::Projection;
use crate::proxy::request::ProxiedRequest;
use crate::registry::{Kind, KindRef, Names};
use crate::services::pool::HeldAllocations;
use crate::state::Inner;
use crate::verbs::options::WriteOptions;
use orlop_api::object::Object;
use orlop_api::query::Query;
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;
use orlop_auth::request_info::RequestInfo;
use orlop_codec::decode::Media;
use orlop_codec::managed_fields;

/// A request for a resource, with its body read.
pub(crate) struct Request {
    pub(crate) server: Arc<Inner>,
    pub(crate) resource: Resource,
    pub(crate) query: Query,
    pub(crate) accept: Option<String>,
    pub(crate) content_type: Option<String>,
    /// The authenticated user.
    pub(crate) user: UserInfo,
    /// The credential that the watches of the client depend on.
    pub(crate) credential: Option<StreamCredential>,
    /// The user agent of the client; `""` if it sends none.
    pub(crate) user_agent: String,
    /// The connection of the client; `None` for a controller in this process.
    pub(crate) connection: Option<Connection>,
    /// The client requests another protocol on its connection.
    pub(crate) upgrade: Option<ClientUpgrade>,
    /// The request as the client sent it, for a proxy.
    pub(crate) proxied: Option<Box<ProxiedRequest>>,
    /// Indent the response for human readers.
    pub(crate) pretty: bool,
    pub(crate) body: Bytes,
    /// Service addresses and node ports that are allocated for this request but not committed yet.
    pub(crate) held: HeldAllocations,
    /// The audit state; `None` if the request is not recorded.
    pub(crate) audited: Option<Arc<AuditContext>>,
    /// The memory of what mutating webhooks added to the object.
    pub(crate) grown: Mutex<Vec<ReservedMemory>>,
    /// The policies and webhooks of a request whose thread must not compile any; otherwise unset.
    pub(crate) admission: OnceLock<(Arc<PolicyIndex>, Arc<WebhookIndex>)>,
}

impl Request {
    pub(crate) fn kind(&self) -> &dyn Kind {
        &*self.resource.kind
    }

    /// The kind, in a form that can outlive the request.
    pub(crate) fn kind_ref(&self) -> &KindRef {
        &self.resource.kind
    }

    pub(crate) fn names(&self) -> &Names {
        self.resource.kind.names()
    }

    /// The time of this request, in whole seconds as in objects.
    pub(crate) fn now(&self) -> Timestamp {
        self.server.now()
    }

    /// The field manager of this request.
    pub(crate) fn manager(&self, options: &WriteOptions) -> String {
        managed_fields::manager_name(&options.field_manager, &self.user_agent)
    }

    /// Negotiates the format of the response.
    pub(crate) fn wanted(&self, endpoint: Endpoint) -> Result<RequestedEncoding, ApiError> {
        let list_route = self.resource.name.is_empty() && endpoint != Endpoint::Single;
        let endpoint = match endpoint {
            Endpoint::Single if !self.has_table() => Endpoint::Tableless,
            endpoint => endpoint,
        };
        let accept = self.accept.as_deref();
        let mut wanted = if self.kind().is_custom() {
            // Upstream's router knows only built-in kinds.
            negotiate_unrouted(accept.and_then(without_protobuf).as_deref().or(accept), endpoint)?
        } else {
            negotiate(accept, endpoint, list_route)?
        };
        wanted.pretty |= self.pretty;
        Ok(wanted)
    }

    /// Whether the object of this request has a table (upstream: storages that implement `rest.TableConvertor`).
    fn has_table(&self) -> bool {
        self.kind().review().is_none()
            && !matches!(self.resource.subresource.as_str(), "binding" | "eviction" | "token")
    }

    /// Runs a part of admission with lookups in the newest snapshot.
    ///
    /// # Errors
    /// An object that it looked up cannot be read.
    pub(crate) fn look_up<T>(&self, decide: impl FnOnce(&HeadLookup<'_>) -> T) -> Result<T, ApiError> {
        HeadLookup::new(&self.server, self.head()).run(decide)
    }

    /// The newest snapshot.
    pub(crate) fn head(&self) -> Snapshot<Projection> {
        self.server.store.head()
    }

    /// The record of the named object, or a 404.
    pub(crate) fn record(
        &self,
        snapshot: &Snapshot<Projection>,
    ) -> Result<Arc<Record<Projection>>, ApiError> {
        let name = &self.resource.name;
        self.found(snapshot, name)?.ok_or_else(|| ApiError::not_found(self.names(), name))
    }

    /// The record of an object in the collection, if it exists.
    ///
    /// # Errors
    /// The record is unreadable.
    pub(crate) fn found(
        &self,
        snapshot: &Snapshot<Projection>,
        name: &str,
    ) -> Result<Option<Arc<Record<Projection>>>, ApiError> {
        let found = snapshot.get(&self.resource.key(name)).cloned();
        if let Some(record) = &found {
            stored::readable(record)?;
        }
        Ok(found)
    }

    /// Records the identity of the object in the body in the audit log.
    pub(crate) fn audit_names(&self, object: &Object) {
        if let Some(audited) = &self.audited {
            audited.names(object);
        }
    }

    /// Records a revision that the request wrote in the audit log.
    pub(crate) fn audit_revision(&self, revision: Revision) {
        if let Some(audited) = &self.audited {
            audited.wrote(revision);
        }
    }

    /// The format of the body, or a 415.
    pub(crate) fn media(&self) -> Result<Media, ApiError> {
        media_type(self.content_type.as_deref().unwrap_or_default()).ok_or_else(|| {
            ApiError::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json, application/yaml, application/vnd.kubernetes.protobuf",
            )
        })
    }
}

/// The format of a `Content-Type`, parsed as by Go's `mime.ParseMediaType`; `None` if it is unknown or malformed.
fn media_type(text: &str) -> Option<Media> {
    let (base, parameters) = text.split_once(';').unwrap_or((text, ""));
    let is_well_formed = |part: &str| part.split_once('=').is_some_and(|(key, _)| !key.trim().is_empty());
    let mut parameters = parameters.split(';').map(str::trim).filter(|part| !part.is_empty());
    if !parameters.all(is_well_formed) {
        return None;
    }
    match base.trim().to_ascii_lowercase().as_str() {
        "" if text.is_empty() => Some(Media::Json),
        "application/json" => Some(Media::Json),
        "application/yaml" => Some(Media::Yaml),
        "application/vnd.kubernetes.protobuf" => Some(Media::Protobuf),
        _ => None,
    }
}

/// The accepted types without protobuf, which objects of custom kinds do not support (their metadata and tables
/// do); `None` if nothing else is accepted.
fn without_protobuf(accept: &str) -> Option<String> {
    let is_plain = |clause: &&str| !clause.contains("vnd.kubernetes.protobuf") || clause.contains("as=");
    let left: Vec<&str> = accept.split(',').filter(is_plain).collect();
    (!left.is_empty()).then(|| left.join(","))
}

/// Lookups in the newest snapshot, for admission. A lookup skips unreadable objects and records them, and the decision fails.
pub(crate) struct HeadLookup<'a> {
    server: &'a Inner,
    head: Snapshot<Projection>,
    /// The error of the first unreadable object.
    unreadable: OnceLock<ApiError>,
}

impl<'a> HeadLookup<'a> {
    /// Lookups in a snapshot.
    pub(crate) fn new(server: &'a Inner, head: Snapshot<Projection>) -> Self {
        HeadLookup { server, head, unreadable: OnceLock::new() }
    }

    /// Passes the lookups to a decision.
    ///
    /// # Errors
    /// An object that the decision looked up cannot be read, so its result means nothing.
    pub(crate) fn run<T>(self, decide: impl FnOnce(&Self) -> T) -> Result<T, ApiError> {
        let result = decide(&self);
        match self.unreadable.into_inner() {
            None => Ok(result),
            Some(error) => Err(error),
        }
    }

    /// The objects whose keys have a prefix.
    pub(crate) fn undecoded<'b>(
        &'b self,
        kind: &'b dyn Kind,
        prefix: &'b str,
    ) -> impl Iterator<Item = impl Undecoded> {
        let decode = move |record: &Record<Projection>| self.decode(kind, record);
        self.head.range(prefix, None).map(move |record| UndecodedRecord::new(record, decode))
    }

    fn decode(&self, kind: &dyn Kind, record: &Record<Projection>) -> Option<Object> {
        self.readable(stored::decode_as(kind, record))
    }

    /// What was read of an object; records the error of an unreadable one.
    fn readable<T>(&self, read: Result<T, ApiError>) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(error) => {
                // The first one names the cause.
                let _ = self.unreadable.set(error);
                None
            }
        }
    }
}

impl admission::Lookup for HeadLookup<'_> {
    fn permits(&self, user: &UserInfo, request: &RequestInfo) -> bool {
        self.server.authorizer.decide_blocking(user, request).allowed
    }

    fn head(&self, kind: &dyn Kind, namespace: &str, name: &str) -> Option<ObjectHead> {
        let record = self.head.get(&dispatch::key(kind, namespace, name))?;
        self.readable(ObjectHead::of(record))
    }

    fn get(&self, kind: &dyn Kind, namespace: &str, name: &str) -> Option<Object> {
        self.decode(kind, self.head.get(&dispatch::key(kind, namespace, name))?)
    }

    fn list<'a>(
        &'a self,
        kind: &'a dyn Kind,
        namespace: Option<&str>,
    ) -> Box<dyn Iterator<Item = Object> + 'a> {
        let prefix = dispatch::prefix(kind, namespace.unwrap_or_default());
        // Pointers, because the range borrows the prefix.
        let records: Vec<Arc<Record<Projection>>> = self.head.range(&prefix, None).cloned().collect();
        Box::new(records.into_iter().filter_map(move |record| self.decode(kind, &record)))
    }

    fn visit(
        &self,
        kind: &dyn Kind,
        namespace: Option<&str>,
        visit: &mut dyn FnMut(&dyn Undecoded) -> ControlFlow<()>,
    ) {
        let prefix = dispatch::prefix(kind, namespace.unwrap_or_default());
        // A break ends the visit.
        let _ = self.undecoded(kind, &prefix).try_for_each(|one| visit(&one));
    }

    fn size_without(&self, kind: &dyn Kind, namespace: Option<&str>, name: &str) -> usize {
        let prefix = dispatch::prefix(kind, namespace.unwrap_or_default());
        let others = self.head.range(&prefix, None);
        let others = others.filter(|record| dispatch::key_names(kind, record.key.as_str()).1 != name);
        others.map(|record| record.value.len()).sum()
    }
}
