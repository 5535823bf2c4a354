//! The annotation `kubernetes.io/enforce-mountable-secrets` of a service account: its pods may refer only to the secrets that
//! the account lists.

use std::collections::HashSet;

use orlop_api::object::Object;
use serde_json::Value;

/// The annotation.
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
/// The values that Go's `strconv.ParseBool` reads as true.
const TRUE: [&str; 6] = ["1", "t", "T", "TRUE", "true", "True"];

/// A list of containers.
#[derive(Clone, Copy)]
pub(super) enum ContainerList {
    Init,
    Main,
    Ephemeral,
}

impl ContainerList {
    fn member(self) -> &'static str {
        match self {
            ContainerList::Init => "initContainers",
            ContainerList::Main => "containers",
            ContainerList::Ephemeral => "ephemeralContainers",
        }
    }

    /// How errors name a container.
    fn noun(self) -> &'static str {
        match self {
            ContainerList::Init => "init container",
            ContainerList::Main => "container",
            ContainerList::Ephemeral => "ephemeral container",
        }
    }
}

/// Checks the volumes, containers and pull secrets of a pod; the error is upstream's text for the first other secret.
pub(super) fn check_pod(account: &Object, pod: &Object) -> Result<(), String> {
    if !is_enforced(account) {
        return Ok(());
    }
    let (allowed, owner) = (listed(account, "secrets"), account.name());
    for volume in list(pod, "volumes") {
        let Some(name) = volume["secret"].as_object().map(|_| text(&volume["secret"]["secretName"])) else {
            continue;
        };
        if !allowed.contains(name) {
            return Err(format!(
                "volume with secret.secretName=\"{name}\" is not allowed because service account {owner} does not reference that secret"
            ));
        }
    }
    check_containers(account, pod, ContainerList::Init)?;
    check_containers(account, pod, ContainerList::Main)?;
    let pulls = listed(account, "imagePullSecrets");
    for (at, pull) in list(pod, "imagePullSecrets").enumerate() {
        let name = text(&pull["name"]);
        if !pulls.contains(name) {
            return Err(format!(
                "imagePullSecrets[{at}].name=\"{name}\" is not allowed because service account {owner} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// Checks the environment of the containers of a list.
pub(super) fn check_containers(account: &Object, pod: &Object, which: ContainerList) -> Result<(), String> {
    if !is_enforced(account) {
        return Ok(());
    }
    let (allowed, owner, noun) = (listed(account, "secrets"), account.name(), which.noun());
    for container in list(pod, which.member()) {
        let container_name = text(&container["name"]);
        for variable in container["env"].as_array().into_iter().flatten() {
            let reference = &variable["valueFrom"]["secretKeyRef"];
            let name = text(&reference["name"]);
            if reference.is_object() && !allowed.contains(name) {
                let variable = text(&variable["name"]);
                return Err(format!(
                    "{noun} {container_name} with envVar {variable} referencing secret.secretName=\"{name}\" is not allowed because service account {owner} does not reference that secret"
                ));
            }
        }
        for source in container["envFrom"].as_array().into_iter().flatten() {
            let name = text(&source["secretRef"]["name"]);
            if source["secretRef"].is_object() && !allowed.contains(name) {
                return Err(format!(
                    "{noun} {container_name} with envFrom referencing secret.secretName=\"{name}\" is not allowed because service account {owner} does not reference that secret"
                ));
            }
        }
    }
    Ok(())
}

fn is_enforced(account: &Object) -> bool {
    account.annotation(ENFORCE).is_some_and(|value| TRUE.contains(&value))
}

/// The names in a list of an account.
fn listed<'a>(account: &'a Object, member: &str) -> HashSet<&'a str> {
    let references = account.at(&[member]).and_then(Value::as_array).into_iter().flatten();
    references.map(|reference| text(&reference["name"])).collect()
}

fn list<'a>(pod: &'a Object, member: &str) -> impl Iterator<Item = &'a Value> {
    pod.at(&["spec", member]).and_then(Value::as_array).into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
