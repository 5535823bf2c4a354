//! The slices of one address type before they are written, and the removal of their hints. Pure functions.

use std::sync::Arc;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointSlice, ForZone};

use crate::endpoints::slice::endpoints;

/// The slices whose hints are set.
#[derive(Debug, Default)]
pub struct HintedSlices {
    /// New slices.
    pub create: Vec<EndpointSlice>,
    /// Slices with changes.
    pub update: Vec<EndpointSlice>,
    /// Slices without changes. If their hints change, they move to `update`.
    pub unchanged: Vec<Arc<EndpointSlice>>,
}

impl HintedSlices {
    /// All slices.
    pub fn all(&self) -> impl Iterator<Item = &EndpointSlice> {
        self.create.iter().chain(&self.update).chain(self.unchanged.iter().map(Arc::as_ref))
    }

    /// The slices that are written.
    pub fn written(&mut self) -> impl Iterator<Item = &mut EndpointSlice> {
        self.create.iter_mut().chain(&mut self.update)
    }

    /// Moves the unchanged slices that `changes` selects to the updated ones.
    pub fn update_if(&mut self, mut changes: impl FnMut(&EndpointSlice) -> bool) {
        for slice in std::mem::take(&mut self.unchanged) {
            match changes(&slice) {
                true => self.update.push(EndpointSlice::clone(&slice)),
                false => self.unchanged.push(slice),
            }
        }
    }

    /// Removes all hints.
    pub fn remove_hints(&mut self) {
        self.update_if(|slice| endpoints(slice).iter().any(|endpoint| endpoint.hints.is_some()));
        for slice in self.written() {
            for endpoint in slice.endpoints.iter_mut().flatten() {
                endpoint.hints = None;
            }
        }
    }
}

/// Whether the endpoint is ready.
pub fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true))
}

/// The hint to use an endpoint in one zone.
pub fn for_zone(zone: &str) -> EndpointHints {
    EndpointHints { for_zones: Some(vec![ForZone { name: zone.to_owned() }]), for_nodes: None }
}
