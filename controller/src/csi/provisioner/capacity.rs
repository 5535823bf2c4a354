//! Publishes the free capacity of drivers for schedulers as CSIStorageCapacity objects: one for each segment of the cluster
//! and class (upstream: external-provisioner's capacity controller). Drivers are polled every minute, and soon after volumes
//! are created or deleted, or classes or segments change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::storage::v1::{CSIStorageCapacity, StorageClass};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::ObjectMeta;
use orlop_apimachinery::quantity::Quantity;
use orlop_client::api::Api;
use orlop_csi::capabilities::Rpc;
use orlop_csi::driver::Driver;
use orlop_csi::error::CallError;
use orlop_csi::v1;
use tokio::time::Instant;

use super::Provisioner;
use super::topology::{Cluster, Term, fnv1, segment};
use orlop_client::client::{is_already_exists, is_conflict, is_not_found};
use orlop_volume::csi::secrets::PREFIX;

/// How often drivers are polled (upstream: `--capacity-poll-interval`).
const POLL: Duration = Duration::from_secs(60);
/// How long changes are collected before drivers are polled because of them.
const CALM: Duration = Duration::from_secs(1);
/// Concurrent calls to one driver.
const AT_ONCE: usize = 4;
/// The labels that identify the objects, for upstream's controller and this one.
const LABEL_DRIVER: &str = "csi.storage.k8s.io/drivername";
const LABEL_MANAGED: &str = "csi.storage.k8s.io/managed-by";
const MANAGED: &str = "orlop";
/// The namespace of the objects. It has no meaning of its own: capacity does not depend on namespaces.
const NAMESPACE: &str = "kube-system";

/// The capacity published for one segment and class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SegmentCapacity {
    pub(super) class: String,
    /// None for a driver without topology.
    pub(super) segment: Option<Term>,
    pub(super) bytes: i64,
    pub(super) largest: Option<i64>,
}

/// The object for a capacity. Its name is derived from segment and class, so that it can be found again.
pub(super) fn object(driver: &str, room: &SegmentCapacity) -> CSIStorageCapacity {
    let about = format!("{driver}\n{}\n{:?}", room.class, room.segment);
    // Two hashes: 32 bits are too few for names. They differ at the beginning, not at the end: with a suffix, both would
    // collide together.
    let (first, second) = (fnv1(about.as_bytes()), fnv1(format!("\n{about}").as_bytes()));
    let text = |bytes: i64| Text(Quantity::from_bytes(bytes.max(0)).to_string());
    let labels = [(LABEL_DRIVER, driver), (LABEL_MANAGED, MANAGED)];
    CSIStorageCapacity {
        metadata: ObjectMeta {
            name: Some(format!("csisc-{first:08x}{second:08x}")),
            namespace: Some(NAMESPACE.to_owned()),
            labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()),
            ..Default::default()
        },
        capacity: Some(text(room.bytes)),
        maximum_volume_size: room.largest.map(text),
        // An empty selector matches all nodes; a missing one matches none.
        node_topology: Some(LabelSelector {
            match_labels: room.segment.clone().filter(|segment| !segment.is_empty()),
            match_expressions: None,
        }),
        storage_class_name: room.class.clone(),
    }
}

/// The writes after which the server has exactly these objects of ours.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    pub(super) create: Vec<CSIStorageCapacity>,
    pub(super) replace: Vec<CSIStorageCapacity>,
    pub(super) delete: Vec<CSIStorageCapacity>,
}

/// Compares. `kept` selects the objects whose capacity is currently unknown.
pub(super) fn changes(
    wanted: Vec<CSIStorageCapacity>,
    there: Vec<CSIStorageCapacity>,
    kept: impl Fn(&CSIStorageCapacity) -> bool,
) -> Changes {
    let mut there: BTreeMap<String, CSIStorageCapacity> =
        there.into_iter().map(|one| (one.metadata.name.clone().unwrap_or_default(), one)).collect();
    let mut changes = Changes::default();
    for mut object in wanted {
        match there.remove(object.metadata.name.as_deref().unwrap_or_default()) {
            None => changes.create.push(object),
            Some(old) => {
                let same = (&old.capacity, &old.maximum_volume_size)
                    == (&object.capacity, &object.maximum_volume_size);
                if !same {
                    object.metadata = old.metadata;
                    changes.replace.push(object);
                }
            }
        }
    }
    changes.delete = there.into_values().filter(|object| !kept(object)).collect();
    changes
}

