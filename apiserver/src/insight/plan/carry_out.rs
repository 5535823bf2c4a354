//! Turns a plan into one commit: every written object passes the steps of an ordinary write (defaults, admission,
//! server-managed fields, validation, quotas, allocations), everything that was read becomes a guard, and an
//! Event records the action and the user.
//!
//! An object whose spec and status both change passes these steps twice, as two requests would, and is written
//! once.

use std::sync::Arc;

use bytes::Bytes;
use orlop_apimachinery::names::dns_subdomain;
use orlop_store::{Expect, Guard, Key, Op, Record, Revision, Snapshot, Write};
use serde_json::{Value, json};

use super::cluster_view::{Read, kind, object_of};
use super::model::{Plan, PlanStep, StepAction, conflict};
use crate::admission::Operation;
use crate::allocation;
use crate::authorization;
use crate::dispatch::{self, Resource};
use crate::encode::stored;
use crate::insight::changes::{Change, changes};
use crate::insight::{API_VERSION, ObjectTarget, redact};
use crate::projection::Projection;
use crate::registry::StatusSubresource;
use crate::services::pool::HeldAllocations;
use crate::state::Inner;
use crate::system_objects::addresses;
use crate::verbs::create;
use crate::verbs::quota_commit;
use crate::verbs::request::Request;
use crate::verbs::write::{self, Part};
use orlop_api::object::{Object, show_time};
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;

/// The manager name in managed fields.
const MANAGER: &str = "orlop-plan";
/// The reporting controller of Events.
const REPORTER: &str = "orlop.dev/plan";
/// The maximum length of an object name that becomes part of the name of its Event.
const EVENT_BASE_MAX: usize = 200;
/// The maximum length of an Event's note, in bytes.
const NOTE_MAX: usize = 1024;

/// A plan that is ready to be committed.
pub(super) struct Ready {
    pub(super) guards: Vec<Guard>,
    pub(super) writes: Vec<Write<Projection>>,
    /// The `Plan` in its API form.
    pub(super) shown: Value,
}

/// Prepares the writes of a plan.
///
/// # Errors
/// Returns the error of the first object whose ordinary write would fail.
pub(super) fn prepare(
    server: &Arc<Inner>,
    user: &UserInfo,
    target: &ObjectTarget,
    snapshot: &Snapshot<Projection>,
    plan: &Plan,
    read: &Read,
) -> Result<Ready, ApiError> {
    let mut guards = read.guards(snapshot);
    let mut writes = Vec::new();
    let mut finals = Vec::new();
    for step in &plan.steps {
        let on = On { server, user, snapshot, step, target: step.target() };
        // A plan also writes objects that its path does not name.
        let verb = match step.action {
            StepAction::Update => "update",
            StepAction::Create => "create",
            StepAction::Delete => "delete",
        };
        let (namespace, name) = (on.target.namespace.as_deref().unwrap_or_default(), &on.target.name);
        // The plan shows the objects.
        for verb in [verb, "get"] {
            authorization::may_blocking(server, user, verb, on.target.kind.names(), namespace, name)?;
        }
        let object = match step.action {
            StepAction::Update => on.update(&mut writes)?,
            StepAction::Create => on.create(&mut writes, &mut guards)?,
            StepAction::Delete => on.delete(&mut writes)?,
        };
        finals.push(object);
    }
    let shown = shown(plan, snapshot.revision(), &finals);
    writes.push(event(server, user, target, snapshot, plan)?);
    Ok(Ready { guards, writes, shown })
}

/// The response after the commit.
pub(super) fn committed(mut shown: Value, revision: Revision) -> Value {
    shown["committed"] = revision.to_string().into();
    shown
}

