//! The environment of a container: the variables of the pod, with the objects they refer to read from the API at
//! every start (upstream: pkg/kubelet/kubelet_pods.go makeEnvironmentVariables).

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Node, Pod, Secret};
use kube::Client;
use orlop_client::api::Api;
use orlop_client::client::is_not_found;

use super::expand::{Environment, TooLarge};
use crate::field_path;
use crate::resource_field::{self, Amounts};

/// Content of a ConfigMap or Secret.
type Data = BTreeMap<String, Vec<u8>>;

/// Reads the objects that environment variables refer to, each once.
pub(super) struct Sources {
    client: Client,
    namespace: String,
    read: HashMap<(SourceKind, String), Option<Data>>,
    /// The node's allocatable resources, once they are read.
    allocatable: Option<Amounts>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum SourceKind {
    ConfigMap,
    Secret,
}

impl Sources {
    /// For the containers of a pod in this namespace.
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned(), read: HashMap::new(), allocatable: None }
    }

    #[cfg(test)]
    fn with(mut self, kind: SourceKind, name: &str, data: &[(&str, &str)]) -> Self {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
        self.read.insert((kind, name.to_owned()), Some(data));
        self
    }

    /// The data of an object; `None` when it does not exist.
    async fn data(&mut self, kind: SourceKind, name: &str) -> Result<Option<&Data>, String> {
        let key = (kind, name.to_owned());
        if !self.read.contains_key(&key) {
            let found = match kind {
                SourceKind::ConfigMap => {
                    let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
                    api.get(name).await.map(|map| {
                        let text = map
                            .data
                            .unwrap_or_default()
                            .into_iter()
                            .map(|(key, text)| (key, text.into_bytes()));
                        let bytes = map.binary_data.unwrap_or_default().into_iter();
                        text.chain(bytes.map(|(key, bytes)| (key, bytes.0))).collect()
                    })
                }
                SourceKind::Secret => {
                    let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
                    let bytes = |secret: Secret| secret.data.unwrap_or_default().into_iter();
                    api.get(name)
                        .await
                        .map(|secret| bytes(secret).map(|(key, bytes)| (key, bytes.0)).collect())
                }
            };
            let found = match found {
                Ok(data) => Some(data),
                Err(error) if is_not_found(&error) => None,
                Err(error) => return Err(format!("{} {name:?}: {error}", kind.word())),
            };
            self.read.insert(key.clone(), found);
        }
        Ok(self.read.get(&key).and_then(Option::as_ref))
    }

    /// The allocatable resources of the pod's node.
    async fn allocatable(&mut self, pod: &Pod) -> Result<Option<&Amounts>, String> {
        if self.allocatable.is_none() {
            let name = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
            let node = Api::<Node>::all(self.client.clone()).get(name).await;
            let node =
                node.map_err(|error| format!("the node cannot be read for its allocatable: {error}"))?;
            self.allocatable = node.status.and_then(|status| status.allocatable);
        }
        Ok(self.allocatable.as_ref())
    }

    async fn key(
        &mut self,
        kind: SourceKind,
        name: &str,
        key: &str,
        optional: bool,
    ) -> Result<Option<String>, String> {
        let namespace = self.namespace.clone();
        match self.data(kind, name).await?.map(|data| data.get(key)) {
            Some(Some(bytes)) => Ok(Some(String::from_utf8_lossy(bytes).into_owned())),
            _ if optional => Ok(None),
            None => Err(format!("{} {name:?} not found", kind.word())),
            Some(None) => Err(format!("couldn't find key {key} in {} {namespace}/{name}", kind.title())),
        }
    }

    async fn all(&mut self, kind: SourceKind, name: &str, optional: bool) -> Result<Option<&Data>, String> {
        match self.data(kind, name).await? {
            Some(data) => Ok(Some(data)),
            None if optional => Ok(None),
            None => Err(format!("{} {name:?} not found", kind.word())),
        }
    }
}

impl SourceKind {
    fn word(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// The environment of a container, in the order of the spec; a later variable replaces an earlier one of the same
/// name.
///
/// # Errors
/// A reference cannot be resolved, or the environment is too large to start a process with it.
pub(super) async fn environment(
    sources: &mut Sources,
    pod: &Pod,
    container: &Container,
) -> Result<Vec<(String, String)>, String> {
    let too_large = |error: TooLarge| error.to_string();
    let mut env = Environment::new();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        // Of a key in both, the Secret's value counts.
        if let Some(map) = &from.config_map_ref {
            let data = sources.all(SourceKind::ConfigMap, &map.name, map.optional == Some(true)).await?;
            set_all(&mut env, prefix, data).map_err(too_large)?;
        }
        if let Some(secret) = &from.secret_ref {
            let data = sources.all(SourceKind::Secret, &secret.name, secret.optional == Some(true)).await?;
            set_all(&mut env, prefix, data).map_err(too_large)?;
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), _) if !value.is_empty() => Some(env.expand(value).map_err(too_large)?),
            (_, Some(from)) => referred(sources, pod, container, from).await?,
            (_, None) => Some(String::new()),
        };
        if let Some(value) = value {
            env.set(variable.name.clone(), value).map_err(too_large)?;
        }
    }
    Ok(env.into_variables())
}

/// Sets a variable for each key of an object.
fn set_all(env: &mut Environment, prefix: &str, data: Option<&Data>) -> Result<(), TooLarge> {
    for (key, value) in data.into_iter().flatten() {
        env.set(format!("{prefix}{key}"), String::from_utf8_lossy(value).into_owned())?;
    }
    Ok(())
}

