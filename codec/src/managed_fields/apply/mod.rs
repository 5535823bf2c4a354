//! Implements server-side apply: merges the applied configuration into the object, removes fields that the
//! manager applied before but no longer applies, and changes fields of other owners only when forced.
//!
//! Upstream: structured-merge-diff `merge/update.go`, apimachinery `pkg/util/managedfields`.

use std::collections::HashMap;

use orlop_api::object::Object;
use orlop_api::registry::{Kind, KindRef, TypeRef, sibling};
use orlop_api::status::ApiError;
use orlop_openapi::StructType;
use serde_json::{Map, Value};

use super::compare::compare;
use super::config::{misfits, paths};
use super::entries::{Entries, Entry, Operation};
use super::merge::{merge, remove, with_fields_above};
use super::set::Set;
use super::update::{Conflict, MAX_VERSIONS, Writer, disown, empty_object, list, set_list, strip, update};
use super::{conflicts, last_applied};
use crate::decode::conform_to;

/// The manager that owns the existing fields of an untracked object before its first apply.
const BEFORE: &str = "before-first-apply";

/// Why an apply fails.
pub(super) enum Refused {
    /// The apply would change fields of other owners.
    Conflicts(Vec<Conflict>),
    /// Any other error.
    Api(ApiError),
}

/// Applies a configuration to the live object, or creates a new one. The result includes its managed fields;
/// defaulting and admission run later. `config` is the document as sent, with kind and apiVersion.
///
/// # Errors
/// Upstream's: 400 for another kind, 409 for conflicts, 500 for a configuration that does not fit the type.
pub fn apply(
    writer: &Writer<'_>,
    live: Option<&Object>,
    mut config: Map<String, Value>,
    force: bool,
) -> Result<Object, ApiError> {
    let names = writer.kind.names();
    let kind = config.remove("kind");
    let version = config.remove("apiVersion");
    let text = |value: &Option<Value>| value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, version) = (text(&kind), text(&version));
    if kind != names.kind || version != names.api_version() {
        return Err(ApiError::bad_request(format!("invalid object type: {}", kind_text(&version, &kind))));
    }
    let managed = config.get("metadata").and_then(|metadata| metadata.get("managedFields"));
    if managed.is_some_and(|managed| !managed.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let ty = writer
        .kind
        .struct_type()
        .ok_or_else(|| ApiError::internal(format!("no type {} is known", names.schema)))?;
    let ty = &*ty;
    let shown = shown_name(&config, &kind_text(&version, &kind));
    let misfits = misfits(ty, &config);
    if !misfits.is_empty() {
        // The values of Secrets are shown nowhere, unlike in upstream.
        let misfits: Vec<&str> = (misfits.iter())
            .map(|line| match names.is_secret() {
                true => line.split(", got ").next().unwrap_or_default(),
                false => line,
            })
            .collect();
        let text = match misfits.as_slice() {
            [one] => (*one).to_owned(),
            many => format!("errors:\n  {}", many.join("\n  ")),
        };
        return Err(ApiError::plain_internal(format!(
            "failed to create typed patch object ({shown}): {text}"
        )));
    }
    let job = ApplyContext { writer, ty, live, config: &config, shown: &shown };
    let mut result = job.run(force);
    if let Err(Refused::Conflicts(found)) = result {
        // Fields from kubectl's client-side apply do not conflict with its server-side apply.
        let (left, forgiven) = last_applied::forgive(writer, ty, live, found);
        result = if forgiven { job.run(true) } else { Err(Refused::Conflicts(left)) };
    }
    let mut object = match result {
        Ok(object) => object,
        Err(Refused::Conflicts(found)) => return Err(conflicts::error(&found)),
        Err(Refused::Api(error)) => return Err(error),
    };
    last_applied::keep_up(writer, &mut object, &version, &kind, &config);
    Ok(object)
}

/// Formats a kind as upstream does: `v1, Kind=ConfigMap`, preceded by the group.
fn kind_text(api_version: &str, kind: &str) -> String {
    match api_version.split_once('/') {
        Some((_, version)) if version.contains('/') => "/, Kind=".to_owned(),
        Some((group, version)) => format!("{group}/{version}, Kind={kind}"),
        None => format!("/{api_version}, Kind={kind}"),
    }
}

/// The object's name in errors: `NAMESPACE/NAME; KIND`, with empty parts for values that the configuration omits.
fn shown_name(config: &Map<String, Value>, kind: &str) -> String {
    let text = |name: &str| {
        config.get("metadata").and_then(|m| m.get(name)).and_then(Value::as_str).unwrap_or_default()
    };
    format!("{}/{}; {kind}", text("namespace"), text("name"))
}

/// The context of one apply.
struct ApplyContext<'a> {
    writer: &'a Writer<'a>,
    ty: &'a StructType,
    live: Option<&'a Object>,
    config: &'a Map<String, Value>,
    shown: &'a str,
}

