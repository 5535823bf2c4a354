//! Discovery of the resources that the garbage collector and the namespace controller delete: the preferred
//! version of every group.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use kube::core::ApiResource;

use orlop_client::client::message_of;

/// A resource that the server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// The verbs that the resource supports.
    pub verbs: Vec<String>,
}

impl Served {
    /// Whether the resource supports `verb`.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }
}

/// The result of a discovery. A group that fails does not hide the others.
#[derive(Debug, Default)]
pub struct Discovered {
    /// All resources without subresources.
    pub served: Vec<Served>,
    /// The groups that cannot be discovered now.
    pub failures: Vec<DiscoveryFailure>,
}

/// A group that cannot be discovered now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveryFailure {
    /// The group; empty for the core group, `None` for all others because their list cannot be read.
    pub group: Option<String>,
    /// `group/version: why`.
    pub text: String,
}

/// Discovers all resources that the server serves.
pub async fn discover(client: &Client) -> Discovered {
    let mut found = Discovered::default();
    found.add("", "v1", client.list_core_api_resources("v1").await);
    let groups = match client.list_api_groups().await {
        Ok(list) => list.groups,
        Err(error) => {
            let text = format!("API groups: {}", message_of(&error));
            found.failures.push(DiscoveryFailure { group: None, text });
            return found;
        }
    };
    for group in groups {
        let preferred = group.preferred_version.or_else(|| group.versions.into_iter().next());
        if let Some(version) = preferred {
            let list = client.list_api_group_resources(&version.group_version).await;
            found.add(&group.name, &version.group_version, list);
        }
    }
    found
}

impl Discovered {
    /// The kinds after this discovery, if `known` are those before it: the kinds of groups whose discovery has failed stay. `None` if it
    /// has found nothing to start from: the core group or the list of all other groups is missing.
    ///
    /// Upstream: `pkg/controller/garbagecollector/garbagecollector.go` (Sync).
    pub fn following(self, known: &[Arc<Served>]) -> Option<Vec<Arc<Served>>> {
        let groups: Option<Vec<&str>> =
            self.failures.iter().map(|failure| failure.group.as_deref()).collect();
        let failed = groups.filter(|failed| !failed.contains(&""))?;
        let kept = known.iter().filter(|kind| failed.contains(&kind.resource.group.as_str())).cloned();
        Some(self.served.into_iter().map(Arc::new).chain(kept).collect())
    }

    fn add(&mut self, group: &str, group_version: &str, list: kube::Result<APIResourceList>) {
        let list = match list {
            Ok(list) => list,
            Err(error) => {
                let text = format!("{group_version}: {}", message_of(&error));
                self.failures.push(DiscoveryFailure { group: Some(group.to_owned()), text });
                return;
            }
        };
        let version = group_version.rsplit('/').next().unwrap_or_default();
        for entry in list.resources.into_iter().filter(|entry| !entry.name.contains('/')) {
            let resource = ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version: group_version.to_owned(),
                kind: entry.kind,
                plural: entry.name,
            };
            self.served.push(Served { resource, namespaced: entry.namespaced, verbs: entry.verbs });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str, version: &str, plural: &str) -> Served {
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: format!("{group}/{version}"),
            kind: plural.to_owned(),
            plural: plural.to_owned(),
        };
        Served { resource, namespaced: true, verbs: Vec::new() }
    }

    #[test]
    fn kinds_of_groups_whose_discovery_fails_stay() {
        let (pods, apes, bees) = (kind("", "v1", "pods"), kind("a", "v1", "apes"), kind("b", "v1", "bees"));
        let new_apes = kind("a", "v2", "apes");
        type Case<'a> =
            (&'a str, &'a [&'a Served], &'a [&'a Served], &'a [Option<&'a str>], Option<&'a [&'a Served]>);
        let cases: [Case<'_>; 9] = [
            ("1 all groups", &[], &[&pods, &apes], &[], Some(&[&pods, &apes])),
            (
                "2 a group is not available at first",
                &[],
                &[&pods, &bees],
                &[Some("a")],
                Some(&[&pods, &bees]),
            ),
            ("3 it returns", &[&pods, &bees], &[&pods, &apes, &bees], &[], Some(&[&pods, &apes, &bees])),
            (
                "4 a group is not available later",
                &[&pods, &apes],
                &[&pods],
                &[Some("a")],
                Some(&[&pods, &apes]),
            ),
            ("5 a group is gone", &[&pods, &apes], &[&pods], &[], Some(&[&pods])),
            (
                "6 a group is gone, another fails",
                &[&pods, &apes, &bees],
                &[&pods],
                &[Some("b")],
                Some(&[&pods, &bees]),
            ),
            ("7 another version", &[&pods, &apes], &[&pods, &new_apes], &[], Some(&[&pods, &new_apes])),
            ("8 no core group", &[&pods, &apes], &[&apes], &[Some("")], None),
            ("9 no list of groups", &[&pods, &apes], &[&pods], &[None], None),
        ];
        let all = |kinds: &[&Served]| kinds.iter().map(|kind| (*kind).clone()).collect::<Vec<_>>();
        for (case, known, served, failed, want) in cases {
            let known: Vec<Arc<Served>> = all(known).into_iter().map(Arc::new).collect();
            let failures = failed.iter().map(|group| DiscoveryFailure {
                group: group.map(str::to_owned),
                text: "it is not available".to_owned(),
            });
            let found = Discovered { served: all(served), failures: failures.collect() };
            let next = found.following(&known);
            let next = next.map(|kinds| kinds.iter().map(|kind| Served::clone(kind)).collect::<Vec<_>>());
            assert_eq!(next, want.map(all), "{case}");
        }
    }
}
