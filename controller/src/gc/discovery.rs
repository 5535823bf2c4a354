//! Discovery of the resources that the garbage collector and the namespace controller delete: the preferred
//! version of every group.

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
    /// The failures, as `group/version: why`.
    pub failures: Vec<String>,
}

/// Discovers all resources that the server serves.
pub async fn discover(client: &Client) -> Discovered {
    let mut found = Discovered::default();
    found.add("v1", client.list_core_api_resources("v1").await);
    let groups = match client.list_api_groups().await {
        Ok(list) => list.groups,
        Err(error) => {
            found.failures.push(format!("API groups: {}", message_of(&error)));
            return found;
        }
    };
    for group in groups {
        let preferred = group.preferred_version.or_else(|| group.versions.into_iter().next());
        if let Some(version) = preferred {
            let name = version.group_version;
            found.add(&name, client.list_api_group_resources(&name).await);
        }
    }
    found
}

impl Discovered {
    fn add(&mut self, group_version: &str, list: kube::Result<APIResourceList>) {
        let list = match list {
            Ok(list) => list,
            Err(error) => {
                self.failures.push(format!("{group_version}: {}", message_of(&error)));
                return;
            }
        };
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
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
