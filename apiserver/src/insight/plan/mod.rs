//! Safe verbs: common manual repairs of references and finalizers, as plans that are checked and committed as a
//! whole.
//!
//! Reading order: [`model`] defines plans, [`cluster_view`] how a verb reads (and records its reads), [`facts`]
//! references between objects and their use; then one pure file per verb. [`carry_out`] turns a plan into a
//! commit. A verb reads the objects of one revision. Everything that was read, keys and whole lists, becomes a
//! guard of the commit (`orlop_store::Guard`), so that a pod created in between causes a new plan or a conflict.

mod carry_out;
mod cluster_view;
mod facts;
mod impact;
mod indexes;
mod model;
mod past;
mod reclaim;
mod recover;
mod release;
mod stoppable;
#[cfg(test)]
mod tests;
mod transfer;
mod unblock;
mod undelete;

use std::sync::Arc;

use orlop_store::{CommitError, Revision, Snapshot};
use serde_json::Value;

use self::carry_out::Ready;
use self::cluster_view::{ClusterView, Read, object_of};
use self::model::{Plan, PlanOptions, PlanRefusal, conflict};
use self::past::{Dependent, Version};
use self::stoppable::Stop;
use crate::authorization;
use crate::dispatch;
use crate::encode::stored;
use crate::insight::ObjectTarget;
use crate::insight::key_resolver::kinds;
use crate::insight::past::{moment, read_error};
use crate::projection::Projection;
use crate::state::Inner;
use crate::verbs::write::{StoreError, commit_error_of};
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;

/// The verbs, as the last segment of a path.
pub(super) const VERBS: [&str; 6] = ["reclaim", "recover", "transfer", "release", "unblock", "undelete"];

/// The user of a plan.
#[derive(Clone, Copy)]
pub(crate) struct PlanUser<'a> {
    /// The user.
    pub(crate) user: &'a UserInfo,
    /// Whether the user may list the kinds of which a refusal mentions objects.
    pub(crate) with_related: bool,
}

impl PlanUser<'_> {
    /// The error for a refused verb. Its message mentions other objects only if the user may read them.
    fn refuse(self, refusal: PlanRefusal, target: &ObjectTarget) -> ApiError {
        let refusal = match refusal {
            PlanRefusal::State(_) if !self.with_related => PlanRefusal::State(format!(
                "the state of this object or of another one does not allow it; {DETAILS_NEED}"
            )),
            other => other,
        };
        refusal.error(target)
    }
}

/// Which rights a user needs for the details of a plan.
const DETAILS_NEED: &str = "details need the right to list pods, persistentvolumeclaims, events and resourcequotas, and \
                            persistentvolumes, nodes and the kinds of storage.k8s.io";

/// How many former dependents a plan names.
const NAMED_DEPENDENTS: usize = 5;
/// For how many former dependents the server decides whether the user may read them.
const MOST_DECISIONS: usize = 100;

/// The former dependents of an object.
#[derive(Clone, Debug, Default)]
struct Dependents {
    /// How many there were.
    count: usize,
    /// Some of those that the user may read, as `RESOURCE NAMESPACE/NAME`.
    names: Vec<String>,
}

impl Dependents {
    /// Names only objects that the user may read.
    async fn of(server: &Inner, user: &UserInfo, found: &[Dependent]) -> Self {
        let mut names = Vec::new();
        for one in found.iter().take(MOST_DECISIONS) {
            let right = authorization::right("get", one.kind.names(), &one.namespace, &one.name);
            if names.len() < NAMED_DEPENDENTS && server.authorizer.decide(user, &right).await.allowed {
                names.push(one.text());
            }
        }
        Dependents { count: found.len(), names }
    }
}

/// How often a plan is made again after a concurrent write to an object that it depends on.
const ATTEMPTS: usize = 16;

