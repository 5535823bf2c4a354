//! Finds the flow schema of a request.
//!
//! Schemas are compared in the order of their precedence. The first comparison is that of the subjects. The other attributes of a
//! request are computed only if a schema needs them, and are then part of the request, so that authorization does not compute them
//! again.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use axum::extract::Request;
use orlop_api::registry::flow_control::bootstrap::{BootstrapObject, flow_schemas, priority_levels};
use orlop_auth::UserInfo;
use orlop_auth::request_info::{RequestInfo, RequestTarget};
use parking_lot::Mutex;
use prometheus::Registry;

use super::flow::Flow;
use super::follow::FlowObjects;
use super::levels::{PriorityLevel, divide, nominal};
use super::matching::{Distinguisher, FlowUser, Schema};
use super::metrics::FlowMetrics;
use crate::limits::client;
use crate::limits::fair_queue::{Bounds, Client};
use crate::limits::level_pool::{LevelBounds, LevelConfig, LevelId};

/// The schema and the level that exist in every cluster, for requests that no other schema matches.
pub(super) const CATCH_ALL: &str = "catch-all";
/// The schema of the metrics of a server without classification.
const GLOBAL_DEFAULT: &str = "global-default";
/// Maximum number of levels: each has permits of its own.
pub(super) const LEVELS_MAX: usize = 200;
/// Maximum number of rules that a request is compared with.
pub(super) const RULES_MAX: usize = 2_000;

/// The permits of both classes of requests; `usize::MAX` is no limit.
#[derive(Clone, Copy, Debug)]
pub(in crate::limits) struct ClassPermits {
    pub(in crate::limits) reads: usize,
    pub(in crate::limits) writes: usize,
}

/// The levels of both classes of requests, and the schemas.
pub(in crate::limits) struct FlowPlan {
    pub(in crate::limits) reads: Vec<LevelConfig>,
    pub(in crate::limits) writes: Vec<LevelConfig>,
    index: Index,
}

/// The flow of a request.
pub(in crate::limits) struct Classified {
    pub(in crate::limits) flow: Arc<Flow>,
    pub(in crate::limits) client: Client,
    /// The requests that share a queue in the level.
    pub(in crate::limits) queue: Client,
    /// If the schemas needed it, and the request does not have it yet.
    pub(in crate::limits) info: Option<Arc<RequestInfo>>,
}

/// The classification of requests.
pub(in crate::limits) struct FlowControl {
    index: ArcSwap<Index>,
    levels: Mutex<LevelIds>,
    pub(in crate::limits) metrics: FlowMetrics,
    permits: ClassPermits,
    /// Without it, every client without credentials is an administrator, and none of them is exempt.
    requires_credentials: bool,
}

/// The schemas in the order of their precedence.
struct Index {
    schemas: Vec<(Arc<Schema>, Arc<Flow>)>,
    /// If no schema matches.
    last: Arc<Flow>,
}

/// The numbers of the levels by their names.
struct LevelIds {
    ids: BTreeMap<String, LevelId>,
    next: u64,
}

impl LevelIds {
    /// The number of each of these levels, and the levels that no longer exist. A level that is created again has another number.
    fn renew<'l>(
        &mut self,
        names: impl Iterator<Item = &'l str>,
    ) -> (BTreeMap<String, LevelId>, Vec<String>) {
        let mut ids = BTreeMap::new();
        for name in names {
            let id = self.ids.get(name).copied().unwrap_or_else(|| {
                self.next += 1;
                LevelId(self.next)
            });
            ids.insert(name.to_owned(), id);
        }
        let before = std::mem::replace(&mut self.ids, ids.clone());
        let gone = before.into_keys().filter(|name| !ids.contains_key(name)).collect();
        (ids, gone)
    }
}