/// A plan in its API form; `finals` are the objects as they will be written, where known.
pub(super) fn shown(plan: &Plan, revision: Revision, finals: &[Object]) -> Value {
    let none = Object::default();
    let steps: Vec<Value> = plan
        .steps
        .iter()
        .enumerate()
        .map(|(at, step)| {
            let after = finals.get(at).unwrap_or(&step.after);
            let before = step.before.as_ref().unwrap_or(&none);
            let reference = step.target().reference_with(if step.before.is_some() { before } else { after }.uid());
            let changed = match step.action {
                StepAction::Update | StepAction::Create => changed(&step.target(), before, after),
                StepAction::Delete => Vec::new(),
            };
            json!({
                "object": reference, "action": step.action.word(), "changes": changed, "message": step.message,
            })
        })
        .collect();
    json!({
        "kind": "Plan", "apiVersion": API_VERSION, "verb": plan.verb, "revision": revision.to_string(),
        "summary": plan.summary, "warnings": plan.warnings.iter().chain(&plan.mentions).collect::<Vec<_>>(), "steps": steps,
    })
}

/// Removes the texts of a plan in its API form, which can mention any object.
pub(super) fn hide_texts(shown: &mut Value, target: &ObjectTarget, details_need: &str) {
    let names = target.kind.names();
    let verb = shown["verb"].as_str().unwrap_or_default();
    shown["summary"] = format!("{verb} {} {} writes the listed objects", names.singular, target.name).into();
    let has_warnings = shown["warnings"].as_array().is_some_and(|warnings| !warnings.is_empty());
    let warning = match has_warnings {
        true => format!("there are warnings about other objects: {details_need}"),
        false => details_need.to_owned(),
    };
    shown["warnings"] = json!([warning]);
    for step in shown["steps"].as_array_mut().into_iter().flatten() {
        step["message"] = "".into();
    }
}

/// The changes of a step, without the values of secrets.
fn changed(target: &ObjectTarget, before: &Object, after: &Object) -> Vec<Change> {
    let value = |object: &Object| Value::Object(object.0.clone());
    let mut list = changes(target.kind.clone(), &value(before), &value(after));
    if redact::is_secret(&*target.kind) {
        redact::changes(&mut list);
    }
    list
}

/// A step with its target and environment.
struct On<'a> {
    server: &'a Arc<Inner>,
    user: &'a UserInfo,
    snapshot: &'a Snapshot<Projection>,
    step: &'a PlanStep,
    target: ObjectTarget,
}