/// Inputs of a verb besides the objects of the revision.
#[derive(Debug, Default)]
struct PlanContext {
    /// Earlier versions of the object, or of the claim's volume; newest first.
    versions: Vec<Version>,
    /// The oldest known revision.
    oldest: u64,
    /// The dependents that were deleted with the object.
    dependents: Dependents,
    /// The uid for an object to be created.
    uid: String,
}

/// Makes the plan of a verb and commits it, unless it is a dry run. Returns the `Plan`.
///
/// # Errors
/// 400 for invalid options, 404, 409 if the state does not allow the verb or has changed since the plan that was
/// seen, 410 if the past is no longer known, and the errors of ordinary writes.
pub(crate) async fn perform(
    server: &Arc<Inner>,
    by: PlanUser<'_>,
    target: &ObjectTarget,
    verb: &str,
    options: Value,
    dry_run: bool,
) -> Result<Value, ApiError> {
    let mut options = PlanOptions::parse(options).map_err(|refusal| refusal.error(target))?;
    if let Some(at) = options.at.as_deref().filter(|at| !at.is_empty()) {
        options.at = Some(moment(server, "at", at).await?.to_string());
    }
    let seen = options.seen().map_err(|refusal| refusal.error(target))?;
    if let Some(namespace) = options.namespace.as_deref().filter(|_| verb == "transfer") {
        // Otherwise, a refusal could reveal whether a claim of that name exists there.
        for verb in ["create", "get"] {
            let name = options.name.as_deref().unwrap_or(&target.name);
            authorization::may_blocking(server, by.user, verb, target.kind.names(), namespace, name)?;
        }
    }
    let options = Arc::new(options);
    for _ in 0..ATTEMPTS {
        let snapshot = server.store.head();
        let known = Arc::new(know(server, by.user, target, verb, &options, &snapshot).await?);
        let made = make_apart(&snapshot, target, verb, &options, &known).await?;
        let (plan, read) = made.map_err(|refusal| by.refuse(refusal, target))?;
        if let Some(seen) = seen.map(Revision).filter(|seen| *seen != snapshot.revision()) {
            still_as_seen(server, by.user, target, verb, &options, &known, (&plan, &read, seen)).await?;
        }
        let ready = carry_out::prepare(server, by.user, target, &snapshot, &plan, &read)?;
        let Ready { guards, writes, mut shown } = ready;
        if !by.with_related {
            carry_out::hide_texts(&mut shown, target, DETAILS_NEED);
        }
        if dry_run {
            return Ok(shown);
        }
        match server.store.commit_if(guards, writes).await {
            Ok(committed) => return Ok(carry_out::committed(shown, committed.revision())),
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => {
                return Err(match commit_error_of("", error) {
                    StoreError::Api(error) => error,
                    StoreError::Moved(_) => {
                        conflict(target, "it has changed meanwhile; send the request again")
                    }
                });
            }
        }
    }
    Err(conflict(target, "what the plan rests on changes all the time; send the request again"))
}

/// The plan of a deletion, which is never committed. It lists only the objects that the user may read.
///
/// # Errors
/// 404, and failed reads.
pub(crate) async fn impact(
    server: &Arc<Inner>,
    user: &UserInfo,
    target: &ObjectTarget,
    with_related: bool,
) -> Result<Value, ApiError> {
    let made = {
        let (server, user, target) = (server.clone(), user.clone(), target.clone());
        // A namespace may have many objects.
        stoppable::run(move |stop| impact_now(&server, &user, &target, stop)).await?
    };
    let (plan, revision) = made?;
    let plan = readable(server, user, target, with_related, plan).await;
    Ok(carry_out::shown(&plan, revision, &[]))
}

