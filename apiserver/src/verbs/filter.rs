//! Label and field selectors of a request, matched against the projections of records.

use std::borrow::Cow;
use std::sync::Arc;

use orlop_apimachinery::{fields, labels};
use orlop_store::{Record, Snapshot};

use crate::dispatch::key_names;
use crate::encode::stored;
use crate::projection::Projection;
use crate::registry::{Kind, KindRef, Scope, UnknownField};
use orlop_api::query::Query;
use orlop_api::status::ApiError;

/// The memory of a parsed selector for each byte of its text, bytes. The most expensive selector is a list of short keys.
const PARSED: u64 = 48;
/// Selectors up to this size are part of the memory of a request or watch, bytes.
const UNCOUNTED: usize = 256;

/// The size of the selectors of a request, bytes.
pub(crate) fn text_len(query: &Query) -> usize {
    query.text("labelSelector").len() + query.text("fieldSelector").len()
}

/// The memory that the filter of a request needs, bytes.
pub(crate) fn memory(query: &Query) -> u64 {
    text_len(query).saturating_sub(UNCOUNTED) as u64 * PARSED
}

/// The selection of a list, watch or deletecollection.
#[derive(Clone)]
pub(crate) struct Filter {
    kind: KindRef,
    labels: Option<labels::Selector>,
    fields: Option<fields::Selector>,
    /// The name in the path of a legacy watch.
    named: Option<String>,
}

impl Filter {
    /// Parses `labelSelector` and `fieldSelector`, and checks the fields; `extra` allows fields that upstream rejects.
    pub(crate) fn parse(kind: &KindRef, query: &Query, extra: bool) -> Result<Self, ApiError> {
        let filter = Self::parse_syntax(kind, query)?;
        filter.check_fields(extra)?;
        Ok(filter)
    }

    /// Parses `labelSelector` and `fieldSelector`. The fields may be unknown.
    pub(crate) fn parse_syntax(kind: &KindRef, query: &Query) -> Result<Self, ApiError> {
        let labels = match query.text("labelSelector") {
            "" => None,
            text => Some(
                labels::Selector::parse(text).map_err(|error| ApiError::bad_request(error.to_string()))?,
            ),
        };
        let fields = match query.text("fieldSelector") {
            "" => None,
            text => Some(
                fields::Selector::parse(text).map_err(|error| ApiError::bad_request(error.to_string()))?,
            ),
        };
        Ok(Filter { kind: kind.clone(), labels, fields, named: None })
    }

    /// 400 if the kind does not have a field; `extra` allows fields that upstream rejects.
    pub(crate) fn check_fields(&self, extra: bool) -> Result<(), ApiError> {
        let mut terms = self.fields.iter().flat_map(|fields| fields.terms());
        terms.try_for_each(|term| check_field(&*self.kind, &term.field, extra))
    }

    /// Whether the field selector permits a name that the path selects: it may require only this name.
    pub(crate) fn permits_name(&self, name: &str) -> bool {
        let fields = self.fields.as_ref().filter(|fields| !fields.is_everything());
        fields.is_none_or(|fields| fields.requires_exact("metadata.name") == Some(name))
    }

    /// Restricts the selection to one name.
    pub(crate) fn by_name(mut self, name: &str) -> Self {
        self.named = Some(name.to_owned());
        self
    }

    /// Whether the filter matches every object.
    pub(crate) fn is_everything(&self) -> bool {
        self.named.is_none()
            && self.labels.as_ref().is_none_or(labels::Selector::is_everything)
            && self.fields.as_ref().is_none_or(fields::Selector::is_everything)
    }

    /// The only name that can match, if the filter requires one.
    pub(crate) fn name(&self) -> Option<&str> {
        let selected = || self.fields.as_ref().and_then(|fields| fields.requires_exact("metadata.name"));
        self.named.as_deref().or_else(selected)
    }

    /// The matching records with a prefix, in order, optionally from a key on. If only one name can match, only its
    /// record is read.
    pub(crate) fn select<'a>(
        &'a self,
        snapshot: &'a Snapshot<Projection>,
        prefix: &'a str,
        from: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Record<Projection>>> {
        self.candidates(snapshot, prefix, from).filter(|record| self.matches(record))
    }

