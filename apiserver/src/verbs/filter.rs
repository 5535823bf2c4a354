//! Label and field selectors of a request, held against records by their projection.

use std::borrow::Cow;
use std::sync::Arc;

use orlop_apimachinery::{fields, labels};
use orlop_store::{Record, Snapshot};

use crate::dispatch::key_names;
use crate::encode::stored;
use crate::projection::Projection;
use crate::query::Query;
use crate::registry::{Kind, KindRef, Scope, UnknownField};
use crate::status::ApiError;

/// What a list, watch or deletecollection selects.
#[derive(Clone)]
pub(crate) struct Filter {
    kind: KindRef,
    labels: Option<labels::Selector>,
    fields: Option<fields::Selector>,
    /// The name in the path of a watch of the old form.
    named: Option<String>,
}

impl Filter {
    /// Reads `labelSelector` and `fieldSelector`; `extra` also takes fields that upstream refuses.
    pub(crate) fn parse(kind: &KindRef, query: &Query, extra: bool) -> Result<Self, ApiError> {
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
        if let Some(fields) = &fields {
            for term in fields.terms() {
                check_field(&**kind, &term.field, extra)?;
            }
        }
        Ok(Filter { kind: kind.clone(), labels, fields, named: None })
    }

    /// Only the object of one name.
    pub(crate) fn by_name(mut self, name: &str) -> Self {
        self.named = Some(name.to_owned());
        self
    }

    /// Whether everything matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.named.is_none()
            && self.labels.as_ref().is_none_or(labels::Selector::is_everything)
            && self.fields.as_ref().is_none_or(fields::Selector::is_everything)
    }

    /// The one name that can match, when the field selector names one.
    pub(crate) fn name(&self) -> Option<&str> {
        let selected = || self.fields.as_ref().and_then(|fields| fields.requires_exact("metadata.name"));
        self.named.as_deref().or_else(selected)
    }

    /// The selected records below a prefix, in order, from a key on when one is given. When only
    /// one name can match, nothing else is looked at.
    pub(crate) fn select<'a>(
        &'a self,
        snapshot: &'a Snapshot<Projection>,
        prefix: &'a str,
        from: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Record<Projection>>> {
        // A collection over all namespaces has a namespace between its prefix and the name.
        let whole = self.kind.scope() == Scope::Namespaced && prefix == self.kind.storage_prefix();
        let (one, many) = match self.name() {
            Some(name) if !whole => {
                let key = format!("{prefix}{name}");
                let due = from.is_none_or(|from| from <= key.as_str());
                (due.then(|| snapshot.get(&key)).flatten(), None)
            }
            Some(_) | None => (None, Some(snapshot.range(prefix, from))),
        };
        one.into_iter().chain(many.into_iter().flatten()).filter(|record| self.matches(record))
    }

    /// Whether a record is selected.
    pub(crate) fn matches(&self, record: &Record<Projection>) -> bool {
        if let Some(labels) = &self.labels
            && !labels.matches(|key| record.view.label(key))
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
        if self.kind.reads_through() {
            // A view selects by fields of its own, which the stored projection does not have.
            let object = stored::decode_as(&*self.kind, record);
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
}

fn check_field(kind: &dyn Kind, field: &str, extra: bool) -> Result<(), ApiError> {
    if field == "metadata.name" || field == "metadata.namespace" || kind.selectable().contains(&field) {
        return Ok(());
    }
    if extra && kind.extra_selectable().contains(&field) {
        return Ok(());
    }
    Err(ApiError::bad_request(match kind.unknown_field() {
        UnknownField::NotSupported => format!("field label not supported: {field}"),
        UnknownField::NotKnown => {
            format!(
                "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )
        }
    }))
}
