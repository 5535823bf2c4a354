//! Writes EndpointSlices: creates, then updates, then deletes. Updates and deletes are conditional on the cached version
//! or UID. If a write fails, the next sync decides again.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{DeleteParams, PostParams, Preconditions};
use orlop_client::api::Api;
use orlop_client::client::{is_namespace_ending, is_not_found};

use super::error::EndpointsError;
use super::slice_tracker::SliceTracker;

/// The slices to write.
#[derive(Debug, Default, PartialEq)]
pub struct SliceChanges {
    /// New slices.
    pub create: Vec<EndpointSlice>,
    /// Changed slices.
    pub update: Vec<EndpointSlice>,
    /// Slices to delete.
    pub delete: Vec<Arc<EndpointSlice>>,
}

impl SliceChanges {
    /// Replaces creates by updates of slices that would be deleted, if they have the same address type and `may_reuse`
    /// accepts them.
    pub fn recycle(&mut self, may_reuse: impl Fn(&EndpointSlice) -> bool) {
        let mut creates: Vec<Option<EndpointSlice>> =
            std::mem::take(&mut self.create).into_iter().map(Some).collect();
        let mut by_type: HashMap<String, Vec<usize>> = HashMap::new();
        for (position, slice) in creates.iter().enumerate() {
            let address_type = slice.as_ref().map(|slice| slice.address_type.clone());
            by_type.entry(address_type.unwrap_or_default()).or_default().push(position);
        }
        let mut rest = Vec::new();
        for old in std::mem::take(&mut self.delete) {
            let fitting = by_type.get_mut(&old.address_type).filter(|_| may_reuse(&old));
            let new = fitting.and_then(|fitting| creates.get_mut(fitting.pop()?)?.take());
            match new {
                None => rest.push(old),
                Some(mut new) => {
                    new.metadata.name.clone_from(&old.metadata.name);
                    new.metadata.resource_version.clone_from(&old.metadata.resource_version);
                    self.update.push(new);
                }
            }
        }
        self.create = creates.into_iter().flatten().collect();
        self.delete = rest;
    }

    /// Adds the changes of another group.
    pub fn extend(&mut self, other: SliceChanges) {
        self.create.extend(other.create);
        self.update.extend(other.update);
        self.delete.extend(other.delete);
    }
}

/// The Service or the Endpoints whose slices are written.
pub struct SliceOwner<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Kind and key, for errors.
    pub text: String,
    /// It is being deleted: the garbage collector deletes its slices, so none is created.
    pub is_terminating: bool,
}

/// Writes slices and records the writes.
pub struct SliceWriter {
    client: Client,
    tracker: Arc<SliceTracker>,
}

impl SliceWriter {
    /// A writer that records its writes in `tracker`.
    pub fn new(client: Client, tracker: Arc<SliceTracker>) -> Self {
        Self { client, tracker }
    }

    fn api(&self, namespace: &str) -> Api<EndpointSlice> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Performs the changes, up to the first failure. The slices written before it are recorded.
    ///
    /// # Errors
    /// A request failed.
    pub async fn write(&self, owner: &SliceOwner<'_>, changes: SliceChanges) -> Result<(), EndpointsError> {
        let (api, parameters) = (self.api(owner.namespace), PostParams::default());
        for slice in changes.create.iter().filter(|_| !owner.is_terminating) {
            match api.create(&parameters, slice).await {
                Ok(written) => self.tracker.written(&written),
                // The whole namespace is being deleted; there is no failure to report.
                Err(cause) if is_namespace_ending(&cause) => return Ok(()),
                Err(cause) => {
                    return Err(EndpointsError::Create { owner: owner.text.clone(), cause: cause.into() });
                }
            }
        }
        for slice in &changes.update {
            let name = slice.metadata.name.clone().unwrap_or_default();
            match api.replace(&name, &parameters, slice).await {
                Ok(written) => self.tracker.written(&written),
                Err(cause) => {
                    return Err(EndpointsError::Change {
                        action: "update",
                        name,
                        owner: owner.text.clone(),
                        cause: cause.into(),
                    });
                }
            }
        }
        for slice in &changes.delete {
            self.delete(owner.namespace, slice).await.map_err(|cause| EndpointsError::Change {
                action: "delete",
                name: slice.metadata.name.clone().unwrap_or_default(),
                owner: owner.text.clone(),
                cause: cause.into(),
            })?;
        }
        Ok(())
    }

    /// Deletes a slice and records it.
    ///
    /// # Errors
    /// The request failed, other than because the slice is already gone.
    pub async fn delete(&self, namespace: &str, slice: &EndpointSlice) -> Result<(), kube::Error> {
        let exactly = Preconditions { uid: slice.metadata.uid.clone(), resource_version: None };
        let name = slice.metadata.name.as_deref().unwrap_or_default();
        match self.api(namespace).delete(name, &DeleteParams::default().preconditions(exactly)).await {
            Ok(_) => self.tracker.deleted(slice),
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use orlop_apimachinery::thread_time::assert_linear;

    use super::*;

    fn slice(name: Option<&str>, address_type: &str) -> EndpointSlice {
        let mut slice = EndpointSlice { address_type: address_type.to_owned(), ..EndpointSlice::default() };
        slice.metadata.name = name.map(str::to_owned);
        slice.metadata.resource_version = name.map(|name| format!("version of {name}"));
        slice
    }

    #[test]
    fn deleted_slices_are_reused_for_new_ones_of_their_address_type() {
        let mut changes = SliceChanges {
            create: vec![slice(None, "IPv4"), slice(None, "IPv6")],
            update: Vec::new(),
            delete: ["a", "b", "foreign", "c"].map(|name| Arc::new(slice(Some(name), "IPv6"))).into(),
        };
        changes.delete.swap(0, 2);
        changes.recycle(|slice| slice.metadata.name.as_deref() != Some("foreign"));
        assert_eq!(changes.create, [slice(None, "IPv4")]);
        assert_eq!(changes.update, [slice(Some("b"), "IPv6")]);
        let left = ["foreign", "a", "c"].map(|name| Arc::new(slice(Some(name), "IPv6")));
        assert_eq!(changes.delete, left);
    }

    #[test]
    fn reuse_costs_linear_time() {
        let input = |n: usize| -> (Vec<EndpointSlice>, Vec<Arc<EndpointSlice>>) {
            // The slices of the other type are at the end, where the search begins.
            let create = [vec![slice(None, "IPv4"); n], vec![slice(None, "IPv6"); n]].concat();
            (create, (0..n).map(|_| Arc::new(slice(Some("a"), "IPv4"))).collect())
        };
        assert_linear("slices", 1_000, input, |(create, delete)| {
            let mut changes =
                SliceChanges { create: create.clone(), update: Vec::new(), delete: delete.clone() };
            changes.recycle(|_| true);
            assert_eq!((changes.create.len(), changes.update.len()), (delete.len(), delete.len()));
        });
    }
}
