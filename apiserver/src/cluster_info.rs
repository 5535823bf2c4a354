//! Publishes the ConfigMap `cluster-info` in `kube-public`, from which joining nodes learn the address and the authority of the server.
//!
//! Upstream: cmd/kubeadm/app/phases/bootstraptoken/clusterinfo.

use orlop_api::object::{Object, show_time};
use orlop_pki::kubeconfig::{Kubeconfig, KubeconfigUser};
use orlop_store::{CommitError, Expect, Key, Op, Write};
use serde_json::json;

use crate::dispatch;
use crate::encode::stored;
use crate::registry::by_resource;
use crate::state::{ClusterInfo, Inner};

const NAMESPACE: &str = "kube-public";
const NAME: &str = "cluster-info";
/// The key of the kubeconfig.
const KEY: &str = "kubeconfig";
/// Maximum number of attempts, if commits conflict with other writers.
const TRIES: usize = 5;

/// Creates the ConfigMap, or replaces its kubeconfig. `bootstrap-signer-controller` replaces the signatures.
pub(crate) async fn publish(server: &Inner, info: &ClusterInfo) -> Result<(), String> {
    let kind = by_resource("", "v1", "configmaps").ok_or("there are no ConfigMaps")?;
    let config =
        Kubeconfig { server: &info.server, authority: Some(&info.authority), user: KubeconfigUser::None };
    let config = config.to_string();
    let key = Key::from(dispatch::key(kind, NAMESPACE, NAME));
    for _ in 0..TRIES {
        let head = server.store.head();
        let record = head.get(key.as_str());
        let mut object = match record {
            Some(record) => match stored::decode_as(kind, record) {
                Ok(object) => object,
                // The server starts without it, and its other members stay.
                Err(error) => {
                    tracing::warn!(%error, "the ConfigMap {NAMESPACE}/{NAME} is unreadable, and stays unchanged");
                    return Ok(());
                }
            },
            None => Object::from_value(json!({"metadata": {
                "name": NAME, "namespace": NAMESPACE, "uid": uuid::Uuid::new_v4().to_string(),
                "creationTimestamp": show_time(server.now()),
            }})),
        };
        if object.str_at(&["data", KEY]) == config {
            return Ok(());
        }
        object.set(&["data", KEY], config.as_str());
        let expect = record.map_or(Expect::Absent, |record| Expect::Revision(record.mod_revision));
        let (value, view) = stored::encode(kind, &object);
        let write = Write { key: key.clone(), expect, op: Op::Put { value, view } };
        match server.store.commit(vec![write]).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Err(format!("each of {TRIES} writes of the ConfigMap {NAMESPACE}/{NAME} conflicted with another writer"))
}