fn impact_now(
    server: &Arc<Inner>,
    user: &UserInfo,
    target: &ObjectTarget,
    stop: Stop,
) -> Result<(Plan, Revision), ApiError> {
    let snapshot = server.store.head();
    let revision = snapshot.revision();
    if let Some(object) = object_of(&snapshot, target)?
        && let Err(error) = carry_out::admit_deletion(server, user, target, &object)
    {
        if error.code != 403 {
            return Err(error);
        }
        return Ok((impact::refused(target, &error.message), revision));
    }
    let mut custom = kinds(&server.kinds.now());
    custom.retain(|kind| kind.is_custom());
    let view = ClusterView::new(&snapshot).until(stop);
    let mut plan = impact::plan(&view, target, &custom).map_err(|refusal| refusal.error(target))?;
    if let Some(error) = view.unreadable() {
        let warning = format!("objects that cannot be read are not listed: {}", error.message);
        plan.warnings.push(warning);
    }
    Ok((plan, revision))
}

/// The part of a plan that a user may read. Texts can mention any object, so they are replaced if the user may not read all of them.
async fn readable(
    server: &Inner,
    user: &UserInfo,
    target: &ObjectTarget,
    with_related: bool,
    plan: Plan,
) -> Plan {
    let all = plan.steps.len();
    let mut is_readable = Vec::with_capacity(all);
    for step in &plan.steps {
        let place = step.target();
        let namespace = place.namespace.as_deref().unwrap_or_default();
        let right = authorization::right("get", place.kind.names(), namespace, &place.name);
        is_readable.push(server.authorizer.decide(user, &right).await.allowed);
    }
    let hidden = is_readable.iter().filter(|is_readable| !**is_readable).count();
    if with_related && hidden == 0 {
        return plan;
    }
    let steps = plan.steps.into_iter().zip(is_readable).filter(|(_, is_readable)| *is_readable);
    let steps = steps.map(|(mut step, _)| {
        step.message.clear();
        step
    });
    let steps = steps.collect();
    let names = target.kind.names();
    let summary = match hidden {
        0 => format!("{} {} is deleted, with the listed objects", names.singular, target.name),
        hidden => format!(
            "{} {} is deleted, with the listed objects and {hidden} that you cannot read",
            names.singular, target.name
        ),
    };
    let warning = match with_related {
        true => "details need the right to get all objects of the plan",
        false => DETAILS_NEED,
    };
    Plan { summary, warnings: vec![warning.to_owned()], mentions: Vec::new(), steps, ..plan }
}

/// Checks that the revision at which the user saw the plan leads to the same plan. Differences that do not change
/// the plan are allowed.
///
/// # Errors
/// 409 that names the change; 410 if the revision is older than the oldest known one.
async fn still_as_seen(
    server: &Inner,
    user: &UserInfo,
    target: &ObjectTarget,
    verb: &str,
    options: &Arc<PlanOptions>,
    known: &PlanContext,
    (plan, read, seen): (&Plan, &Read, Revision),
) -> Result<(), ApiError> {
    let then = server.store.at(seen, "/registry/").await.map_err(read_error)?;
    // Uses the past as of that revision, but the same uid for a new object.
    let known =
        PlanContext { uid: known.uid.clone(), ..know(server, user, target, verb, options, &then).await? };
    let what = match make_apart(&then, target, verb, options, &Arc::new(known)).await? {
        Ok((before, _)) if before.is(plan) => return Ok(()),
        Ok((_, before)) => {
            read.changed_since(&before).map(|key| key.trim_start_matches("/registry/").to_owned())
        }
        Err(_) => None,
    };
    let what = what.as_deref().unwrap_or("what the plan is made from");
    Err(conflict(target, &format!("{what} has changed since revision {seen}; look at the plan again")))
}

