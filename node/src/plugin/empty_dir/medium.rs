//! The storage medium of an emptyDir. Pure.

use k8s_openapi::api::core::v1::Pod;
use orlop_apimachinery::quantity::Quantity;

const HUGE_PAGES: &str = "HugePages";
/// Prefix of container resources: `hugepages-2Mi`.
const RESOURCE: &str = "hugepages-";

/// The storage medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// The disk of the agent's directory.
    Disk,
    /// tmpfs.
    Memory,
    /// hugetlbfs.
    HugePages {
        /// The mount option, such as `pagesize=2Mi`.
        option: String,
    },
}

impl Medium {
    /// The medium that a volume requests in a pod.
    pub(super) fn of(medium: &str, pod: &Pod) -> Result<Self, String> {
        match medium {
            "" => Ok(Self::Disk),
            "Memory" => Ok(Self::Memory),
            HUGE_PAGES => page_size(medium, None, pod),
            other => match other.strip_prefix(HUGE_PAGES).and_then(|rest| rest.strip_prefix('-')) {
                Some(size) => {
                    let size = Quantity::parse(size).map_err(|error| format!("medium {other}: {error}"))?;
                    page_size(medium, Some(size), pod)
                }
                None => Err(format!("unknown storage medium {other:?}")),
            },
        }
    }

    /// The file system to mount; none for the disk.
    pub(super) fn fs_type(&self) -> Option<&'static str> {
        match self {
            Self::Disk => None,
            Self::Memory => Some("tmpfs"),
            Self::HugePages { .. } => Some("hugetlbfs"),
        }
    }
}

/// Determines the page size. A container of the pod must request pages of this size; when the medium names no
/// size, the containers must request a single one (upstream: getPageSizeMountOption).
fn page_size(medium: &str, wanted: Option<Quantity>, pod: &Pod) -> Result<Medium, String> {
    let mut found: Option<(Quantity, &str)> = None;
    let spec = pod.spec.as_ref();
    let containers =
        spec.into_iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let requests = containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref());
    for size in requests.flat_map(|requests| requests.keys()).filter_map(|name| name.strip_prefix(RESOURCE)) {
        let bytes = Quantity::parse(size).map_err(|error| format!("resource {RESOURCE}{size}: {error}"))?;
        match (&wanted, &found) {
            (Some(wanted), _) if *wanted != bytes => {}
            (None, Some((other, _))) if *other != bytes => {
                return Err(format!(
                    "medium: {medium} can't be used if container requests multiple huge page sizes"
                ));
            }
            (Some(_) | None, _) => found = Some((bytes, size)),
        }
    }
    match found {
        Some((_, size)) => Ok(Medium::HugePages { option: format!("pagesize={size}") }),
        None => Err(format!(
            "medium {medium}: hugePages storage requested, but there is no resource request for huge pages"
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(sizes: &[&str]) -> Pod {
        let container = |(number, size): (usize, &&str)| {
            let name = format!("{RESOURCE}{size}");
            json!({"name": format!("c{number}"), "resources": {"requests": {"cpu": "1", name: "64Mi"}}})
        };
        let containers: Vec<_> = sizes.iter().enumerate().map(container).collect();
        serde_json::from_value(json!({"spec": {"containers": containers}})).unwrap()
    }

    #[test]
    fn medium_is_parsed() {
        let pages = |option: &str| Ok(Medium::HugePages { option: option.to_owned() });
        let multiple = "medium: HugePages can't be used if container requests multiple huge page sizes";
        for (medium, sizes, expected) in [
            ("", vec![], Ok(Medium::Disk)),
            ("Memory", vec![], Ok(Medium::Memory)),
            ("HugePages", vec!["2Mi", "2Mi"], pages("pagesize=2Mi")),
            ("HugePages", vec!["2Mi", "2048Ki"], pages("pagesize=2048Ki")),
            ("HugePages", vec!["2Mi", "1Gi"], Err(multiple)),
            ("HugePages-1Gi", vec!["2Mi", "1Gi"], pages("pagesize=1Gi")),
            (
                "HugePages-1Gi",
                vec!["2Mi"],
                Err(
                    "medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages",
                ),
            ),
            (
                "HugePages",
                vec![],
                Err(
                    "medium HugePages: hugePages storage requested, but there is no resource request for huge pages",
                ),
            ),
            ("Disk", vec![], Err("unknown storage medium \"Disk\"")),
            ("HugePagesX", vec![], Err("unknown storage medium \"HugePagesX\"")),
        ] {
            assert_eq!(
                Medium::of(medium, &pod(&sizes)),
                expected.map_err(str::to_owned),
                "{medium} {sizes:?}"
            );
        }
        assert!(Medium::of("HugePages-x", &pod(&[])).unwrap_err().starts_with("medium HugePages-x: "));
    }
}
