//! The servers of API groups, by group and version.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_api::object::Object;
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use serde_json::Value;

use super::condition::{Availability, Checked, ServicePort, is_available};
use crate::client_identity::ClientIdentity;
use crate::registry::api_service;
use crate::{https, insight};

/// The groups that only this server serves: the group without a name, the group of APIServices, and the group of orlop's own resources. If
/// another server had the group of APIServices, it would receive the requests that delete its APIService.
const OWN_GROUPS: [&str; 3] = ["", api_service::GROUP, insight::GROUP];

/// The server of one version of a group, as its APIService describes it.
#[derive(Clone, Debug)]
pub(crate) struct RemoteService {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) service: ServicePort,
    /// The authorities of the server's certificate, PEM; empty for those of the system.
    ca_bundle: Vec<u8>,
    /// Whether any certificate is accepted.
    is_insecure: bool,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
    /// Whether the condition `Available` is true.
    pub(crate) is_available: bool,
    /// Host and port, if an endpoint is ready.
    pub(crate) address: Option<(String, u16)>,
    /// The resources of the version in the form of aggregated discovery, from the last check that read a valid list.
    pub(crate) resources: Arc<Vec<Value>>,
    /// Whether the last check passed and read `resources`.
    pub(crate) is_current: bool,
    /// Whether the last check has found an OpenAPI v3 document of the version.
    pub(crate) has_openapi: bool,
    /// Built at the first connection.
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl RemoteService {
    /// The server that an APIService names; `None` for the groups that only this server serves.
    pub(super) fn of(object: &Object) -> Option<Self> {
        let service = object.at(&["spec", "service"]).filter(|service| service.is_object())?;
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let spec = object.at(&["spec"])?;
        let (group, version) = (text(spec, "group"), text(spec, "version"));
        if OWN_GROUPS.contains(&group.as_str()) {
            return None;
        }
        Some(RemoteService {
            group,
            version,
            service: ServicePort {
                namespace: text(service, "namespace"),
                name: text(service, "name"),
                port: service["port"].as_u64().and_then(|port| port.try_into().ok()).unwrap_or(443),
            },
            ca_bundle: STANDARD.decode(text(spec, "caBundle")).unwrap_or_default(),
            is_insecure: spec["insecureSkipTLSVerify"] == true,
            group_priority: spec["groupPriorityMinimum"].as_i64().unwrap_or_default(),
            version_priority: spec["versionPriority"].as_i64().unwrap_or_default(),
            is_available: is_available(object),
            address: None,
            resources: Arc::default(),
            is_current: false,
            has_openapi: false,
            tls: OnceLock::new(),
        })
    }

    /// The same server after a check. Without a list, it has the resources of the last one, which may have changed.
    ///
    /// Upstream: kube-aggregator `pkg/apiserver/handler_discovery.go`.
    pub(super) fn checked(&self, checked: Checked) -> Self {
        let Checked { availability, resources, has_openapi } = checked;
        let is_available = matches!(availability, Availability::Passed);
        let is_current = is_available && resources.is_some();
        let resources = resources.map_or_else(|| self.resources.clone(), Arc::new);
        RemoteService { is_available, resources, is_current, has_openapi, ..self.clone() }
    }

    /// This server with the results of the checks of `former`, a former state of the same version. The results for another target are
    /// obsolete, except for the last list of resources.
    pub(super) fn following(self, former: &Arc<RemoteService>) -> Arc<Self> {
        let resources = former.resources.clone();
        let next = match self.has_same_target(former) {
            true => RemoteService {
                is_available: former.is_available,
                is_current: former.is_current,
                has_openapi: former.has_openapi,
                resources,
                ..self
            },
            false => RemoteService { resources, ..self },
        };
        // An unchanged server keeps the settings of its connections.
        if **former == next { former.clone() } else { Arc::new(next) }
    }

    /// Whether a check of the other would send the same request to the same server. The result of a check, which becomes part of the
    /// APIService, does not lead to another check.
    pub(super) fn has_same_target(&self, other: &Self) -> bool {
        let RemoteService { group, version, service, ca_bundle, is_insecure, address, .. } = self;
        (group, version, service, ca_bundle)
            == (&other.group, &other.version, &other.service, &other.ca_bundle)
            && (is_insecure, address) == (&other.is_insecure, &other.address)
    }

    /// The path of the version's resource list.
    pub(super) fn path(&self) -> String {
        format!("/apis/{}/{}", self.group, self.version)
    }

    /// The name of the version's OpenAPI v3 document.
    pub(crate) fn openapi_name(&self) -> String {
        format!("apis/{}/{}", self.group, self.version)
    }

    /// The name in the server's certificate.
    pub(super) fn server_name(&self) -> String {
        format!("{}.{}.svc", self.service.name, self.service.namespace)
    }

    /// The settings of connections to the server.
    ///
    /// # Errors
    /// The certificates of the APIService contain no usable authority.
    pub(super) fn tls(&self, identity: Option<&Arc<ClientIdentity>>) -> Result<Arc<ClientConfig>, String> {
        let build = || {
            let client =
                identity.map(|identity| identity.clone() as Arc<dyn rustls::client::ResolvesClientCert>);
            match self.is_insecure {
                true => https::unverified_config(client),
                false => https::config_with(&self.ca_bundle, client),
            }
        };
        self.tls.get_or_init(build).clone()
    }
}

