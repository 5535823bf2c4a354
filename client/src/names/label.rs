//! Keys of labels.

/// EndpointSlice: the name of its Service.
pub const LABEL_SERVICE_NAME: &str = "kubernetes.io/service-name";
/// EndpointSlice: the controller that writes it.
pub const LABEL_SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Endpoints: the controller that writes them.
pub const LABEL_ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Endpoints, EndpointSlice: their Service has no cluster IP.
pub const LABEL_HEADLESS: &str = "service.kubernetes.io/headless";
/// Endpoints: with the value `true`, they are not mirrored to EndpointSlices.
pub const LABEL_SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Node: its zone.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";