impl FlowControl {
    /// Classification by the schemas of every cluster, until others are published. Without `is_enabled`, all requests have the
    /// same level.
    pub(in crate::limits) fn new(
        registry: &Registry,
        permits: ClassPermits,
        is_enabled: bool,
        requires_credentials: bool,
    ) -> Result<(Self, FlowPlan), prometheus::Error> {
        let metrics = FlowMetrics::new(registry)?;
        let last = Flow::new(
            GLOBAL_DEFAULT,
            GLOBAL_DEFAULT,
            LevelId::FALLBACK,
            Some(Distinguisher::User),
            None,
            metrics.of(GLOBAL_DEFAULT, GLOBAL_DEFAULT),
        );
        let index = Index { schemas: Vec::new(), last: last.clone() };
        let levels = LevelIds { ids: [(CATCH_ALL.to_owned(), LevelId::FALLBACK)].into(), next: 0 };
        let control = FlowControl {
            index: ArcSwap::from_pointee(index),
            levels: Mutex::new(levels),
            metrics,
            permits,
            requires_credentials,
        };
        let plan = if is_enabled {
            control.plan(&bootstrap())
        } else {
            let sole = |permits: usize| LevelConfig {
                id: LevelId::FALLBACK,
                name: Arc::from(GLOBAL_DEFAULT),
                bounds: LevelBounds::sole(Bounds::of_permits(permits)),
            };
            let index = Index { schemas: Vec::new(), last };
            FlowPlan { reads: vec![sole(permits.reads)], writes: vec![sole(permits.writes)], index }
        };
        Ok((control, plan))
    }

    /// The levels and the schemas of these objects.
    pub(in crate::limits) fn plan(&self, objects: &FlowObjects) -> FlowPlan {
        let levels = chosen_levels(objects);
        let (ids, gone) = self.levels.lock().renew(levels.iter().map(|level| level.name.as_str()));
        for level in &gone {
            self.metrics.forget_level(level);
        }
        let configs = |permits: usize| -> Vec<LevelConfig> {
            let divided = divide(&levels, permits);
            let named = levels.iter().filter_map(|level| Some((ids.get(&level.name)?, level.name.as_str())));
            let config = |((id, name), bounds): ((&LevelId, &str), LevelBounds)| LevelConfig {
                id: *id,
                name: Arc::from(name),
                bounds,
            };
            named.zip(divided).map(config).collect()
        };
        for (name, permits) in nominal(&levels, &[self.permits.reads, self.permits.writes]) {
            self.metrics.set_nominal(name, permits);
        }
        let flow = |schema: &Schema| {
            let level = levels.iter().find(|level| level.name == schema.level)?;
            let id = *ids.get(&level.name)?;
            let uids = (!schema.uid.is_empty()).then_some((schema.uid.as_str(), level.uid.as_str()));
            let metrics = self.metrics.of(&schema.name, &level.name);
            Some(Flow::new(&schema.name, &level.name, id, schema.method, uids, metrics))
        };
        let fallback = || Arc::new(Schema::of(&mandatory(flow_schemas())));
        let catch_all = objects.schemas.get(CATCH_ALL).cloned().unwrap_or_else(fallback);
        let schemas = chosen_schemas(objects, &levels);
        let schemas: Vec<_> =
            schemas.into_iter().filter_map(|schema| Some((schema.clone(), flow(&schema)?))).collect();
        let last = flow(&catch_all).unwrap_or_else(|| self.index.load().last.clone());
        FlowPlan {
            reads: configs(self.permits.reads),
            writes: configs(self.permits.writes),
            index: Index { schemas, last },
        }
    }

    /// Classifies later requests by this plan.
    pub(in crate::limits) fn publish(&self, plan: FlowPlan) {
        let names = |index: &Index| -> BTreeSet<(String, String)> {
            let flows = index.schemas.iter().map(|(_, flow)| flow).chain([&index.last]);
            flows.map(|flow| (flow.schema.clone(), flow.level_name.clone())).collect()
        };
        let current = names(&plan.index);
        let before = self.index.swap(Arc::new(plan.index));
        for (schema, level) in names(&before).difference(&current) {
            self.metrics.forget_schema(schema, level);
        }
    }

    /// The flow of a request.
    pub(in crate::limits) fn classify(&self, request: &Request) -> Classified {
        static LOCAL: LazyLock<Vec<String>> = LazyLock::new(|| vec!["system:authenticated".to_owned()]);
        let user = request.extensions().get::<UserInfo>();
        let user = match user {
            Some(user) if self.requires_credentials || user.username != UserInfo::ADMIN => {
                FlowUser { name: &user.username, groups: &user.groups }
            }
            Some(_) | None => FlowUser { name: UserInfo::ADMIN, groups: &LOCAL },
        };
        let computed = OnceCell::new();
        // The audit log may have computed them.
        let known = request.extensions().get::<Arc<RequestInfo>>();
        let info = || match known {
            Some(info) => &**info,
            None => &**computed.get_or_init(|| Arc::new(RequestInfo::of_request(request))),
        };
        let path = request.uri().path();
        let is_resource = match path.contains('%') {
            true => matches!(info().target, RequestTarget::Resource(_)),
            false => RequestInfo::is_resource_path(path),
        };
        let index = self.index.load();
        let found = index.schemas.iter().find(|(schema, _)| schema.matches(&user, is_resource, &info));
        let flow = found.map_or(&index.last, |(_, flow)| flow).clone();
        let client = client::client(request);
        let queue = match flow.method {
            Some(Distinguisher::User) => client,
            Some(Distinguisher::Namespace) => client::of_flow(&flow.schema, namespace(info())),
            None => client::of_flow(&flow.schema, ""),
        };
        Classified { flow, client, queue, info: computed.into_inner() }
    }
}