impl On<'_> {
    fn request(&self, subresource: &str) -> Request {
        request(self.server, self.user, &self.target, subresource)
    }

    /// The current record of the object.
    fn record(&self) -> Result<Arc<Record<Projection>>, ApiError> {
        let names = self.step.kind().names();
        let found = self.snapshot.get(&self.target.key());
        let found = found.cloned().ok_or_else(|| ApiError::not_found(names, &self.target.name))?;
        stored::readable(&found)?;
        Ok(found)
    }

    fn update(&self, writes: &mut Vec<Write<Projection>>) -> Result<Object, ApiError> {
        let record = self.record()?;
        let object = self.changed(&stored::decode_as(self.step.kind(), &record)?)?;
        writes.extend(self.put(&record, &object)?);
        Ok(object)
    }

    /// The object after an update followed by a status update.
    fn changed(&self, old: &Object) -> Result<Object, ApiError> {
        let kind = self.step.kind();
        let request = self.request("");
        let mut object = self.step.after.clone();
        if kind.policy().status != StatusSubresource::None {
            object.copy_member(old, "status");
        }
        kind.defaults(&mut object);
        write::track(&request, MANAGER, Some(old), &mut object);
        write::admit_without_calls(&request, Operation::Update, &mut object, Some(old))?;
        write::settle_update(&request, Part::Main, &mut object, old);
        write::validate_changed(kind, Part::Main, &object, old, &request, &mut Vec::new())?;
        write::admit_validated_without_calls(&request, Operation::Update, &mut object, Some(old))?;
        self.with_status(object)
    }

    /// The object with the status of the step, if it differs.
    fn with_status(&self, main: Object) -> Result<Object, ApiError> {
        let kind = self.step.kind();
        if kind.policy().status == StatusSubresource::None
            || self.step.after.at(&["status"]) == main.at(&["status"])
        {
            return Ok(main);
        }
        let request = self.request("status");
        let mut object = main.clone();
        object.copy_member(&self.step.after, "status");
        kind.defaults(&mut object);
        write::track(&request, MANAGER, Some(&main), &mut object);
        write::admit_without_calls(&request, Operation::Update, &mut object, Some(&main))?;
        write::settle_update(&request, Part::Status, &mut object, &main);
        write::validate_changed(kind, Part::Status, &object, &main, &request, &mut Vec::new())?;
        write::admit_validated_without_calls(&request, Operation::Update, &mut object, Some(&main))?;
        Ok(object)
    }

    fn create(
        &self,
        writes: &mut Vec<Write<Projection>>,
        guards: &mut Vec<Guard>,
    ) -> Result<Object, ApiError> {
        let kind = self.step.kind();
        let request = self.request("");
        create::check_kind(&request, &self.target.name)?;
        let mut object = self.step.after.clone();
        let uid = match object.uid() {
            "" => uuid::Uuid::new_v4().to_string(),
            uid => uid.to_owned(),
        };
        kind.defaults(&mut object);
        write::track(&request, MANAGER, None, &mut object);
        write::admit_without_calls(&request, Operation::Create, &mut object, None)?;
        create::settle_new(&request, &mut object, uid)?;
        if object.name() != self.target.name {
            return Err(ApiError::bad_request(
                "admission changed the name of the object, which a plan does not support",
            ));
        }
        write::validate_new(kind, &object, Some(&request))?;
        write::admit_validated_without_calls(&request, Operation::Create, &mut object, None)?;
        // For volumes and claims the phase is part of the binding; other kinds compute their status again.
        let names = kind.names();
        let binds =
            names.group.is_empty() && matches!(names.plural, "persistentvolumes" | "persistentvolumeclaims");
        if binds && self.step.after.at(&["status"]).is_some() {
            object = self.with_status(object)?;
        }
        let key = self.target.key();
        let mut bare = kind.to_stored(object.clone());
        bare.meta().remove("resourceVersion");
        let (charged, counts) = quota_commit::charged_writes(&request, self.snapshot, &bare)?;
        guards.extend(counts);
        writes.extend(charged);
        writes.extend(allocation::writes(kind, &key, None, Some(&bare), self.snapshot));
        writes.extend(addresses::writes(self.server, kind, None, Some(&bare), self.snapshot));
        let (value, view) = stored::encode(kind, &bare);
        writes.push(Write { key: Key::from(key), expect: Expect::Absent, op: Op::Put { value, view } });
        Ok(object)
    }

    fn delete(&self, writes: &mut Vec<Write<Projection>>) -> Result<Object, ApiError> {
        let kind = self.step.kind();
        let record = self.record()?;
        let old = stored::decode_as(kind, &record)?;
        let request = self.request("");
        write::admit_delete_without_calls(&request, &old)?;
        let mut object = self.changed(&old)?;
        if !old.is_terminating() {
            write::mark_deleted(kind, &mut object, request.now(), Some(0));
        }
        if !write::may_go(kind, &object) {
            writes.extend(self.put(&record, &object)?);
            return Ok(object);
        }
        let stored = stored::decode(&record)?;
        writes.extend(allocation::writes(kind, record.key.as_str(), Some(&stored), None, self.snapshot));
        writes.extend(addresses::writes(self.server, kind, Some(&stored), None, self.snapshot));
        let expect = Expect::Revision(record.mod_revision);
        writes.push(Write { key: record.key.clone(), expect, op: Op::Delete });
        Ok(object)
    }

    /// The writes that replace a record with an object; none if they are equal.
    fn put(
        &self,
        record: &Arc<Record<Projection>>,
        object: &Object,
    ) -> Result<Vec<Write<Projection>>, ApiError> {
        let kind = self.step.kind();
        let mut bare = kind.to_stored(object.clone());
        bare.meta().remove("resourceVersion");
        let (value, view) = stored::encode(kind, &bare);
        if value == record.value {
            return Ok(Vec::new());
        }
        let old = stored::decode(record)?;
        let mut writes =
            allocation::writes(kind, record.key.as_str(), Some(&old), Some(&bare), self.snapshot);
        writes.extend(addresses::writes(self.server, kind, Some(&old), Some(&bare), self.snapshot));
        let expect = Expect::Revision(record.mod_revision);
        writes.push(Write { key: record.key.clone(), expect, op: Op::Put { value, view } });
        Ok(writes)
    }
}

