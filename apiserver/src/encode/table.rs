//! Tables (`meta.k8s.io` Table), as `kubectl get` asks for them.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::encode::shape;
use crate::object::Object;
use crate::query::Query;
use crate::registry::{Column, KindRef};
use crate::status::ApiError;

/// What a row carries of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

impl IncludeObject {
    /// Reads `includeObject`.
    pub(crate) fn parse(query: &Query) -> Result<Self, ApiError> {
        match query.text("includeObject") {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "Object" => Ok(IncludeObject::Object),
            "None" => Ok(IncludeObject::None),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                 must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Upstream's table for kinds that have none of their own.
const DEFAULT_COLUMNS: &[Column] = &[
    Column { name: "Name", kind: "string", format: "name", description: NAME_DESCRIPTION, priority: 0 },
    Column {
        name: "Created At",
        kind: "date",
        format: "",
        description: "When the object was created, by the clock of the server.",
        priority: 0,
    },
];

const NAME_DESCRIPTION: &str = "The name of the object, unique within its namespace and kind.";

/// A table of a kind's objects.
pub(crate) struct Table {
    kind: KindRef,
    version: &'static str,
    include: IncludeObject,
    now: Timestamp,
}

impl Table {
    pub(crate) fn new(kind: KindRef, version: &'static str, include: IncludeObject, now: Timestamp) -> Self {
        Table { kind, version, include, now }
    }

    /// The table with its rows. `columns` is left out from the second event of a watch on.
    pub(crate) fn build(&self, metadata: Map<String, Value>, objects: Vec<Object>, columns: bool) -> Value {
        let has_own = self.kind.own_columns().is_some() || !self.kind.columns().is_empty();
        let definitions = if columns { self.definitions() } else { Value::Null };
        let rows: Vec<Value> = objects.into_iter().map(|object| self.row(object)).collect();
        // The default table says null where the kinds' own tables say [].
        let rows = if rows.is_empty() && !has_own { Value::Null } else { Value::Array(rows) };
        json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{}", self.version),
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": rows,
        })
    }

    fn definitions(&self) -> Value {
        if let Some(own) = self.kind.own_columns() {
            return own.clone();
        }
        let own = self.kind.columns();
        let columns = if own.is_empty() { DEFAULT_COLUMNS } else { own };
        columns
            .iter()
            .map(|column| {
                json!({
                    "name": column.name, "type": column.kind, "format": column.format,
                    "description": column.description, "priority": column.priority,
                })
            })
            .collect()
    }

    fn row(&self, object: Object) -> Value {
        let cells = if self.kind.own_columns().is_none() && self.kind.columns().is_empty() {
            let created = object.at(&["metadata", "creationTimestamp"]).cloned().unwrap_or_default();
            vec![Value::from(object.name()), created]
        } else {
            self.kind.cells(&object, self.now)
        };
        let mut row = json!({ "cells": cells });
        if let Some(conditions) = self.kind.row_conditions(&object) {
            row["conditions"] = conditions;
        }
        row["object"] = match self.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => shape::metadata_only(self.version, &object),
            IncludeObject::Object => shape::with_kind(&*self.kind, object),
        };
        row
    }
}

/// The metadata of the table of one object.
pub(crate) fn single_metadata(object: &Object) -> Map<String, Value> {
    let mut metadata = Map::new();
    if let Some(version) = object.at(&["metadata", "resourceVersion"]) {
        metadata.insert("resourceVersion".to_owned(), version.clone());
    }
    metadata
}
