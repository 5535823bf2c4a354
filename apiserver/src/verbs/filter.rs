//! Label and field selectors of a request, held against records by their projection.

use std::borrow::Cow;

use orlop_apimachinery::{fields, labels};
use orlop_store::Record;

use crate::dispatch::key_names;
use crate::encode::stored;
use crate::projection::Projection;
use crate::query::Query;
use crate::registry::{Kind, UnknownField};
use crate::status::ApiError;

/// What a list, watch or deletecollection selects.
#[derive(Clone)]
pub(crate) struct Filter {
    kind: &'static dyn Kind,
    labels: Option<labels::Selector>,
    fields: Option<fields::Selector>,
}

impl Filter {
    /// Reads `labelSelector` and `fieldSelector`.
    pub(crate) fn parse(kind: &'static dyn Kind, query: &Query) -> Result<Self, ApiError> {
        let labels = match query.text("labelSelector") {
            "" => None,
            text => Some(labels::Selector::parse(text).map_err(|error| ApiError::bad_request(error.to_string()))?),
        };
        let fields = match query.text("fieldSelector") {
            "" => None,
            text => Some(fields::Selector::parse(text).map_err(|error| ApiError::bad_request(error.to_string()))?),
        };
        if let Some(fields) = &fields {
            for term in fields.terms() {
                check_field(kind, &term.field)?;
            }
        }
        Ok(Filter { kind, labels, fields })
    }

    /// Only the object of one name.
    pub(crate) fn by_name(mut self, name: &str) -> Self {
        self.fields = Some(fields::Selector::exact("metadata.name", name));
        self
    }

    /// Whether everything matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.as_ref().is_none_or(labels::Selector::is_everything)
            && self.fields.as_ref().is_none_or(|fields| fields.terms().is_empty())
    }

    /// The one name that can match, when the field selector names one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.as_ref().and_then(|fields| fields.requires_exact("metadata.name"))
    }

    /// Whether a record is selected.
    pub(crate) fn matches(&self, record: &Record<Projection>) -> bool {
        if let Some(labels) = &self.labels
            && !labels.matches(|key| record.view.label(key))
        {
            return false;
        }
        let Some(fields) = &self.fields else { return true };
        let (namespace, name) = key_names(self.kind, record.key.as_str());
        if self.kind.is_view() {
            // A view selects by fields of its own, which the stored projection does not have.
            let object = stored::decode_as(self.kind, record);
            return fields.matches(|field| match field {
                "metadata.name" => Cow::Borrowed(name),
                "metadata.namespace" => Cow::Borrowed(namespace),
                field => Cow::Owned(self.kind.field(&object, field)),
            });
        }
        fields.matches(|field| {
            Cow::Borrowed(match field {
                "metadata.name" => name,
                "metadata.namespace" => namespace,
                field => record.view.field(field).unwrap_or_default(),
            })
        })
    }
}

fn check_field(kind: &dyn Kind, field: &str) -> Result<(), ApiError> {
    if field == "metadata.name" || field == "metadata.namespace" || kind.selectable().contains(&field) {
        return Ok(());
    }
    Err(ApiError::bad_request(match kind.unknown_field() {
        UnknownField::NotSupported => format!("field label not supported: {field}"),
        UnknownField::NotKnown => {
            format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
    }))
}