/// Checks whether admission allows a user to delete an object.
///
/// # Errors
/// The error that a delete request would return.
pub(super) fn admit_deletion(
    server: &Arc<Inner>,
    user: &UserInfo,
    target: &ObjectTarget,
    object: &Object,
) -> Result<(), ApiError> {
    write::admit_delete_without_calls(&request(server, user, target, ""), object)
}

/// The request that a client would have sent.
fn request(server: &Arc<Inner>, user: &UserInfo, target: &ObjectTarget, subresource: &str) -> Request {
    Request {
        server: server.clone(),
        resource: Resource {
            kind: target.kind.clone(),
            namespace: target.namespace.clone().unwrap_or_default(),
            name: target.name.clone(),
            subresource: subresource.to_owned(),
            watch_path: false,
        },
        query: Default::default(),
        accept: None,
        content_type: None,
        user: user.clone(),
        user_agent: String::new(),
        credential: None,
        connection: None,
        upgrade: None,
        proxied: None,
        pretty: false,
        body: Bytes::new(),
        held: HeldAllocations::default(),
        grown: Default::default(),
        audited: None,
        admission: Default::default(),
    }
}

/// The Event of a plan, which regards the target of the verb.
fn event(
    server: &Arc<Inner>,
    user: &UserInfo,
    target: &ObjectTarget,
    snapshot: &Snapshot<Projection>,
    plan: &Plan,
) -> Result<Write<Projection>, ApiError> {
    let events = kind("events.k8s.io", "events");
    let names = target.kind.names();
    // The existing object, otherwise the one to be created.
    let there = object_of(snapshot, target)?;
    let comes = plan.steps.iter().map(|step| &step.after).find(|after| after.name() == target.name);
    let uid = there.as_ref().or(comes).map(Object::uid).unwrap_or_default();
    let namespace = target.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let id = uuid::Uuid::new_v4().simple().to_string();
    // Names that do not fit are left out of the Event's name; `regarding` names the object in any case.
    let fits = target.name.len() <= EVENT_BASE_MAX && dns_subdomain(&target.name).is_empty();
    let base = if fits { target.name.as_str() } else { plan.verb };
    let mut note = format!("{} by {}", plan.summary, user.username);
    for warning in &plan.warnings {
        note.push_str("; ");
        note.push_str(warning);
    }
    while note.len() > NOTE_MAX {
        note.pop();
    }
    let time = (server.config.clock)().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let mut object = Object::from_value(json!({
        "metadata": {"name": format!("{base}.{}", &id[..16]), "namespace": namespace},
        "eventTime": time, "type": "Normal", "action": plan.verb, "reason": plan.reason, "note": note,
        "reportingController": REPORTER, "reportingInstance": "orlop",
        "regarding": {
            "kind": names.kind, "apiVersion": names.api_version(), "name": target.name, "uid": uid,
        },
    }));
    if let Some(namespace) = &target.namespace {
        object.set(&["regarding", "namespace"], namespace.as_str());
    }
    events.defaults(&mut object);
    object.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
    object.set(&["metadata", "creationTimestamp"], show_time(server.now()));
    events.prepare_create(&mut object, server.now());
    write::validate_new(events, &object, None).map_err(|error| conflict(target, &error.message))?;
    let key = dispatch::key(events, &namespace, object.name());
    let (value, view) = stored::encode(events, &events.to_stored(object));
    Ok(Write { key: Key::from(key), expect: Expect::Absent, op: Op::Put { value, view } })
}
