//! Errors of a sync. All of them are retried, except [`EndpointsError::TooManyPorts`]. Upstream's words where upstream has
//! the error, because events contain them.

use std::collections::BTreeSet;

use orlop_client::client::message_of;
use orlop_client::watcher::Undecodable;

/// Why a sync failed.
#[derive(Debug, thiserror::Error)]
pub enum EndpointsError {
    /// An EndpointSlice was not created.
    #[error("failed to create EndpointSlice for {owner}: {}", message_of(.cause))]
    Create {
        /// Kind and key of the Service or the Endpoints.
        owner: String,
        /// The API error.
        cause: Box<kube::Error>,
    },
    /// An EndpointSlice was not updated or deleted.
    #[error("failed to {action} {name} EndpointSlice for {owner}: {}", message_of(.cause))]
    Change {
        /// `update` or `delete`.
        action: &'static str,
        /// Name of the slice.
        name: String,
        /// Kind and key of the Service or the Endpoints.
        owner: String,
        /// The API error.
        cause: Box<kube::Error>,
    },
    /// An EndpointSlice of an address family that the Service lacks was not deleted.
    #[error("error deleting {name} EndpointSlice for {owner}: {}", message_of(.cause))]
    DeleteFamily {
        /// Name of the slice.
        name: String,
        /// Kind and key of the Service.
        owner: String,
        /// The API error.
        cause: Box<kube::Error>,
    },
    /// The Service or the Endpoints exist and cannot be decoded.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    /// The EndpointSlices of deleted Endpoints were not deleted.
    #[error("error(s) deleting {failed}/{all} EndpointSlices for {key} Endpoints, including: {}", message_of(.cause))]
    DeleteMirrored {
        /// How many were not deleted.
        failed: usize,
        /// How many there are.
        all: usize,
        /// Key of the Endpoints.
        key: String,
        /// The first API error.
        cause: Box<kube::Error>,
    },
    /// The node of a pod is unknown. The slices are written without the pod.
    #[error("skipping Pod {pod} for {service}: Node {node} Not Found")]
    NodeNotFound {
        /// Name of the pod.
        pod: String,
        /// Kind and key of the Service.
        service: String,
        /// Name of the node.
        node: String,
    },
    /// The EndpointSlices of a Service would have too many ports. A retry has the same result.
    #[error(
        "the EndpointSlices for {service} would have {ports} ports in total, the maximum is {most}: use fewer ports, or \
         numbers as target ports, or more endpoints per slice"
    )]
    TooManyPorts {
        /// Kind and key of the Service.
        service: String,
        /// The ports of all slices.
        ports: usize,
        /// Their maximum.
        most: usize,
    },
    /// The cache does not contain the latest writes yet.
    #[error("EndpointSlice informer cache is out of date")]
    StaleSlices,
    /// The cache does not contain the latest write yet.
    #[error(
        "endpoints informer cache is out of date, resource version {version} already processed for endpoints {key}"
    )]
    StaleEndpoints {
        /// The cached version.
        version: String,
        /// Key of the Endpoints.
        key: String,
    },
    /// A request for Endpoints failed.
    #[error("cannot {action} Endpoints {key}: {}", message_of(.cause))]
    Endpoints {
        /// The attempted action.
        action: &'static str,
        /// Key of the Endpoints.
        key: String,
        /// The API error.
        cause: Box<kube::Error>,
    },
    /// Several errors.
    #[error("{}", joined(.0))]
    Several(Vec<EndpointsError>),
}

impl EndpointsError {
    /// One result of the errors of several steps.
    ///
    /// # Errors
    /// There are errors.
    pub fn all(mut errors: Vec<EndpointsError>) -> Result<(), EndpointsError> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

/// Each text once; several in brackets. Upstream: Aggregate of apimachinery util/errors.
fn joined(errors: &[EndpointsError]) -> String {
    let mut seen = BTreeSet::new();
    let texts: Vec<String> =
        errors.iter().map(ToString::to_string).filter(|text| seen.insert(text.clone())).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_appears_once() {
        let missing = |pod: &str| EndpointsError::NodeNotFound {
            pod: pod.to_owned(),
            service: "Service ns/s".to_owned(),
            node: "n".to_owned(),
        };
        let text =
            |errors: Vec<EndpointsError>| EndpointsError::all(errors).err().map(|error| error.to_string());
        let (a, b) = (
            "skipping Pod a for Service ns/s: Node n Not Found",
            "skipping Pod b for Service ns/s: Node n Not Found",
        );
        assert_eq!(text(Vec::new()), None);
        assert_eq!(text(vec![missing("a")]).as_deref(), Some(a));
        assert_eq!(text(vec![missing("a"), missing("a")]).as_deref(), Some(a));
        assert_eq!(text(vec![missing("a"), missing("b"), missing("a")]), Some(format!("[{a}, {b}]")));
    }
}