impl PartialEq for RemoteService {
    /// Compares everything except the settings of connections, which follow from the rest.
    fn eq(&self, other: &Self) -> bool {
        let RemoteService {
            group,
            version,
            service,
            ca_bundle,
            is_insecure,
            group_priority,
            version_priority,
            is_available,
            address,
            resources,
            is_current,
            has_openapi,
            tls: _,
        } = self;
        (group, version, service, ca_bundle)
            == (&other.group, &other.version, &other.service, &other.ca_bundle)
            && (is_insecure, group_priority, version_priority)
                == (&other.is_insecure, &other.group_priority, &other.version_priority)
            && (is_available, address) == (&other.is_available, &other.address)
            && (resources, is_current, has_openapi)
                == (&other.resources, &other.is_current, &other.has_openapi)
    }
}

/// All servers.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Remotes(BTreeMap<String, BTreeMap<String, Arc<RemoteService>>>);

impl Remotes {
    /// These servers.
    pub(super) fn of(services: impl IntoIterator<Item = Arc<RemoteService>>) -> Self {
        let mut remotes = Remotes::default();
        for service in services {
            let versions = remotes.0.entry(service.group.clone()).or_default();
            versions.insert(service.version.clone(), service);
        }
        remotes
    }

    /// Whether this server serves all groups itself.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The server of a version.
    pub(crate) fn get(&self, group: &str, version: &str) -> Option<&Arc<RemoteService>> {
        self.0.get(group)?.get(version)
    }

    /// The server of a path: below `/apis/GROUP/VERSION`, or the OpenAPI v3 document of a version.
    pub(super) fn of_path(&self, path: &str) -> Option<Arc<RemoteService>> {
        let decoded = percent_decode_str(path).decode_utf8().ok()?;
        if let Some(name) = decoded.strip_prefix("/openapi/v3/") {
            let name = name.strip_suffix('/').unwrap_or(name);
            return self.with_openapi().find(|remote| remote.openapi_name() == name).cloned();
        }
        let mut segments = decoded.strip_prefix("/apis/")?.split('/');
        self.get(segments.next()?, segments.next()?).cloned()
    }

    /// The servers with an OpenAPI v3 document of their version.
    pub(crate) fn with_openapi(&self) -> impl Iterator<Item = &Arc<RemoteService>> {
        self.0.values().flat_map(BTreeMap::values).filter(|remote| remote.has_openapi)
    }

    /// The priority of a group; `None` if no other server has it.
    pub(crate) fn priority(&self, group: &str) -> Option<i64> {
        self.0.get(group)?.values().map(|one| one.group_priority).max()
    }

