//! Computes the writes of a step from the newest state, and commits them. After a conflict with another writer, computes them again.

use std::sync::Arc;

use orlop_store::{CommitError, Key, Kv, Revision, Snapshot, Write};

use crate::projection::Projection;

/// The largest number of writes in a commit. A conflict drops only the writes of its commit.
const WRITES: usize = 500;
/// The number of attempts in a round.
const ATTEMPTS: usize = 4;

/// Computes writes from a state. Runs in a blocking thread, because it may decode many objects.
pub(super) type Compute = Arc<dyn Fn(&Snapshot<Projection>) -> Vec<Write<Projection>> + Send + Sync>;

/// The objects below some prefixes in a state, without their contents.
///
/// If it is the same in two states, so are the objects: a write raises the newest revision, or lowers the number of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    objects: usize,
    newest: Revision,
}

impl Fingerprint {
    fn of(head: &Snapshot<Projection>, prefixes: &[&str]) -> Self {
        let mut found = Fingerprint { objects: 0, newest: Revision::ZERO };
        for record in prefixes.iter().flat_map(|prefix| head.range(prefix, None)) {
            found.objects += 1;
            found.newest = found.newest.max(record.mod_revision);
        }
        found
    }
}

/// The state that a step needs between its rounds: the objects that it depends on, when it had nothing to write.
#[derive(Debug, Default)]
pub(super) struct Checked(Option<Fingerprint>);