impl Provisioner {
    /// Publishes forever. Each driver has its own rounds, so that a hanging driver does not delay the others (I12).
    pub(super) async fn publish_capacity(&self) {
        if !self.options.csi_enable_capacity {
            return std::future::pending().await;
        }
        let mut rounds = FuturesUnordered::new();
        // Drivers with a running round, and whether another one is due after it.
        let mut busy: BTreeMap<String, bool> = BTreeMap::new();
        let mut due = Instant::now();
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(due) => {
                    due = Instant::now() + POLL;
                    for driver in self.drivers.all() {
                        match busy.get_mut(driver.name()) {
                            Some(again) => *again = true,
                            None => {
                                busy.insert(driver.name().to_owned(), false);
                                rounds.push(self.round(driver));
                            }
                        }
                    }
                }
                () = self.capacity_changed.notified() => due = due.min(Instant::now() + CALM),
                Some(name) = rounds.next(), if !rounds.is_empty() => {
                    if busy.remove(&name) == Some(true)
                        && let Some(driver) = self.drivers.get(&name)
                    {
                        busy.insert(name, false);
                        rounds.push(self.round(driver));
                    }
                }
            }
        }
    }

    /// One round of a driver. Returns its name.
    async fn round(&self, driver: Driver) -> String {
        if driver.can().can(Rpc::GetCapacity)
            && let Err(error) = self.publish_for(&driver).await
        {
            tracing::debug!(driver = driver.name(), %error, "capacity is not published");
        }
        driver.name().to_owned()
    }

    async fn publish_for(&self, driver: &Driver) -> Result<(), kube::Error> {
        let segments: Vec<Option<Term>> = if driver.can().has_topology() {
            let cluster = self.segments.of(driver.name());
            let terms = cluster.keys().map(|keys| cluster.terms(&keys)).unwrap_or_default();
            terms.into_iter().map(Some).collect()
        } else {
            vec![None]
        };
        let classes = self.classes.kept().into_iter().map(|kept| kept.get());
        let classes: Vec<_> = classes.filter(|class| class.provisioner == driver.name()).collect();
        let classes = classes.iter();
        let questions = classes.flat_map(|class| segments.iter().map(move |segment| (class, segment)));
        let questions: Vec<_> = questions.collect();
        let mut asked = Vec::with_capacity(questions.len());
        for (class, segment) in &questions {
            asked.push(room(driver, class, (*segment).clone()));
        }
        let mut answers = futures::stream::iter(asked).buffered(AT_ONCE);
        let (mut wanted, mut known) = (Vec::new(), BTreeSet::new());
        // In order, until the driver becomes unreachable.
        for (class, segment) in &questions {
            match answers.next().await {
                Some(Ok(room)) => {
                    known.insert((class_name(class), (*segment).clone()));
                    wanted.push(object(driver.name(), &room));
                }
                // Only this call has no answer.
                Some(Err(error)) if !error.is_uncertain() => {}
                // The driver is unreachable or too slow: every further call would take as long.
                Some(Err(_)) | None => break,
            }
        }
        drop(answers);
        // Without an answer the previous value stays: a slightly wrong capacity is better than none.
        let unknown: Vec<_> = questions
            .into_iter()
            .map(|(class, segment)| (class_name(class), segment.clone()))
            .filter(|question| !known.contains(question))
            .map(|(class, segment)| {
                object(driver.name(), &SegmentCapacity { class, segment, bytes: 0, largest: None })
                    .metadata
                    .name
            })
            .collect();
        let api: Api<CSIStorageCapacity> = Api::namespaced(self.client.clone(), NAMESPACE);
        let ours = format!("{LABEL_DRIVER}={},{LABEL_MANAGED}={MANAGED}", driver.name());
        let there = api.list(&ListParams::default().labels(&ours)).await?.items;
        let changes = changes(wanted, there, |object| unknown.contains(&object.metadata.name));
        for object in changes.create {
            let made = api.create(&PostParams::default(), &object).await;
            made.map(drop).or_else(|error| if is_already_exists(&error) { Ok(()) } else { Err(error) })?;
        }
        for object in changes.replace {
            let name = object.metadata.name.clone().unwrap_or_default();
            let written = api.replace(&name, &PostParams::default(), &object).await;
            let lost = |error: &kube::Error| is_conflict(error) || is_not_found(error);
            written.map(drop).or_else(|error| if lost(&error) { Ok(()) } else { Err(error) })?;
        }
        for object in changes.delete {
            let preconditions = Preconditions {
                uid: object.metadata.uid.clone(),
                resource_version: object.metadata.resource_version.clone(),
            };
            let only = DeleteParams { preconditions: Some(preconditions), ..Default::default() };
            let gone = api.delete(&object.metadata.name.unwrap_or_default(), &only).await;
            let lost = |error: &kube::Error| is_conflict(error) || is_not_found(error);
            gone.map(drop).or_else(|error| if lost(&error) { Ok(()) } else { Err(error) })?;
        }
        Ok(())
    }
}

/// The name of a class.
fn class_name(class: &StorageClass) -> String {
    class.metadata.name.clone().unwrap_or_default()
}

/// Asks a driver for one capacity.
async fn room(
    driver: &Driver,
    class: &StorageClass,
    term: Option<Term>,
) -> Result<SegmentCapacity, CallError> {
    let parameters = class.parameters.iter().flatten().filter(|(key, _)| !key.starts_with(PREFIX));
    let request = v1::GetCapacityRequest {
        volume_capabilities: Vec::new(),
        parameters: parameters.map(|(key, value)| (key.clone(), value.clone())).collect(),
        accessible_topology: term.as_ref().map(segment),
    };
    let class = class_name(class);
    match driver.get_capacity(request).await {
        Ok(answer) => Ok(SegmentCapacity {
            class,
            segment: term,
            bytes: answer.available_capacity,
            largest: answer.maximum_volume_size,
        }),
        Err(error) => {
            tracing::debug!(driver = driver.name(), class, %error, "the driver does not report its capacity");
            Err(error)
        }
    }
}
