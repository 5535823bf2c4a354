//! Resource limits and requests of containers as decimal strings, for downwardAPI volumes and environment
//! variables (upstream: pkg/api/v1/resource). Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use orlop_apimachinery::quantity::Quantity;

/// Quantities by resource name, as objects store them.
pub type Amounts = BTreeMap<String, Text>;

/// A selector cannot be resolved. The messages are upstream's where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// The pod has no such container.
    #[error("container {0} not found")]
    NoContainer(String),
    /// The resource is not supported.
    #[error("Unsupported container resource : {0}")]
    Unsupported(String),
    /// The object contains an invalid quantity.
    #[error("{what}: {why}")]
    NoAmount {
        /// The field, for example `limits.cpu of container c`, or the divisor.
        what: String,
        /// The reason.
        why: String,
    },
}

/// The quantity that a selector selects from the container it names, in units of its divisor and rounded up. A
/// container without a limit has the limit of the pod, and without that the node's capacity for pods
/// (`status.allocatable`).
///
/// # Errors
/// The container or resource does not exist, or the pod contains an invalid quantity.
pub fn of_named(
    pod: &Pod,
    selector: &ResourceFieldSelector,
    allocatable: Option<&Amounts>,
) -> Result<String, ResourceError> {
    let name = selector.container_name.as_deref().unwrap_or_default();
    let spec = pod.spec.as_ref();
    let containers = spec.map(|spec| spec.containers.iter()).into_iter().flatten();
    let init = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten();
    let container = containers.chain(init).find(|container| container.name == name);
    let container = container.ok_or_else(|| ResourceError::NoContainer(name.to_owned()))?;
    of_container(pod, container, selector, allocatable)
}

