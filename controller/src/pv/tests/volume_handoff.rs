//! Tests with many claims and volumes at the same time: every claim that fits a volume is bound, no volume is
//! bound twice, and the number of syncs stays low. The resync never runs in these tests.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::notation::parse;
use super::play::step;
use super::requeue::World;
use crate::options::Options;
use crate::pv::binder::Binder;
use crate::pv::controller::standard_plugins;
use crate::testing::{FakeApi, Fault, FaultKind};
use orlop_client::names;
use orlop_client::packed_object::PackedObject;
use orlop_volume::fit::{self, RequiredLabels};
use orlop_volume::object::{self, VolumePhase};

fn volumes(api: &FakeApi) -> Vec<PersistentVolume> {
    let objects = api.list("persistentvolumes").into_iter();
    objects.map(|object| serde_json::from_value(object).unwrap()).collect()
}

fn claims(api: &FakeApi) -> Vec<PersistentVolumeClaim> {
    let objects = api.list("persistentvolumeclaims").into_iter();
    objects.map(|object| serde_json::from_value(object).unwrap()).collect()
}

/// Free volumes and the unbound claims that they fit.
fn apart(api: &FakeApi) -> Vec<String> {
    let (volumes, claims) = (volumes(api), claims(api));
    let mut apart = Vec::new();
    for claim in claims.iter().filter(|claim| object::volume_name(claim).is_empty()) {
        for volume in volumes.iter().filter(|volume| object::claim_ref(volume).is_none()) {
            if fit::search_misfit(volume, claim, &RequiredLabels::of(claim), false).is_none() {
                apart.push(format!("{} {}", object::name(&volume.metadata), object::claim_key(claim)));
            }
        }
    }
    apart
}

/// Number of bound pairs; asserts that both sides refer to each other.
fn pairs(api: &FakeApi) -> usize {
    let claims = claims(api);
    let bound = volumes(api).into_iter().filter(|volume| VolumePhase::of(volume) == VolumePhase::Bound);
    let with_claim = bound.inspect(|volume| {
        let ours = |claim: &&PersistentVolumeClaim| {
            object::points_to(volume, claim) && object::volume_name(claim) == object::name(&volume.metadata)
        };
        assert!(claims.iter().any(|claim| ours(&claim)), "{:#?}", super::play::state(api));
    });
    with_claim.count()
}

/// Number of events on claims, including repetitions.
fn event_count(api: &FakeApi) -> u64 {
    api.list("events").iter().map(|event| event["count"].as_u64().unwrap_or(1)).sum()
}