/// Reads the past as far as the verb needs it.
async fn know(
    server: &Inner,
    user: &UserInfo,
    target: &ObjectTarget,
    verb: &str,
    options: &PlanOptions,
    snapshot: &Snapshot<Projection>,
) -> Result<PlanContext, ApiError> {
    let oldest = server.store.oldest().0;
    let uid = uuid::Uuid::new_v4().to_string();
    let mut known = PlanContext { oldest, uid, ..PlanContext::default() };
    let key = target.key();
    match verb {
        "undelete" if snapshot.get(&key).is_none() => {
            let at = options.at().map_err(|refusal| refusal.error(target))?;
            known.versions = past::last_version(server, &*target.kind, snapshot, &key, at).await?;
            if let Some(Version { deleted: Some(deleted), object, .. }) = known.versions.first() {
                let found = past::dependents(server, snapshot, object.uid(), *deleted).await?;
                known.dependents = Dependents::of(server, user, &found).await;
            }
        }
        "recover" => {
            let claim = snapshot.get(&key).map(|record| stored::decode(record)).transpose()?;
            if let Some(claim) = claim.filter(|claim| !facts::volume_name(claim).is_empty()) {
                let kind = cluster_view::volumes();
                let key = dispatch::key(kind, "", facts::volume_name(&claim));
                let belongs = |version: &Version| recover::belongs(&claim, version);
                let found = past::newest_version(server, kind, snapshot, &key, belongs).await?;
                known.versions = found.into_iter().collect();
            }
        }
        _ => {}
    }
    Ok(known)
}

/// The plan, and the reads that it is based on. Made on another thread, because the verbs scan whole collections.
///
/// # Errors
/// 500 if the computation panics, or if an object that it needs cannot be read.
async fn make_apart(
    snapshot: &Snapshot<Projection>,
    target: &ObjectTarget,
    verb: &str,
    options: &Arc<PlanOptions>,
    known: &Arc<PlanContext>,
) -> Result<Result<(Plan, Read), PlanRefusal>, ApiError> {
    let (snapshot, target, verb) = (snapshot.clone(), target.clone(), verb.to_owned());
    let (options, known) = (options.clone(), known.clone());
    stoppable::run(move |stop| make(&snapshot, &target, &verb, &options, &known, stop)).await?
}

fn make(
    snapshot: &Snapshot<Projection>,
    target: &ObjectTarget,
    verb: &str,
    options: &PlanOptions,
    known: &PlanContext,
    stop: Stop,
) -> Result<Result<(Plan, Read), PlanRefusal>, ApiError> {
    let view = ClusterView::new(snapshot).until(stop);
    let plan = decide(&view, target, verb, options, known);
    match view.unreadable() {
        Some(error) => Err(error),
        None => Ok(plan.map(|plan| (plan, view.into_read()))),
    }
}

/// Selects the verb and checks that it applies to the kind.
fn decide(
    view: &ClusterView<'_>,
    target: &ObjectTarget,
    verb: &str,
    options: &PlanOptions,
    known: &PlanContext,
) -> Result<Plan, PlanRefusal> {
    let names = target.kind.names();
    match (verb, names.group, names.plural) {
        ("reclaim", "", "persistentvolumes") => reclaim::plan(view, target, options),
        ("recover", "", "persistentvolumeclaims") => recover::plan(view, target, &known.versions),
        ("transfer", "", "persistentvolumeclaims") => transfer::plan(view, target, options, &known.uid),
        ("release", "storage.k8s.io", "volumeattachments") => release::plan(view, target, options),
        ("unblock", _, _) => unblock::plan(view, target, options),
        ("undelete", _, _) => {
            let past = undelete::Past {
                versions: &known.versions,
                oldest: known.oldest,
                dependents: &known.dependents,
                uid: &known.uid,
            };
            undelete::plan(view, target, options, &past)
        }
        ("reclaim", _, _) => wrong(verb, names.plural, "persistentvolumes"),
        ("recover" | "transfer", _, _) => wrong(verb, names.plural, "persistentvolumeclaims"),
        ("release", _, _) => wrong(verb, names.plural, "volumeattachments.storage.k8s.io"),
        (other, _, _) => Err(PlanRefusal::Kind(format!(
            "there is no verb {other:?}; there are reclaim, recover, transfer, release, unblock and undelete"
        ))),
    }
}

fn wrong(verb: &str, given: &str, wanted: &str) -> Result<Plan, PlanRefusal> {
    Err(PlanRefusal::Kind(format!("{verb} applies to {wanted} and not to {given}")))
}