/// The namespace of a request; empty if there is none.
pub(super) fn namespace(info: &RequestInfo) -> &str {
    match &info.target {
        RequestTarget::Resource(at) => &at.namespace,
        RequestTarget::Path(_) => "",
    }
}

/// The objects of every cluster.
pub(super) fn bootstrap() -> FlowObjects {
    let levels = priority_levels().into_iter().map(|level| PriorityLevel::of(&level.object));
    let schemas = flow_schemas().into_iter().map(|schema| Arc::new(Schema::of(&schema.object)));
    FlowObjects {
        levels: levels.map(|level| (level.name.clone(), level)).collect(),
        schemas: schemas.map(|schema| (schema.name.clone(), schema)).collect(),
    }
}

/// The object of the name [`CATCH_ALL`].
fn mandatory(objects: Vec<BootstrapObject>) -> serde_json::Value {
    let found = objects.into_iter().find(|object| object.object["metadata"]["name"] == CATCH_ALL);
    found.map(|object| object.object).unwrap_or_default()
}

/// At most [`LEVELS_MAX`] levels; the first is `catch-all`.
pub(super) fn chosen_levels(objects: &FlowObjects) -> Vec<PriorityLevel> {
    let catch_all = objects.levels.get(CATCH_ALL).cloned();
    let catch_all = catch_all.unwrap_or_else(|| PriorityLevel::of(&mandatory(priority_levels())));
    let others = objects.levels.values().filter(|level| level.name != CATCH_ALL);
    let mut levels: Vec<_> = std::iter::once(catch_all).chain(others.cloned()).collect();
    if levels.len() > LEVELS_MAX {
        tracing::warn!(levels = levels.len(), "only the first {LEVELS_MAX} priority levels take effect");
        // The levels of every cluster come first, then those of users by name.
        let own = names_of(priority_levels());
        levels.sort_by_key(|level| (level.name != CATCH_ALL, !own.contains(&level.name)));
        levels.truncate(LEVELS_MAX);
    }
    levels
}

/// The schemas whose level exists, in the order of their precedence and name, with at most [`RULES_MAX`] rules together. A schema that
/// does not fit is left out. The schemas of every cluster are counted first, so that no other schema can displace them.
pub(super) fn chosen_schemas(objects: &FlowObjects, levels: &[PriorityLevel]) -> Vec<Arc<Schema>> {
    let names: BTreeSet<&str> = levels.iter().map(|level| level.name.as_str()).collect();
    let exists = |schema: &&Arc<Schema>| names.contains(schema.level.as_str());
    let mut schemas: Vec<_> = objects.schemas.values().filter(exists).cloned().collect();
    schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
    let own = names_of(flow_schemas());
    let (first, then): (Vec<_>, Vec<_>) = schemas.iter().partition(|schema| own.contains(&schema.name));
    let mut rules = 0;
    let mut too_many = BTreeSet::new();
    for schema in first.into_iter().chain(then) {
        let cost = schema.cost();
        match rules + cost <= RULES_MAX {
            true => rules += cost,
            false => _ = too_many.insert(schema.name.clone()),
        }
    }
    if !too_many.is_empty() {
        tracing::warn!(
            ignored = too_many.len(),
            "FlowSchemas are ignored: all together may have {RULES_MAX} rules and URLs; delete some, or give them fewer rules"
        );
        schemas.retain(|schema| !too_many.contains(&schema.name));
    }
    schemas
}

/// The names of objects of every cluster.
fn names_of(objects: Vec<BootstrapObject>) -> BTreeSet<String> {
    let name = |object: BootstrapObject| object.object["metadata"]["name"].as_str().map(str::to_owned);
    objects.into_iter().filter_map(name).collect()
}
