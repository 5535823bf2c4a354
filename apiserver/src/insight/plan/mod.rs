//! Safe verbs: what people do by hand with references and finalizers, as plans that are checked and carried out whole.
//!
//! Reading order: [`model`] says what a plan is, [`cluster_view`] how a verb reads (and that what it read is remembered),
//! [`facts`] who points to whom and who uses what; then one pure file per verb. [`carry_out`] makes a commit of a plan.
//! A verb reads the objects of one revision. The commit rests on everything that was read: keys and whole lists are
//! guards of it (`orlop_store::Guard`), so that a pod that comes in between makes the plan anew or a conflict.

mod carry_out;
mod cluster_view;
mod facts;
mod impact;
mod model;
mod past;
mod reclaim;
mod recover;
mod release;
#[cfg(test)]
mod tests;
mod transfer;
mod unblock;
mod undelete;

use std::sync::Arc;

use orlop_store::{CommitError, Revision, Snapshot};
use serde_json::Value;

use self::carry_out::Ready;
use self::cluster_view::{ClusterView, Read};
use self::model::{Plan, PlanOptions, PlanRefusal, conflict};
use self::past::Version;
use crate::dispatch;
use crate::encode::stored;
use crate::insight::ObjectTarget;
use crate::insight::key_resolver::kinds;
use crate::insight::past::{moment, read_error};
use crate::projection::Projection;
use crate::state::Inner;
use crate::verbs::write::{StoreError, commit_error_of};
use orlop_api::object::Object;
use orlop_api::status::ApiError;
use orlop_auth::UserInfo;

/// The verbs, as paths end with them.
pub(super) const VERBS: [&str; 6] = ["reclaim", "recover", "transfer", "release", "unblock", "undelete"];

/// How often a plan is made anew when somebody else writes what it rests on.
const ATTEMPTS: usize = 16;

/// What there is besides the objects of the revision.
#[derive(Debug, Default)]
struct PlanContext {
    /// What the object, or the volume of a claim, was before; newest first.
    versions: Vec<Version>,
    /// The oldest revision that is known.
    oldest: u64,
    /// What went with the object.
    dependents: Vec<String>,
    /// For an object that comes.
    uid: String,
}

/// Makes the plan of a verb and carries it out, unless it is a dry run. Answers with the `Plan`.
///
/// # Errors
/// 400 for options that make no sense, 404, 409 where the state does not allow it or has changed since the plan that
/// was seen, 410 where the past is forgotten, and what ordinary writes are answered with.
pub(crate) async fn perform(
    server: &Arc<Inner>,
    user: &UserInfo,
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
    for _ in 0..ATTEMPTS {
        let snapshot = server.store.head();
        let known = know(server, target, verb, &options, &snapshot).await?;
        let (plan, read) =
            make(&snapshot, target, verb, &options, &known).map_err(|refusal| refusal.error(target))?;
        if let Some(seen) = seen.map(Revision).filter(|seen| *seen != snapshot.revision()) {
            still_as_seen(server, target, verb, &options, &known, (&plan, &read), seen).await?;
        }
        let ready = carry_out::prepare(server, user, target, &snapshot, &plan, &read)?;
        let Ready { guards, writes, shown } = ready;
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

/// The plan of a deletion, which is never carried out here.
///
/// # Errors
/// 404, and whatever hinders reading.
pub(crate) async fn impact(server: &Arc<Inner>, target: &ObjectTarget) -> Result<Value, ApiError> {
    let (server, target) = (server.clone(), target.clone());
    // A namespace may hold much, and nothing in between would let anybody else have a turn.
    tokio::task::spawn_blocking(move || impact_now(&server, &target)).await.map_err(ApiError::internal)?
}

fn impact_now(server: &Arc<Inner>, target: &ObjectTarget) -> Result<Value, ApiError> {
    let snapshot = server.store.head();
    if let Some(object) = object_of(&snapshot, target)
        && let Err(error) = carry_out::admit_deletion(server, target, &object)
    {
        if error.code != 403 {
            return Err(error);
        }
        return Ok(carry_out::shown(&impact::refused(target, &error.message), snapshot.revision(), &[]));
    }
    let mut custom = kinds(&server.kinds.now());
    custom.retain(|kind| kind.is_custom());
    let view = ClusterView::new(&snapshot);
    let plan = impact::plan(&view, target, &custom).map_err(|refusal| refusal.error(target))?;
    Ok(carry_out::shown(&plan, snapshot.revision(), &[]))
}

/// That the same plan would be made of the revision at which a person has seen it. What a verb has only looked at, and
/// what does not change the plan, may be another.
///
/// # Errors
/// 409 that names what has changed; 410 when that revision is older than what is known.
async fn still_as_seen(
    server: &Inner,
    target: &ObjectTarget,
    verb: &str,
    options: &PlanOptions,
    known: &PlanContext,
    (plan, read): (&Plan, &Read),
    seen: Revision,
) -> Result<(), ApiError> {
    let then = server.store.at(seen, "/registry/").await.map_err(read_error)?;
    // With the past as it was then; what comes has the same uid in both.
    let known = PlanContext { uid: known.uid.clone(), ..know(server, target, verb, options, &then).await? };
    let what = match make(&then, target, verb, options, &known) {
        Ok((before, _)) if before.is(plan) => return Ok(()),
        Ok((_, before)) => {
            read.changed_since(&before).map(|key| key.trim_start_matches("/registry/").to_owned())
        }
        Err(_) => None,
    };
    let what = what.as_deref().unwrap_or("what the plan is made from");
    Err(conflict(target, &format!("{what} has changed since revision {seen}; look at the plan again")))
}

/// What a verb needs of the past.
async fn know(
    server: &Inner,
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
                known.dependents = past::dependents(server, snapshot, object.uid(), *deleted).await?;
            }
        }
        "recover" => {
            let named =
                snapshot.get(&key).map(|record| facts::volume_name(&stored::decode(record)).to_owned());
            if let Some(named) = named.filter(|named| !named.is_empty()) {
                let key = dispatch::key(cluster_view::volumes(), "", &named);
                known.versions = past::versions(server, cluster_view::volumes(), snapshot, &key).await?;
            }
        }
        _ => {}
    }
    Ok(known)
}

/// The plan, and what it was made from.
fn make(
    snapshot: &Snapshot<Projection>,
    target: &ObjectTarget,
    verb: &str,
    options: &PlanOptions,
    known: &PlanContext,
) -> Result<(Plan, Read), PlanRefusal> {
    let view = ClusterView::new(snapshot);
    let plan = decide(&view, target, verb, options, known)?;
    Ok((plan, view.into_read()))
}

/// The verbs and the kinds that they go with.
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
    Err(PlanRefusal::Kind(format!("{verb} goes with {wanted} and not with {given}")))
}

/// The object that a target stands for in a snapshot.
fn object_of(snapshot: &Snapshot<Projection>, target: &ObjectTarget) -> Option<Object> {
    let record = snapshot.get(&target.key())?;
    Some(stored::decode_as(&*target.kind, record))
}
