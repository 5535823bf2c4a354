//! Maintains the Service `kubernetes`, which points to this server, with its Endpoints and its EndpointSlice
//! (upstream: pkg/controlplane/controller/kubernetesservice).
//!
//! Missing objects are created, and objects that point elsewhere are corrected. The writes bypass admission and
//! validation, which reject loopback addresses in endpoints; a server that listens on loopback only publishes
//! one.

use std::net::SocketAddr;

use orlop_store::{CommitError, Expect, Key, Op, Write};
use serde_json::{Value, json};

use crate::allocation;
use crate::dispatch;
use crate::encode::stored;
use crate::registry::service::fields::family_of;
use crate::registry::{Kind, by_resource};
use crate::state::Inner;
use crate::system_objects::addresses;
use crate::verbs::write::first_generation;
use orlop_api::object::{Object, show_time};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
/// The service port.
const PORT: u16 = 443;
const PORT_NAME: &str = "https";

/// Creates or corrects the Service and its endpoints.
///
/// # Errors
/// A message for the log if one of the objects cannot be written.
pub(crate) async fn keep(server: &Inner) -> Result<(), String> {
    let Some(advertised) = server.config.advertised else { return Ok(()) };
    // On a full disk the remaining space is reserved for deletes; the next round tries again.
    if server.store.usage().full {
        return Ok(());
    }
    for (group, plural, want) in [
        ("", "services", service(server, advertised)),
        ("", "endpoints", endpoints(advertised)),
        ("discovery.k8s.io", "endpointslices", slice(advertised)),
    ] {
        if let Some(kind) = by_resource(group, "v1", plural) {
            put(server, kind, want).await.map_err(|why| format!("{plural} {NAMESPACE}/{NAME}: {why}"))?;
        }
    }
    Ok(())
}

fn service(server: &Inner, advertised: SocketAddr) -> Object {
    let ip = server.config.services.addresses.first();
    Object::from_value(json!({
        "metadata": {"labels": {"component": "apiserver", "provider": NAME}},
        "spec": {
            "type": "ClusterIP", "clusterIP": ip.to_string(), "clusterIPs": [ip.to_string()],
            "ipFamilies": [family_of(ip)], "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": PORT_NAME, "port": PORT, "protocol": "TCP", "targetPort": advertised.port()}],
        },
    }))
}

fn endpoints(advertised: SocketAddr) -> Object {
    Object::from_value(json!({
        "metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{
            "addresses": [{"ip": advertised.ip().to_string()}],
            "ports": [{"name": PORT_NAME, "port": advertised.port(), "protocol": "TCP"}],
        }],
    }))
}

fn slice(advertised: SocketAddr) -> Object {
    Object::from_value(json!({
        "metadata": {"labels": {"kubernetes.io/service-name": NAME}},
        "addressType": family_of(advertised.ip()),
        "endpoints": [{"addresses": [advertised.ip().to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": PORT_NAME, "port": advertised.port(), "protocol": "TCP"}],
    }))
}

/// The fields that determine where the Service and its endpoints point.
fn leads(object: &Object) -> [Option<Value>; 5] {
    let spec = |name: &str| object.at(&["spec", name]).cloned();
    let own = |name: &str| object.0.get(name).cloned();
    [spec("ports"), spec("type"), own("subsets"), own("endpoints"), own("ports")]
}

async fn put(server: &Inner, kind: &'static dyn Kind, mut want: Object) -> Result<(), String> {
    kind.defaults(&mut want);
    let key = dispatch::key(kind, NAMESPACE, NAME);
    let head = server.store.head();
    let found = head.get(&key);
    let old = found.map(|record| stored::decode(record)).transpose().map_err(|error| error.message)?;
    let (object, expect) = match (found, &old) {
        (Some(record), Some(old)) => {
            let mut object = old.clone();
            if leads(&object) == leads(&want) {
                return Ok(());
            }
            // Users may have changed other fields, and the cluster IP never changes.
            for member in ["subsets", "endpoints", "ports", "addressType"] {
                object.copy_member(&want, member);
            }
            for name in ["ports", "type"] {
                if let Some(value) = want.at(&["spec", name]) {
                    object.set(&["spec", name], value.clone());
                }
            }
            object.meta().remove("resourceVersion");
            (object, Expect::Revision(record.mod_revision))
        }
        _ => {
            want.set(&["metadata", "name"], NAME);
            want.set(&["metadata", "namespace"], NAMESPACE);
            want.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
            want.set(&["metadata", "creationTimestamp"], show_time(server.now()));
            first_generation(kind, &mut want);
            kind.prepare_create(&mut want, server.now());
            (want, Expect::Absent)
        }
    };
    let mut writes = allocation::writes(kind, &key, old.as_ref(), Some(&object), &head);
    writes.extend(addresses::writes(server, kind, old.as_ref(), Some(&object), &head));
    let (value, view) = stored::encode(kind, &object);
    let own = Key::from(key);
    writes.push(Write { key: own.clone(), expect, op: Op::Put { value, view } });
    match server.store.commit(writes).await {
        Ok(_) => Ok(()),
        Err(CommitError::Conflict { key, .. }) if key != own => {
            Err(format!("{key} is taken by another service; delete that one"))
        }
        // Another writer was faster; the next round checks again.
        Err(CommitError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
