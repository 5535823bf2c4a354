//! Builds tables (`meta.k8s.io` Table), which `kubectl get` requests.

use std::sync::Arc;

use jiff::Timestamp;
use orlop_api::object::Object;
use orlop_api::query::Query;
use orlop_api::registry::{Column, KindRef};
use orlop_api::status::ApiError;
use serde_json::{Map, Value, json};

use crate::encode::rows::{self, Lean};
use crate::encode::shape;
use crate::encode::stored::{self, StoredObject};

/// How much of its object a row includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata.
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Parses `includeObject`.
    pub fn parse(query: &Query) -> Result<Self, ApiError> {
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

/// Upstream's columns for kinds without their own.
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

/// Go's zero time: the creation time of a bookmark.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

const NAME_DESCRIPTION: &str = "The name of the object, unique within its namespace and kind.";

/// A table of objects of one kind.
pub struct Table {
    kind: KindRef,
    version: &'static str,
    include: IncludeObject,
    now: Timestamp,
    /// The clock for rows written over time, as in a watch.
    clock: Option<Arc<dyn Fn() -> Timestamp + Send + Sync>>,
}

impl Table {
    /// Creates a table in a version of meta.k8s.io, with ages as of `now`.
    pub fn new(kind: KindRef, version: &'static str, include: IncludeObject, now: Timestamp) -> Self {
        Table { kind, version, include, now, clock: None }
    }

    /// Computes the ages of each later row from the time at which the row is written.
    pub fn set_clock(&mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) {
        self.clock = Some(Arc::new(clock));
    }

    fn now(&self) -> Timestamp {
        self.clock.as_ref().map_or(self.now, |clock| clock())
    }

    /// Same as [`Table::build`], but writes JSON text from stored objects, without building values that no cell
    /// shows.
    pub fn bytes<'r>(
        &self,
        metadata: Map<String, Value>,
        records: impl IntoIterator<Item = StoredObject<'r>>,
        columns: bool,
    ) -> Vec<u8> {
        let (mut out, none) = self.open(metadata, columns);
        let mut separator = b'[';
        for record in records {
            out.push(separator);
            separator = b',';
            self.write_row(&mut out, record);
        }
        match separator {
            b'[' => write_json(&mut out, &none),
            _ => out.push(b']'),
        }
        out.push(b'}');
        out
    }

    /// The text up to the rows, and the rows of an empty table.
    fn open(&self, metadata: Map<String, Value>, columns: bool) -> (Vec<u8>, Value) {
        let mut frame = self.build(metadata, Vec::new(), columns);
        let mut out = Vec::with_capacity(4096);
        for (lead, member) in [
            (&b"{\"kind\":"[..], "kind"),
            (b",\"apiVersion\":", "apiVersion"),
            (b",\"metadata\":", "metadata"),
            (b",\"columnDefinitions\":", "columnDefinitions"),
        ] {
            out.extend_from_slice(lead);
            write_json(&mut out, &frame[member]);
        }
        out.extend_from_slice(b",\"rows\":");
        (out, frame["rows"].take())
    }

    /// The text of a table up to its first row, `[` included. The rows are separated by commas; `]}` ends the table. For tables
    /// that are written in pieces and have rows.
    pub fn head(&self, metadata: Map<String, Value>) -> Vec<u8> {
        let (mut out, _) = self.open(metadata, true);
        out.push(b'[');
        out
    }

    /// Appends a row as JSON text.
    pub fn write_row(&self, out: &mut Vec<u8>, record: StoredObject<'_>) {
        let kind = &*self.kind;
        // Custom objects must be fully decoded to be complete.
        let needs_all = kind.is_view()
            || kind.is_custom()
            || self.include == IncludeObject::Object
            || !kind.converted_annotations().is_empty();
        let Some(lean) = (!needs_all).then(|| Lean::read(record)).flatten() else {
            return write_json(out, &self.stored_row(record));
        };
        let Lean { object, metadata } = lean;
        // The row's own copy of the object is unused because it lacks the managed fields.
        let row = self.row(object, None);
        out.extend_from_slice(b"{\"cells\":");
        write_json(out, &row["cells"]);
        if let Some(conditions) = row.get("conditions") {
            out.extend_from_slice(b",\"conditions\":");
            write_json(out, conditions);
        }
        out.extend_from_slice(b",\"object\":");
        match self.include {
            IncludeObject::None => out.extend_from_slice(b"null"),
            IncludeObject::Metadata | IncludeObject::Object => {
                rows::write_metadata(out, metadata, self.version, record);
            }
        }
        out.push(b'}');
    }

    /// Builds the table with its rows. `columns` is false from the second event of a watch on.
    pub fn build(&self, metadata: Map<String, Value>, objects: Vec<Object>, columns: bool) -> Value {
        self.with_rows(metadata, objects.into_iter().map(|object| self.row(object, None)).collect(), columns)
    }

    /// Same as [`Table::build`], from stored objects.
    pub fn build_stored<'r>(
        &self,
        metadata: Map<String, Value>,
        records: impl IntoIterator<Item = StoredObject<'r>>,
        columns: bool,
    ) -> Value {
        self.with_rows(metadata, records.into_iter().map(|record| self.stored_row(record)).collect(), columns)
    }

    /// Builds the table of a bookmark, whose object has no content (upstream: apiserver `handlers/response.go`). The row of the
    /// bookmark after the initial events includes its annotation, even if the other rows do not include their objects.
    pub fn build_bookmark(&self, bookmark: Object, is_initial_end: bool, columns: bool) -> Value {
        let metadata = single_metadata(&bookmark);
        let partial = (is_initial_end && self.include == IncludeObject::None)
            .then(|| shape::metadata_only(&*self.kind, self.version, &bookmark));
        let mut row = self.row(bookmark, None);
        if let Some(partial) = partial {
            row["object"] = partial;
        }
        self.with_rows(metadata, vec![row], columns)
    }

    fn with_rows(&self, metadata: Map<String, Value>, rows: Vec<Value>, columns: bool) -> Value {
        let has_own = self.kind.own_columns().is_some() || !self.kind.columns().is_empty();
        let definitions = if columns { self.definitions() } else { Value::Null };
        // Empty default tables have null rows; tables with their own columns have [].
        let rows = if rows.is_empty() && !has_own { Value::Null } else { Value::Array(rows) };
        let mut table = json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{}", self.version),
            "metadata": metadata,
            "columnDefinitions": definitions,
        });
        // The macro would copy them.
        table["rows"] = rows;
        table
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

    fn stored_row(&self, record: StoredObject<'_>) -> Value {
        let stored = stored::decode(record);
        let cells = self.kind.cells_of_stored(&stored, self.now());
        self.row(self.kind.to_shown(stored), cells)
    }

    /// Builds the row of an object. `cells` are those of its stored form, if they differ.
    fn row(&self, object: Object, cells: Option<Vec<Value>>) -> Value {
        let cells = if let Some(cells) = cells {
            cells
        } else if self.kind.own_columns().is_none() && self.kind.columns().is_empty() {
            let created = object.at(&["metadata", "creationTimestamp"]).cloned();
            vec![Value::from(object.name()), created.unwrap_or_else(|| NO_TIME.into())]
        } else {
            self.kind.cells(&object, self.now())
        };
        let mut row = json!({ "cells": cells });
        if let Some(conditions) = self.kind.row_conditions(&object) {
            row["conditions"] = conditions;
        }
        row["object"] = match self.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => shape::metadata_only(&*self.kind, self.version, &object),
            IncludeObject::Object => shape::with_kind(&*self.kind, object),
        };
        row
    }
}