    /// The records that [`select`](Self::select) examines.
    pub(crate) fn candidates<'a>(
        &'a self,
        snapshot: &'a Snapshot<Projection>,
        prefix: &'a str,
        from: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Record<Projection>>> {
        // The keys of a collection across all namespaces contain the namespace between prefix and name.
        let whole = self.kind.scope() == Scope::Namespaced && prefix == self.kind.storage_prefix();
        let (one, many) = match self.name() {
            Some(name) if !whole => {
                let key = format!("{prefix}{name}");
                let due = from.is_none_or(|from| from <= key.as_str());
                (due.then(|| snapshot.get(&key)).flatten(), None)
            }
            Some(_) | None => (None, Some(snapshot.range(prefix, from))),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Whether the filter matches a record.
    pub(crate) fn matches(&self, record: &Record<Projection>) -> bool {
        if !record.is_whole() {
            return self.may_match(record);
        }
        if let Some(labels) = &self.labels
            && !labels.matches(record.view.labels())
        {
            return false;
        }
        if self.fields.is_none() && self.named.is_none() {
            return true;
        }
        let (namespace, name) = key_names(&*self.kind, record.key.as_str());
        if self.named.as_deref().is_some_and(|named| named != name) {
            return false;
        }
        let Some(fields) = &self.fields else { return true };
        let needs_object =
            |term: &fields::Term| term.field != "metadata.name" && term.field != "metadata.namespace";
        if self.kind.reads_through() && fields.terms().iter().any(needs_object) {
            // A view has its own selectable fields, which the stored projection does not contain.
            let Ok(object) = stored::decode_as(&*self.kind, record) else { return true };
            return fields.matches(|field| match field {
                "metadata.name" => Some(Cow::Borrowed(name)),
                "metadata.namespace" => Some(Cow::Borrowed(namespace)),
                field => Some(Cow::Owned(self.kind.field(&object, field))),
            });
        }
        fields.matches(|field| match field {
            "metadata.name" => Some(name),
            "metadata.namespace" => Some(namespace),
            field => record.view.field(field),
        })
    }

    /// Whether the filter may match a record whose labels and fields are unknown: every list that might contain it fails. Requests for
    /// other names do not.
    fn may_match(&self, record: &Record<Projection>) -> bool {
        let (namespace, name) = key_names(&*self.kind, record.key.as_str());
        let permits = |field: &str, own: &str| {
            let wanted = self.fields.as_ref().and_then(|fields| fields.requires_exact(field));
            wanted.is_none_or(|wanted| wanted == own)
        };
        self.named.as_deref().is_none_or(|named| named == name)
            && permits("metadata.name", name)
            && permits("metadata.namespace", namespace)
    }
}

/// Whether the kind is one of those that do not have even an empty namespace as a field (upstream: pkg/apis/core/v1/conversion.go
/// and pkg/apis/certificates/v1/conversion.go).
fn lacks_namespace(kind: &dyn Kind) -> bool {
    let names = kind.names();
    matches!(
        (names.group, names.kind),
        ("", "Node" | "Namespace") | ("certificates.k8s.io", "CertificateSigningRequest")
    )
}

fn check_field(kind: &dyn Kind, field: &str, extra: bool) -> Result<(), ApiError> {
    let has_field = match field {
        "metadata.name" => true,
        "metadata.namespace" => !lacks_namespace(kind),
        field => kind.selectable().contains(&field),
    };
    if has_field {
        return Ok(());
    }
    if extra && kind.extra_selectable().contains(&field) {
        return Ok(());
    }
    Err(ApiError::bad_request(match kind.unknown_field() {
        UnknownField::NotSupported => format!("field label not supported: {field}"),
        UnknownField::NotSupportedByKind => {
            format!("field label {field:?} not supported for {}", kind.names().kind)
        }
        UnknownField::NotSupportedByVersion => {
            let names = kind.names();
            let version = names.api_version();
            format!("field label not supported for {version}, Kind={}: {field}", names.kind)
        }
        UnknownField::NotKnown => {
            format!(
                "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )
        }
    }))
}