impl ApplyContext<'_> {
    fn run(&self, force: bool) -> Result<Object, Refused> {
        let (writer, ty) = (self.writer, self.ty);
        let mut live = self.live.map_or_else(|| empty_object(ty), |live| live.0.clone());
        if let Some(metadata) = live.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let mut entries = self.live.map(list).and_then(Entries::decode).unwrap_or_default();
        if entries.0.is_empty() && self.live.is_some() {
            entries = self.before(&live);
        }

        let owner = writer.owner(Operation::Apply);
        let last = entries.take(&owner);
        let mut fields = paths(ty, self.config);
        fields.subtract_deep(writer.reset());
        let time = last.as_ref().and_then(|last| last.time.clone());
        entries.0.push(Entry { owner: owner.clone(), time, fields });

        let mut new = merge(ty, &live, self.config);
        if let Some(last) = last.filter(|last| !last.fields.is_empty()) {
            new = self.prune(new, &entries, &last);
        }
        let mut changes = compare(ty, &live, &new);
        changes.subtract_deep(writer.reset());
        disown(writer, &live, &new, &changes, &mut entries, Some(&owner), force)
            .map_err(Refused::Conflicts)?;
        if let Some(at) = entries.find(&owner) {
            strip(&mut entries.0[at].fields);
            if entries.0[at].fields.is_empty() {
                entries.0.remove(at);
            }
        }

        let changed = live != new;
        let mut object = Object(live);
        if changed {
            if let Some(at) = entries.find(&owner) {
                entries.0[at].time = Some(writer.now.to_owned());
            }
            object = Object(self.conformed(new)?);
        }
        set_list(&mut object, entries.encode());
        Ok(object)
    }

    /// Assigns all existing fields to an owner before the first apply.
    fn before(&self, live: &Map<String, Value>) -> Entries {
        let writer = Writer { manager: BEFORE, ..*self.writer };
        let empty = empty_object(self.ty);
        let mut changes = compare(self.ty, &empty, live);
        changes.subtract_deep(writer.reset());
        update(&writer, &empty, live, changes, Entries::default())
    }

    /// Decodes the merged object as its kind.
    fn conformed(&self, new: Map<String, Value>) -> Result<Map<String, Value>, Refused> {
        conform_to(self.writer.kind, Value::Object(new)).map(|conformed| conformed.object).map_err(|why| {
            let shown = self.shown;
            let kind = shown.rsplit_once("; ").map_or(shown, |(_, kind)| kind);
            Refused::Api(ApiError::plain_internal(format!(
                "failed to convert new object ({shown}) to proper version: unable to convert unstructured \
                 object to {kind}: {why}"
            )))
        })
    }

    /// Removes the fields that the manager applied last time but does not apply now, unless they have another owner.
    fn prune(&self, merged: Map<String, Value>, entries: &Entries, last: &Entry) -> Map<String, Value> {
        let Some(last_form) = Form::of(self.writer.kind, &last.owner.api_version) else { return merged };
        let Some(here) = Form::of(self.writer.kind, &self.writer.kind.names().api_version()) else {
            return merged;
        };
        let merged_last = here.to(&last_form, merged);
        let last_fields = with_fields_above(&last_form.ty, &last.fields);
        let mut pruned = remove(&last_form.ty, &merged_last, &last_fields);

        // Restore fields with an owner, version by version, starting with the pruned version.
        let mut versions: Vec<(&str, Vec<Set>)> = vec![(&last.owner.api_version, Vec::new())];
        let mut places = HashMap::from([(last.owner.api_version.as_str(), 0)]);
        for entry in &entries.0 {
            let version = entry.owner.api_version.as_str();
            let at = *places.entry(version).or_insert(versions.len());
            if at == versions.len() {
                versions.push((version, Vec::new()));
            }
            versions[at].1.push(entry.fields.clone());
        }
        let mut at = last_form.clone();
        let mut merged = merged_last.clone();
        let forms = versions
            .into_iter()
            .filter_map(|(version, owned)| Some((Form::of(self.writer.kind, version)?, owned)));
        // Besides the kind's own version.
        for (form, owned) in forms.take(1 + MAX_VERSIONS) {
            merged = at.to(&form, merged);
            let there = at.to(&form, pruned);
            let mut keep = form.paths(&there);
            keep.unite(with_fields_above(&form.ty, &Set::union(owned)));
            let mut gone = form.paths(&merged);
            gone.subtract(&keep);
            pruned = remove(&form.ty, &merged, &gone);
            at = form;
        }

        // Fields that the manager did not own are never removed.
        let pruned = at.to(&last_form, pruned);
        let mut gone = last_form.paths(&merged_last);
        gone.subtract(&last_form.paths(&pruned));
        let gone = gone.intersection(&last_fields);
        last_form.to(&here, remove(&last_form.ty, &merged_last, &gone))
    }
}

/// An API version of the kind, for conversion.
#[derive(Clone)]
struct Form {
    kind: KindRef,
    ty: TypeRef,
}

impl Form {
    fn of(kind: &dyn Kind, api_version: &str) -> Option<Self> {
        let kind = sibling(kind, api_version)?;
        let ty = kind.struct_type()?;
        Some(Form { kind, ty })
    }

    /// Converts an object to another version.
    fn to(&self, other: &Form, object: Map<String, Value>) -> Map<String, Value> {
        if std::ptr::eq(&*self.ty, &*other.ty) {
            return object;
        }
        other.kind.to_shown(self.kind.to_stored(Object(object))).0
    }

    fn paths(&self, object: &Map<String, Value>) -> Set {
        with_fields_above(&self.ty, &paths(&self.ty, object))
    }
}

#[cfg(test)]
mod tests;