    /// The groups with their versions, the preferred one first; groups of a higher priority are first.
    pub(crate) fn groups(&self) -> Vec<RemoteGroup<'_>> {
        let mut groups: Vec<RemoteGroup<'_>> = self
            .0
            .iter()
            .map(|(name, versions)| {
                let mut versions: Vec<&RemoteService> = versions.values().map(|one| &**one).collect();
                let order = |one: &RemoteService| std::cmp::Reverse(one.version_priority);
                versions.sort_by(|a, b| {
                    order(a)
                        .cmp(&order(b))
                        .then_with(|| orlop_apimachinery::version::version_order(&a.version, &b.version))
                });
                let priority = versions.iter().map(|one| one.group_priority).max().unwrap_or_default();
                let versions = versions.into_iter().map(|one| one.version.as_str()).collect();
                RemoteGroup { name, versions, priority }
            })
            .collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.priority));
        groups
    }
}

/// A group in discovery.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RemoteGroup<'a> {
    pub(crate) name: &'a str,
    pub(crate) versions: Vec<&'a str>,
    /// The highest `groupPriorityMinimum` of the versions.
    pub(crate) priority: i64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(group: &str, version: &str, priorities: (i64, i64)) -> Arc<RemoteService> {
        let object = Object::from_value(json!({"spec": {
            "group": group, "version": version, "groupPriorityMinimum": priorities.0,
            "versionPriority": priorities.1, "service": {"namespace": "n", "name": "s"},
        }}));
        Arc::new(RemoteService::of(&object).expect("a server"))
    }

    #[test]
    fn only_api_services_with_a_service_and_a_group_are_remote() {
        for (case, spec, want) in [
            ("1 local", json!({"group": "g", "version": "v1"}), false),
            ("2 null", json!({"group": "g", "version": "v1", "service": null}), false),
            (
                "3 without a group",
                json!({"version": "v1", "service": {"namespace": "n", "name": "s"}}),
                false,
            ),
            (
                "4 the group of APIServices",
                json!({"group": "apiregistration.k8s.io", "version": "v1", "service": {"namespace": "n", "name": "s"}}),
                false,
            ),
            (
                "5 the own group",
                json!({"group": "orlop.dev", "version": "v1", "service": {"namespace": "n", "name": "s"}}),
                false,
            ),
            (
                "6 remote",
                json!({"group": "g", "version": "v1", "service": {"namespace": "n", "name": "s"}}),
                true,
            ),
        ] {
            let found = RemoteService::of(&Object::from_value(json!({"spec": spec})));
            assert_eq!(found.is_some(), want, "{case}");
        }
    }

    #[test]
    fn only_changes_of_the_target_lead_to_a_check() {
        let spec = json!({"group": "g", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
            "service": {"namespace": "n", "name": "s", "port": 443}});
        let of = |path: &[&str], value: Value| {
            let mut object = Object::from_value(json!({"spec": spec}));
            if !path.is_empty() {
                object.set(path, value);
            }
            RemoteService::of(&object).expect("a server")
        };
        let condition = |reason: &str| json!([{"type": "Available", "status": "True", "reason": reason}]);
        for (case, path, value, want) in [
            ("1 the condition", &["status", "conditions"][..], condition("Passed"), true),
            ("2 an annotation", &["metadata", "annotations"][..], json!({"a": "b"}), true),
            ("3 a priority", &["spec", "versionPriority"][..], json!(7), true),
            ("4 the Service", &["spec", "service", "name"][..], json!("other"), false),
            ("5 the port", &["spec", "service", "port"][..], json!(8443), false),
            ("6 the authority", &["spec", "caBundle"][..], json!("AAAA"), false),
            ("7 any certificate", &["spec", "insecureSkipTLSVerify"][..], json!(true), false),
        ] {
            assert_eq!(of(&[], Value::Null).has_same_target(&of(path, value)), want, "{case}");
        }
        let (here, there) = (of(&[], Value::Null), of(&[], Value::Null));
        let there = RemoteService { address: Some(("10.0.0.1".to_owned(), 443)), ..there };
        assert!(!here.has_same_target(&there), "8 the address");
    }

    fn checked(is_available: bool, resources: Option<Vec<Value>>) -> Checked {
        let failed = || Availability::Failed("no response".to_owned());
        let availability = if is_available { Availability::Passed } else { failed() };
        Checked { availability, resources, has_openapi: is_available }
    }

    /// The availability, whether the resources are current, and their number.
    fn state(service: &RemoteService) -> (bool, bool, usize) {
        (service.is_available, service.is_current, service.resources.len())
    }

    #[test]
    fn resources_of_the_last_list_stay() {
        let list = |names: &[&str]| Some(names.iter().map(|name| json!({"resource": name})).collect());
        let mut service = RemoteService::clone(&service("g", "v1", (1, 1)));
        assert_eq!(state(&service), (false, false, 0));
        for (case, is_available, resources, want) in [
            ("1 an invalid list", true, None, (true, false, 0)),
            ("2 a list", true, list(&["apes"]), (true, true, 1)),
            ("3 no response", false, None, (false, false, 1)),
            ("4 an invalid list again", true, None, (true, false, 1)),
            ("5 another list", true, list(&["apes", "bees"]), (true, true, 2)),
            ("6 an empty list", true, list(&[]), (true, true, 0)),
        ] {
            service = service.checked(checked(is_available, resources));
            assert_eq!(state(&service), want, "{case}");
        }
    }

    #[test]
    fn results_of_checks_stay_with_the_target() {
        let new = |address: &str, is_available| RemoteService {
            address: Some((address.to_owned(), 443)),
            is_available,
            ..RemoteService::clone(&service("g", "v1", (1, 1)))
        };
        let former =
            Arc::new(new("10.0.0.1", true).checked(checked(true, Some(vec![json!({"resource": "apes"})]))));
        let failed = Arc::new(former.checked(checked(false, None)));
        for (case, former, next, want) in [
            ("1 the same, condition not written yet", &former, new("10.0.0.1", false), (true, true, 1)),
            ("2 another address", &former, new("10.0.0.2", true), (true, false, 1)),
            ("3 failed, condition not written yet", &failed, new("10.0.0.1", true), (false, false, 1)),
        ] {
            assert_eq!(state(&next.following(former)), want, "{case}");
        }
        assert!(Arc::ptr_eq(&new("10.0.0.1", true).following(&former), &former), "4 unchanged");
    }

    #[test]
    fn paths_below_a_version_belong_to_its_server() {
        let described = RemoteService::clone(&service("c.example", "v1", (100, 1)));
        let described = Arc::new(described.checked(checked(true, None)));
        let remotes = Remotes::of([service("a.example", "v1", (100, 1)), described]);
        for (path, want) in [
            ("/openapi/v3/apis/c.example/v1", true),
            ("/openapi/v3/apis/c.example/v1/", true),
            ("/openapi/v3/apis/c.example/v1/things", false),
            ("/openapi/v3/apis/c.example", false),
            ("/openapi/v3/apis/a.example/v1", false),
            ("/openapi/v3", false),
            ("/apis/a.example/v1", true),
            ("/apis/a.example/v1/", true),
            ("/apis/a.example/v1/namespaces/n/things/x", true),
            ("/apis/a%2Eexample/v1/things", true),
            ("/apis/a.example/v1beta1", false),
            ("/apis/a.example", false),
            ("/apis/b.example/v1", false),
            ("/api/v1", false),
            ("/", false),
        ] {
            assert_eq!(remotes.of_path(path).is_some(), want, "{path}");
        }
    }

    #[test]
    fn priorities_order_groups_and_versions() {
        let remotes = Remotes::of([
            service("low.example", "v1", (100, 1)),
            service("high.example", "v1alpha1", (2000, 5)),
            service("high.example", "v1", (100, 5)),
            service("high.example", "v2", (100, 9)),
        ]);
        let found: Vec<_> =
            remotes.groups().into_iter().map(|one| (one.name, one.versions, one.priority)).collect();
        let want = [("high.example", vec!["v2", "v1", "v1alpha1"], 2000), ("low.example", vec!["v1"], 100)];
        assert_eq!(found, want);
    }
}