#[tokio::test(start_paused = true)]
async fn claims_synced_concurrently_choose_different_volumes() {
    let mut lines = Vec::new();
    for n in 0..50 {
        lines.push(format!("pv pv-{n:02} {}Gi RWO Available", 1 + n % 3));
        lines.push(format!("pvc default/c-{n:02} uid-c-{n:02} 1Gi RWO Pending"));
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let world = World::new(&lines).await;
    assert_eq!(pairs(&world.api), 50);
    // No conflicts: every object was written once for its spec and once for its status.
    let writes = world.api.take_writes();
    let of = |resource: &str, part: &str| {
        writes.iter().filter(|write| write.resource == resource && write.subresource == part).count()
    };
    for resource in ["persistentvolumes", "persistentvolumeclaims"] {
        assert_eq!((of(resource, ""), of(resource, "status")), (50, 50), "{resource}");
    }
}

/// A controller with filled stores whose workers do not run.
pub(super) async fn still(objects: Vec<Value>) -> (Arc<Binder>, FakeApi, DropGuard) {
    let api = FakeApi::new();
    objects.into_iter().for_each(|object| {
        api.seed(object);
    });
    let shutdown = CancellationToken::new();
    let context = api.context(Options::default(), &shutdown);
    let plugins = standard_plugins(&Options::default()).unwrap();
    let binder = Binder::new(&context, plugins, names::migrated_driver);
    binder.caches_synced().await;
    binder.fill_stores();
    (binder, api, shutdown.drop_guard())
}

#[tokio::test(start_paused = true)]
async fn reserved_volume_is_not_chosen_again() {
    let lines = [
        "pv pv-1 1Gi RWO Available",
        "pv pv-2 5Gi RWO Available",
        "pvc default/a uid-a 1Gi RWO Pending",
        "pvc default/b uid-b 1Gi RWO Pending",
    ];
    let (binder, _api, _running) = still(lines.map(parse).to_vec()).await;
    let mut a = Box::pin(binder.process_claim("default/a".to_owned()));
    let mut b = Box::pin(binder.process_claim("default/b".to_owned()));
    let reserved = || ["pv-1", "pv-2"].map(|name| binder.lock().reserved.is_reserved(name));
    assert!(futures::poll!(a.as_mut()).is_pending());
    assert_eq!(reserved(), [true, false]);
    assert!(futures::poll!(b.as_mut()).is_pending());
    assert_eq!(reserved(), [true, true]);
    let (a, b) = futures::join!(a, b);
    assert!(a.is_ok() && b.is_ok());
    assert_eq!(reserved(), [false, false]);
}

#[tokio::test(start_paused = true)]
async fn claim_is_synced_again_for_a_volume_created_during_its_sync() {
    let mut claim = parse("pvc default/c uid-c 1Gi RWO Pending");
    claim["status"]["capacity"] = json!({"storage": "1Gi"});
    let (binder, _api, _running) = still(vec![claim]).await;
    let mut look = Box::pin(binder.process_claim("default/c".to_owned()));
    // The search found nothing; the status without a volume is being written.
    assert!(futures::poll!(look.as_mut()).is_pending());
    let mut volume = parse("pv pv-1 1Gi RWO Available");
    volume["metadata"]["resourceVersion"] = "100".into();
    let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
    let volume = Arc::new(volume);
    assert!(binder.store_volume(&PackedObject::new(Arc::clone(&volume)), &volume).unwrap());
    assert!(binder.claims.is_empty(), "every claim that it could be offered to is queued");
    assert!(look.await.is_ok());
    assert_eq!(binder.claims.try_get().as_deref(), Some("default/c"));
}

#[tokio::test(start_paused = true)]
async fn first_claim_in_the_queue_chooses_first() {
    // Both claims fit the small volume, and the first by name is synced first.
    let lines = [
        "pv small 1Gi RWO Available",
        "pv big 5Gi RWO Available",
        "pvc default/a uid-a 1Gi RWO Pending",
        "pvc default/b uid-b 1Gi RWO Pending",
    ];
    let world = World::new(&lines).await;
    for (claim, volume) in [("default/a", "small"), ("default/b", "big")] {
        let claim = world.api.get_as::<PersistentVolumeClaim>(claim).unwrap();
        assert_eq!(object::volume_name(&claim), volume);
    }
}

#[tokio::test(start_paused = true)]
async fn many_volumes_for_many_waiting_claims_need_few_syncs() {
    let lines: Vec<String> =
        (0..60).map(|n| format!("pvc default/c-{n:02} uid-c-{n:02} 1Gi RWO Pending")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let world = World::new(&lines).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = event_count(&world.api);
    for n in 0..60 {
        world.api.seed(parse(&format!("pv pv-{n:02} 1Gi RWO Available")));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((pairs(&world.api), apart(&world.api)), (60, Vec::new()));
    // Every sync without a result records an event. With one offer per volume there are hardly any.
    assert!(event_count(&world.api) - before <= 10, "{} looks in vain", event_count(&world.api) - before);
}

#[tokio::test(start_paused = true)]
async fn volume_not_bound_by_its_first_claim_is_offered_to_the_next() {
    let waiting = ["pvc default/a uid-a 1Gi RWO Pending", "pvc default/b uid-b 1Gi RWO Pending"];
    let world = World::new(&waiting).await;
    // The volume is offered to a, whose write fails; a is retried after b is synced.
    world.api.fail(Fault {
        verb: "update",
        resource: "persistentvolumes",
        skip: 0,
        kind: FaultKind::Status(500, "InternalError", "on purpose"),
    });
    world.api.seed(parse("pv pv-1 1Gi RWO Available"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((pairs(&world.api), world.api.pending_faults()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn permanently_failing_write_backs_off() {
    let waiting = ["pvc default/a uid-a 1Gi RWO Pending", "pvc default/b uid-b 1Gi RWO Pending"];
    let world = World::new(&waiting).await;
    const MANY: usize = 5_000;
    for _ in 0..MANY {
        let kind = FaultKind::Status(507, "InsufficientStorage", "on purpose");
        world.api.fail(Fault { verb: "update", resource: "persistentvolumes", skip: 0, kind });
    }
    world.api.seed(parse("pv pv-1 1Gi RWO Available"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let tried = MANY - world.api.pending_faults();
    // Two claims that double their delay, starting at 5 ms, and queue each other once.
    assert!((10..200).contains(&tried), "{tried} times in a minute");
}

/// One random sequence of created, changed and deleted claims and volumes, with failing writes.
async fn history(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let pick = |rng: &mut StdRng, from: &[&str]| from[rng.random_range(0..from.len())].to_owned();
    let world = World::new(&[]).await;
    for n in 0..rng.random_range(10..60) {
        let size = pick(&mut rng, &["1Gi", "2Gi", "5Gi"]);
        let modes = pick(&mut rng, &["RWO", "RWO", "RWO,ROX"]);
        let class = pick(&mut rng, &["", "", " class=gold"]);
        match rng.random_range(0..10) {
            0..4 => {
                let phase = pick(&mut rng, &["Available", "Pending"]);
                let label = pick(&mut rng, &["", "", " label=x:y"]);
                world.api.seed(parse(&format!("pv pv-{n} {size} {modes} {phase}{class}{label}")));
            }
            4..8 => {
                let selector = pick(&mut rng, &["", "", r#" selector={"matchLabels":{"x":"y"}}"#]);
                let line = format!("pvc default/c-{n} uid-c-{n} {size} {modes} Pending{class}{selector}");
                world.api.seed(parse(&line));
            }
            8 => {
                let known = world.api.list("persistentvolumeclaims");
                if !known.is_empty() {
                    let name = known[rng.random_range(0..known.len())]["metadata"]["name"].clone();
                    let key = format!("default/{}", name.as_str().unwrap());
                    step(&world.api, &format!("delete persistentvolumeclaims {key}"));
                }
            }
            _ => {
                let resource = pick(&mut rng, &["persistentvolumes", "persistentvolumeclaims"]);
                let resource = if resource == "persistentvolumes" {
                    "persistentvolumes"
                } else {
                    "persistentvolumeclaims"
                };
                let kind = FaultKind::Status(500, "InternalError", "on purpose");
                world.api.fail(Fault { verb: "update", resource, skip: 0, kind });
            }
        }
        if rng.random_bool(0.4) {
            tokio::time::sleep(Duration::from_millis(rng.random_range(0..20))).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(apart(&world.api).is_empty(), "seed {seed}: {:?}", apart(&world.api));
    let unbound = |claim: &&PersistentVolumeClaim| object::volume_name(claim).is_empty();
    let bound = claims(&world.api).iter().filter(|claim| !unbound(claim)).count();
    assert_eq!(pairs(&world.api), bound, "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn random_histories_bind_every_claim_that_fits() {
    let first: u64 = rand::random();
    println!("seeds {first} and the 59 after it");
    for n in 0..60 {
        history(first.wrapping_add(n)).await;
    }
}