async fn referred(
    sources: &mut Sources,
    pod: &Pod,
    container: &Container,
    from: &EnvVarSource,
) -> Result<Option<String>, String> {
    if let Some(field) = &from.field_ref {
        return field_path::of_pod(pod, &field.field_path).map(Some).map_err(|error| error.to_string());
    }
    if let Some(selector) = &from.resource_field_ref {
        let allocatable = sources.allocatable(pod).await?;
        let text = match selector.container_name.as_deref() {
            None | Some("") => resource_field::of_container(pod, container, selector, allocatable),
            Some(_) => resource_field::of_named(pod, selector, allocatable),
        };
        return text.map(Some).map_err(|error| error.to_string());
    }
    if let Some(key) = &from.config_map_key_ref {
        return sources.key(SourceKind::ConfigMap, &key.name, &key.key, key.optional == Some(true)).await;
    }
    if let Some(key) = &from.secret_key_ref {
        return sources.key(SourceKind::Secret, &key.name, &key.key, key.optional == Some(true)).await;
    }
    Err("a variable refers to something that this runtime does not know".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_test_support::FakeApi;
    use serde_json::{Value, json};

    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a/b": "c"}},
            "spec": {"nodeName": "m", "containers": [
                {"name": "other", "resources": {
                    "limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"memory": "1Gi"},
                }},
            ]},
            "status": {"podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]},
        }))
        .unwrap()
    }

    async fn made(container: Value) -> Result<String, String> {
        let api = FakeApi::new();
        api.seed(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m"},
            "status": {"allocatable": {"cpu": "3", "memory": "2Gi"}}}));
        let mut sources = Sources::new(api.client(), "n")
            .with(SourceKind::ConfigMap, "map", &[("K", "v"), ("a=b", "no")])
            .with(SourceKind::Secret, "sec", &[("S", "geheim"), ("K", "w")]);
        let container = serde_json::from_value(container).unwrap();
        let env = environment(&mut sources, &pod(), &container).await?;
        Ok(env.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    }

    #[tokio::test]
    async fn environment_resolves_values_and_references() {
        let from = |from: Value| json!([{"name": "X", "valueFrom": from}]);
        let field = |path: &str| from(json!({"fieldRef": {"fieldPath": path}}));
        let resource = |name: &str, divisor: &str| {
            from(
                json!({"resourceFieldRef": {"containerName": "other", "resource": name, "divisor": divisor}}),
            )
        };
        for (env, want) in [
            (json!([]), Ok("")),
            (json!([{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(Z)"}]), Ok("A=1 B=1$(Z)")),
            (json!([{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]), Ok("A=12")),
            (field("metadata.labels['a/b']"), Ok("X=c")),
            (field("metadata.annotations['none']"), Ok("X=")),
            (field("spec.nodeName"), Ok("X=m")),
            (field("status.podIPs"), Ok("X=1.1.1.1,::1")),
            (field("spec.x"), Err("unsupported fieldPath: spec.x")),
            (resource("limits.cpu", "1"), Ok("X=2")),
            (resource("limits.cpu", "1m"), Ok("X=1500")),
            (resource("limits.memory", "1Mi"), Ok("X=1024")),
            (resource("requests.memory", "0"), Ok("X=1073741824")),
            (resource("limits.ephemeral-storage", "0"), Ok("X=0")),
            (resource("limits.pods", "1"), Err("Unsupported container resource : limits.pods")),
            (from(json!({"resourceFieldRef": {"resource": "limits.cpu"}})), Ok("X=3")),
            (
                from(json!({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}})),
                Ok("X=2048"),
            ),
            (from(json!({"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}})), Ok("X=250")),
            (from(json!({"configMapKeyRef": {"name": "map", "key": "K"}})), Ok("X=v")),
            (from(json!({"secretKeyRef": {"name": "sec", "key": "S"}})), Ok("X=geheim")),
            (
                from(json!({"configMapKeyRef": {"name": "map", "key": "N"}})),
                Err("couldn't find key N in ConfigMap n/map"),
            ),
            (from(json!({"secretKeyRef": {"name": "none", "key": "N"}})), Err("secret \"none\" not found")),
            (from(json!({"secretKeyRef": {"name": "none", "key": "N", "optional": true}})), Ok("")),
        ] {
            let got =
                made(json!({"name": "c", "env": env, "resources": {"requests": {"cpu": "250m"}}})).await;
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{env}");
        }
        let container = json!({
            "name": "c",
            "envFrom": [
                {"configMapRef": {"name": "map"}},
                {"secretRef": {"name": "sec"}, "prefix": "P_"},
                {"configMapRef": {"name": "none", "optional": true}},
            ],
            "env": [{"name": "E", "value": "$(P_S)"}],
        });
        assert_eq!(made(container).await.unwrap(), "K=v P_K=w P_S=geheim E=geheim");
    }
    #[tokio::test]
    async fn oversized_environment_is_an_error_of_the_container() {
        let doubled = (1..=35).map(|at| {
            let before = at - 1;
            json!({"name": format!("A{at}"), "value": format!("$(A{before})$(A{before})")})
        });
        let env: Vec<Value> =
            [json!({"name": "A0", "value": "0123456789"})].into_iter().chain(doubled).collect();
        let error = made(json!({"name": "c", "env": env})).await.unwrap_err();
        assert_eq!(error, "the environment and the arguments of the container are larger than 2 MiB");
    }
}