fn write_json(out: &mut Vec<u8>, value: &Value) {
    // Writing JSON into memory cannot fail.
    let _ = serde_json::to_writer(out, value);
}

/// The metadata of the table of one object.
pub fn single_metadata(object: &Object) -> Map<String, Value> {
    let mut metadata = Map::new();
    if let Some(version) = object.at(&["metadata", "resourceVersion"]) {
        metadata.insert("resourceVersion".to_owned(), version.clone());
    }
    metadata
}

/// The metadata of the table of one stored object.
pub fn record_metadata(revision: u64) -> Map<String, Value> {
    Map::from_iter([("resourceVersion".to_owned(), revision.to_string().into())])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bytes::Bytes;
    use orlop_api::projection::Projection;
    use orlop_api::registry::Kind;

    use super::*;
    use crate::samples::sample_objects;

    const NOW: &str = "2026-01-02T00:00:00Z";

    fn record<'v>(kind: &dyn Kind, value: &'v Bytes) -> StoredObject<'v> {
        let splice = Projection::read(kind.storage_prefix(), value).splice;
        StoredObject { value, splice, revision: 7 }
    }

    /// The stored bytes, and the same object in two other valid encodings.
    fn forms(kind: &'static dyn Kind, object: Object) -> [Bytes; 3] {
        let stored = kind.to_stored(object);
        let (ours, _) = stored::encode(kind, &stored);
        let value: Value = serde_json::from_slice(&ours).unwrap();
        let mut last = String::from("{");
        for (name, value) in value.as_object().unwrap().iter().filter(|(name, _)| *name != "metadata") {
            last.push_str(&format!("{}:{value},", Value::from(name.as_str())));
        }
        last.push_str(&format!("\"metadata\":{}}}", value["metadata"]));
        let spread = serde_json::to_vec_pretty(&value).unwrap();
        [ours, Bytes::from(last), Bytes::from(spread)]
    }

    /// Rows from stored bytes equal rows from decoded objects, for every kind and every encoding.
    #[test]
    fn rows_from_bytes_equal_rows_from_objects() {
        for (kind, object) in sample_objects() {
            for (form, value) in forms(kind, object).iter().enumerate() {
                let record = record(kind, value);
                let shown = stored::decode_as(kind, record);
                for include in [IncludeObject::None, IncludeObject::Metadata, IncludeObject::Object] {
                    let table = Table::new(kind.into(), "v1", include, NOW.parse().unwrap());
                    for columns in [true, false] {
                        let metadata = single_metadata(&shown);
                        let whole = table.build(metadata.clone(), vec![shown.clone()], columns);
                        let bytes = table.bytes(metadata, [record], columns);
                        let read: Value = serde_json::from_slice(&bytes).unwrap();
                        assert_eq!(read, whole, "{} {include:?}, form {form}", kind.names().plural);
                    }
                }
            }
            let table = Table::new(kind.into(), "v1", IncludeObject::Metadata, NOW.parse().unwrap());
            let none = table.bytes(Map::new(), [], true);
            let read: Value = serde_json::from_slice(&none).unwrap();
            assert_eq!(read, table.build(Map::new(), Vec::new(), true));
        }
    }

    /// A watch may last for hours, so each row shows the age at the time it is written.
    #[test]
    fn ages_are_computed_when_each_row_is_written() {
        let (kind, object) =
            sample_objects().into_iter().find(|(kind, _)| kind.names().plural == "configmaps").unwrap();
        let [value, ..] = forms(kind, object);
        let record = record(kind, &value);
        let mut table =
            Table::new(kind.into(), "v1", IncludeObject::None, "2026-01-01T12:00:10Z".parse().unwrap());
        let age = |table: &Table| {
            let bytes = table.bytes(Map::new(), [record], false);
            let read: Value = serde_json::from_slice(&bytes).unwrap();
            read["rows"][0]["cells"].as_array().unwrap().last().cloned().unwrap()
        };
        assert_eq!(age(&table), "10s");
        table.set_clock(|| "2026-01-01T15:00:00Z".parse().unwrap());
        assert_eq!(age(&table), "3h");
    }
}
