//! A mock plugin that supports every volume and returns the results that the test prepared.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::json;

use crate::pv::plugin::{DeleteError, Deleter, Order, Provisioner, Recycler, VolumePlugin};
use crate::pv::recycle::PodRunner;
use orlop_volume::file_location::FileIds;
use orlop_volume::object;

/// The plugin's name.
pub(super) const NAME: &str = "kubernetes.io/mock-volume";

/// The mock plugin.
pub(super) struct Mock {
    calls: &'static [&'static str],
    /// Results by call, consumed in order.
    results: Mutex<VecDeque<(&'static str, Result<(), String>)>>,
}

impl Mock {
    /// A plugin with these abilities and these results, `CALL ok` or `CALL error: TEXT`.
    pub(super) fn new(calls: &'static [&'static str], inject: &[&'static str]) -> Arc<Self> {
        let results = inject.iter().filter_map(|line| {
            let (call, result) = line.split_once(' ')?;
            let result = match result.strip_prefix("error: ") {
                Some(text) => Err(text.to_owned()),
                None => Ok(()),
            };
            ["provision", "delete", "recycle"].contains(&call).then_some((call, result))
        });
        Arc::new(Self { calls, results: Mutex::new(results.collect()) })
    }

    fn can(&self, call: &str) -> bool {
        self.calls.contains(&call)
    }

    fn is_ready(&self, call: &str) -> bool {
        let results = self.results.lock();
        results.iter().any(|(of, _)| *of == call)
    }

    fn next(&self, call: &str) -> Option<Result<(), String>> {
        let mut results = self.results.lock();
        let at = results.iter().position(|(of, _)| *of == call)?;
        results.remove(at).map(|(_, result)| result)
    }
}

fn none_left(call: &str) -> String {
    format!("Mock plugin error: no {call}Calls configured")
}

impl VolumePlugin for Mock {
    fn name(&self) -> &str {
        NAME
    }

    fn supports(&self, _volume: &PersistentVolume) -> bool {
        true
    }

    fn deleter(&self) -> Option<&dyn Deleter> {
        Some(self)
    }

    fn recycler(&self) -> Option<&dyn Recycler> {
        if self.can("recycle") { Some(self) } else { None }
    }

    fn provisioner(&self) -> Option<&dyn Provisioner> {
        Some(self)
    }
}

impl Deleter for Mock {
    fn delete<'a>(
        &'a self,
        volume: &'a PersistentVolume,
        _others: Arc<FileIds>,
    ) -> BoxFuture<'a, Result<(), DeleteError>> {
        async move {
            let volume = object::name(&volume.metadata).to_owned();
            match self.next("delete") {
                Some(Ok(())) => Ok(()),
                Some(Err(text)) => match text.strip_prefix("in use: ") {
                    Some(text) => Err(DeleteError::InUse(text.to_owned())),
                    None => Err(DeleteError::Failed(text)),
                },
                None => Err(DeleteError::Create { volume, message: none_left("delete") }),
            }
        }
        .boxed()
    }
}

impl Recycler for Mock {
    fn recycle<'a>(
        &'a self,
        _volume: &'a PersistentVolume,
        _pods: &'a PodRunner,
    ) -> BoxFuture<'a, Result<(), String>> {
        async move { self.next("recycle").unwrap_or_else(|| Err(none_left("recycle"))) }.boxed()
    }
}

impl Provisioner for Mock {
    fn accept(&self, _order: &Order) -> Result<(), String> {
        if self.is_ready("provision") { Ok(()) } else { Err(none_left("provision")) }
    }

    fn provision<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<PersistentVolume, String>> {
        async move {
            self.next("provision").unwrap_or_else(|| Err(none_left("provision")))?;
            let spec = order.claim.spec.as_ref();
            let size = spec.and_then(|spec| spec.resources.as_ref()?.requests.as_ref()?.get("storage"));
            let volume = json!({
                "metadata": {},
                "spec": {
                    "capacity": {"storage": size.map(|size| size.0.clone())},
                    "accessModes": spec.and_then(|spec| spec.access_modes.clone()),
                    "gcePersistentDisk": {"pdName": "mock"},
                },
            });
            serde_json::from_value(volume).map_err(|error| error.to_string())
        }
        .boxed()
    }
}