/// The same for a known container: environment variables may omit its name.
///
/// # Errors
/// The resource does not exist, or the container contains an invalid quantity.
pub fn of_container(
    pod: &Pod,
    container: &Container,
    selector: &ResourceFieldSelector,
    allocatable: Option<&Amounts>,
) -> Result<String, ResourceError> {
    let unsupported = || ResourceError::Unsupported(selector.resource.clone());
    let (list, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let is_basic = matches!(name, "cpu" | "memory" | "ephemeral-storage");
    if !is_basic && !name.starts_with("hugepages-") {
        return Err(unsupported());
    }
    let resources = container.resources.as_ref();
    let what = format!("{} of container {}", selector.resource, container.name);
    let amount = match list {
        "requests" => amount(resources.and_then(|all| all.requests.as_ref()), name, &what)?,
        "limits" => {
            let own = amount(resources.and_then(|all| all.limits.as_ref()), name, &what)?;
            let of_pod = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
            let of_pod = of_pod.and_then(|all| all.limits.as_ref());
            let is_said = |found: &Option<Quantity>| found.as_ref().is_some_and(|found| !found.is_zero());
            if is_said(&own) || !is_basic {
                own
            } else {
                let shared = amount(of_pod, name, "limits of the pod")?;
                if is_said(&shared) { shared } else { amount(allocatable, name, "allocatable of the node")? }
            }
        }
        _ => return Err(unsupported()),
    };
    let amount = amount.unwrap_or(Quantity::ZERO);
    let divisor = match &selector.divisor {
        Some(divisor) => parsed(divisor, "the divisor")?,
        None => Quantity::ZERO,
    };
    let divisor = if divisor.is_zero() { Quantity::from_integer(1) } else { divisor };
    let (amount, divisor) = match name {
        "cpu" => (amount.milli_value(), divisor.milli_value()),
        _ => (amount.value(), divisor.value()),
    };
    Ok(units(amount, divisor).to_string())
}

/// Divides `amount` by `divisor` and rounds up. A zero divisor returns `amount`. `i128` because rounding can
/// exceed `i64`.
fn units(amount: i64, divisor: i64) -> i128 {
    let (amount, divisor) = (i128::from(amount), i128::from(divisor));
    if divisor == 0 {
        return amount;
    }
    let whole = amount.div_euclid(divisor);
    // Upstream rounds up, but not for a negative divisor.
    if amount.rem_euclid(divisor) != 0 && divisor > 0 { whole + 1 } else { whole }
}

fn amount(from: Option<&Amounts>, name: &str, what: &str) -> Result<Option<Quantity>, ResourceError> {
    from.and_then(|all| all.get(name)).map(|text| parsed(text, what)).transpose()
}

fn parsed(text: &Text, what: &str) -> Result<Quantity, ResourceError> {
    Quantity::parse(&text.0)
        .map_err(|error| ResourceError::NoAmount { what: what.to_owned(), why: error.to_string() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn pod(level: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {
            "resources": level,
            "initContainers": [{"name": "init", "resources": {"limits": {"cpu": "70m"}}}],
            "containers": [
                {"name": "full", "resources": {
                    "limits": {"cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "3G", "hugepages-2Mi": "4Mi"},
                    "requests": {"cpu": "0.1005", "memory": "100", "ephemeral-storage": "1", "hugepages-2Mi": "4Mi"}}},
                {"name": "none"},
                {"name": "odd", "resources": {"limits": {"cpu": "0", "memory": "x"}}},
            ]}}))
        .unwrap()
    }

    fn asked(container: &str, resource: &str, divisor: Option<&str>) -> ResourceFieldSelector {
        serde_json::from_value(json!({"containerName": container, "resource": resource, "divisor": divisor}))
            .unwrap()
    }

    #[test]
    fn selected_quantities_match_upstream() {
        let node: Amounts =
            serde_json::from_value(json!({"cpu": "3920m", "memory": "7Gi", "ephemeral-storage": "10G"}))
                .unwrap();
        for (container, resource, divisor, want) in [
            ("full", "limits.cpu", None, Ok("2")),
            ("full", "limits.cpu", Some("0"), Ok("2")),
            ("full", "limits.cpu", Some("1"), Ok("2")),
            ("full", "limits.cpu", Some("1m"), Ok("1500")),
            ("full", "requests.cpu", Some("1m"), Ok("101")),
            ("full", "requests.cpu", None, Ok("1")),
            ("full", "limits.memory", None, Ok("1073741824")),
            ("full", "limits.memory", Some("1Mi"), Ok("1024")),
            ("full", "limits.memory", Some("1M"), Ok("1074")),
            ("full", "requests.memory", Some("1Ki"), Ok("1")),
            ("full", "limits.ephemeral-storage", Some("1G"), Ok("3")),
            ("full", "requests.ephemeral-storage", Some("1Gi"), Ok("1")),
            ("full", "limits.hugepages-2Mi", Some("1Mi"), Ok("4")),
            ("full", "requests.hugepages-2Mi", None, Ok("4194304")),
            ("init", "limits.cpu", Some("1m"), Ok("70")),
            ("none", "limits.cpu", None, Ok("4")),
            ("none", "limits.cpu", Some("1m"), Ok("3920")),
            ("none", "limits.memory", Some("1Gi"), Ok("7")),
            ("none", "limits.ephemeral-storage", None, Ok("10000000000")),
            ("none", "limits.hugepages-2Mi", None, Ok("0")),
            ("none", "requests.cpu", None, Ok("0")),
            ("odd", "limits.cpu", None, Ok("4")),
            ("gone", "limits.cpu", None, Err("container gone not found")),
            ("full", "limits.pods", None, Err("Unsupported container resource : limits.pods")),
            ("full", "cpu", None, Err("Unsupported container resource : cpu")),
            ("full", "most.cpu", None, Err("Unsupported container resource : most.cpu")),
            (
                "odd",
                "limits.memory",
                None,
                Err("limits.memory of container odd: quantities must match the regular expression \
                     '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
            ),
        ] {
            let got = of_named(&pod(Value::Null), &asked(container, resource, divisor), Some(&node));
            let got = got.map_err(|error| error.to_string());
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{container} {resource} {divisor:?}");
        }
    }

    #[test]
    fn missing_limit_falls_back_to_the_pod_then_the_node() {
        let selector = asked("none", "limits.cpu", Some("1m"));
        let level = json!({"limits": {"cpu": "2"}});
        let node: Amounts = serde_json::from_value(json!({"cpu": "4"})).unwrap();
        assert_eq!(of_named(&pod(level.clone()), &selector, Some(&node)).unwrap(), "2000");
        assert_eq!(of_named(&pod(Value::Null), &selector, Some(&node)).unwrap(), "4000");
        assert_eq!(of_named(&pod(Value::Null), &selector, None).unwrap(), "0");
        let full = asked("full", "limits.cpu", Some("1m"));
        assert_eq!(of_named(&pod(level), &full, Some(&node)).unwrap(), "1500");
    }

    #[test]
    fn units_are_rounded_up() {
        for (amount, divisor, want) in [
            (0, 1, 0),
            (1, 1, 1),
            (5, 2, 3),
            (4, 2, 2),
            (-5, 2, -2),
            (i64::MAX, 1, i128::from(i64::MAX)),
            (i64::MAX, i64::MAX, 1),
            (5, -2, -2),
            (7, 0, 7),
        ] {
            assert_eq!(units(amount, divisor), want, "{amount}/{divisor}");
        }
    }
}