/// Repairs the objects of a step. Does nothing if the objects below `prefixes`, on which the step depends, are those of the last check.
///
/// # Errors
/// A message for the log: the objects cannot be written, or other writers were faster in each attempt.
pub(super) async fn repair(
    store: &Arc<dyn Kv<Projection>>,
    checked: &mut Checked,
    prefixes: &[&'static str],
    compute: Compute,
) -> Result<(), String> {
    let mut conflict = None;
    for _ in 0..ATTEMPTS {
        let (head, last, compute, prefixes) = (store.head(), checked.0, compute.clone(), prefixes.to_vec());
        let computed = tokio::task::spawn_blocking(move || {
            let found = Fingerprint::of(&head, &prefixes);
            let writes = if last == Some(found) { Vec::new() } else { compute(&head) };
            (found, writes)
        });
        let (found, writes) = computed.await.map_err(|error| error.to_string())?;
        if writes.is_empty() {
            checked.0 = Some(found);
            return Ok(());
        }
        match commit(&**store, writes).await? {
            None => return Ok(()),
            key => conflict = key,
        }
    }
    let key = conflict.as_ref().map(Key::as_str).unwrap_or_default();
    Err(format!(
        "other writers changed the objects during each of {ATTEMPTS} attempts, the last time {key}; the next round tries again"
    ))
}

/// Commits the writes in groups. Returns the key of the last conflict; the writes of other groups are committed.
pub(super) async fn commit(
    store: &dyn Kv<Projection>,
    mut writes: Vec<Write<Projection>>,
) -> Result<Option<Key>, String> {
    let mut conflict = None;
    while !writes.is_empty() {
        let rest = writes.split_off(writes.len().min(WRITES));
        match store.commit(std::mem::replace(&mut writes, rest)).await {
            Ok(_) => {}
            Err(CommitError::Conflict { key, .. }) => conflict = Some(key),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(conflict)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use orlop_store::memory::Memory;
    use orlop_store::{Expect, Op};

    use super::*;

    const PREFIX: &str = "/registry/things/";

    fn store() -> Arc<dyn Kv<Projection>> {
        Arc::new(Memory::<Projection>::new())
    }

    fn put(name: &str, expect: Expect) -> Write<Projection> {
        let op = Op::Put { value: "{}".into(), view: Projection::default() };
        Write { key: Key::from(format!("{PREFIX}{name}")), expect, op }
    }

    fn delete(name: &str, at: Revision) -> Write<Projection> {
        Write { key: Key::from(format!("{PREFIX}{name}")), expect: Expect::Revision(at), op: Op::Delete }
    }

    #[tokio::test]
    async fn every_change_of_the_objects_changes_the_fingerprint() {
        let store = store();
        let print = || Fingerprint::of(&store.head(), &[PREFIX]);
        let write = async |write: Write<Projection>| store.commit(vec![write]).await.unwrap().revision();
        let mut before = print();
        let mut changes = async |case: &str, change: Write<Projection>| {
            let revision = write(change).await;
            let now = print();
            assert_ne!(now, before, "{case}");
            before = now;
            revision
        };
        let a = changes("1 create", put("a", Expect::Absent)).await;
        let b = changes("2 create another", put("b", Expect::Absent)).await;
        let a = changes("3 replace the older one", put("a", Expect::Revision(a))).await;
        changes("4 delete the older one", delete("b", b)).await;
        changes("5 delete the newer one", delete("a", a)).await;
        let now = print();
        let other = Write { key: Key::from("/registry/others/a"), ..put("a", Expect::Absent) };
        store.commit(vec![other]).await.unwrap();
        assert_eq!(print(), now, "objects of another kind do not count");
    }

    #[tokio::test]
    async fn step_runs_again_only_after_a_change() {
        let (store, calls) = (store(), Arc::new(AtomicUsize::new(0)));
        let counted = calls.clone();
        let compute: Compute = Arc::new(move |head| {
            counted.fetch_add(1, Ordering::SeqCst);
            let is_missing = head.get(&format!("{PREFIX}wanted")).is_none();
            is_missing.then(|| put("wanted", Expect::Absent)).into_iter().collect()
        });
        let mut checked = Checked::default();
        let mut round = async || {
            repair(&store, &mut checked, &[PREFIX], compute.clone()).await.unwrap();
            calls.load(Ordering::SeqCst)
        };
        assert_eq!(round().await, 1, "it writes the object");
        assert_eq!(round().await, 2, "it checks the result");
        assert_eq!(round().await, 2, "nothing has changed");
        let revision = store.head().get(&format!("{PREFIX}wanted")).unwrap().mod_revision;
        store.commit(vec![delete("wanted", revision)]).await.unwrap();
        assert_eq!(round().await, 3, "the object was deleted");
        assert!(store.head().get(&format!("{PREFIX}wanted")).is_some());
    }

    #[tokio::test]
    async fn writes_are_computed_again_after_a_conflict() {
        for (conflicts, is_repaired) in [(0, true), (ATTEMPTS - 1, true), (ATTEMPTS, false)] {
            let (store, calls) = (store(), Arc::new(AtomicUsize::new(0)));
            let counted = calls.clone();
            let compute: Compute = Arc::new(move |_| {
                let is_late = counted.fetch_add(1, Ordering::SeqCst) < conflicts;
                let expect = if is_late { Expect::Revision(Revision(77)) } else { Expect::Absent };
                vec![put("wanted", expect)]
            });
            let result = repair(&store, &mut Checked::default(), &[PREFIX], compute).await;
            assert_eq!(result.is_ok(), is_repaired, "{conflicts} conflicts: {result:?}");
            let has_object = store.head().get(&format!("{PREFIX}wanted")).is_some();
            assert_eq!(has_object, is_repaired, "{conflicts} conflicts");
            assert_eq!(calls.load(Ordering::SeqCst), ATTEMPTS.min(conflicts + 1), "{conflicts} conflicts");
            if let Err(error) = result {
                assert!(error.contains("/registry/things/wanted"), "{error}");
            }
        }
    }

    #[tokio::test]
    async fn conflict_drops_only_the_writes_of_its_commit() {
        let store = store();
        let mut writes: Vec<_> = (0..2 * WRITES).map(|n| put(&format!("{n:04}"), Expect::Absent)).collect();
        writes[3].expect = Expect::Revision(Revision(77));
        let conflict = commit(&*store, writes).await.unwrap();
        assert_eq!(conflict.unwrap().as_str(), "/registry/things/0003");
        let head = store.head();
        let left: Vec<&str> = head.range(PREFIX, None).map(|record| record.key.as_str()).collect();
        assert_eq!((left.len(), left[0]), (WRITES, "/registry/things/0500"));
    }
}
