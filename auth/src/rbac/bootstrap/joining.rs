//! The objects that let nodes join with a bootstrap token, with the names of kubeadm: the ConfigMap `cluster-info` is
//! public, a token may request the certificate of a node, and such requests and their renewals are approved. The server may use
//! the API of kubelets.
//!
//! Only a server with an authority that signs certificates needs them. Upstream: cmd/kubeadm/app/phases/bootstraptoken/{clusterinfo,node}.

use serde_json::{Value, json};

use super::{CORE, GET, KUBE_PUBLIC, Subject, metadata, named, role_ref, rules, subjects};

/// The group of kubeadm's bootstrap tokens.
const TOKENS: Subject = Subject::Group("system:bootstrappers:kubeadm:default-node-token");
const NODES: Subject = Subject::Group("system:nodes");
const ANONYMOUS: Subject = Subject::User("system:anonymous");

const REQUESTS: &str = "system:certificates.k8s.io:certificatesigningrequests:";
const CLUSTER_INFO_ROLE: &str = "kubeadm:bootstrap-signer-clusterinfo";

/// The user of the server's certificate for kubelets, with kubeadm's name. Kubelets ask the server for its rights.
pub const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// The ClusterRoleBindings, without `apiVersion` and `kind`.
pub fn cluster_role_bindings() -> Vec<Value> {
    let bindings = [
        ("kubeadm:kubelet-bootstrap", "system:node-bootstrapper".to_owned(), TOKENS),
        ("kubeadm:node-autoapprove-bootstrap", format!("{REQUESTS}nodeclient"), TOKENS),
        ("kubeadm:node-autoapprove-certificate-rotation", format!("{REQUESTS}selfnodeclient"), NODES),
        ("orlop:kubelet-api-admin", "system:kubelet-api-admin".to_owned(), Subject::User(KUBELET_CLIENT)),
    ];
    let wire = |(name, role, subject): (&str, String, Subject)| {
        json!({
            "metadata": metadata(name, None, None), "roleRef": role_ref("ClusterRole", &role),
            "subjects": subjects(&[subject]),
        })
    };
    bindings.into_iter().map(wire).collect()
}

/// The Role in `kube-public`.
pub fn roles() -> Vec<Value> {
    let read = [named(GET, CORE, &["configmaps"], &["cluster-info"])];
    vec![json!({"metadata": metadata(CLUSTER_INFO_ROLE, Some(KUBE_PUBLIC), None), "rules": rules(&read)})]
}

/// The RoleBinding in `kube-public`.
pub fn role_bindings() -> Vec<Value> {
    vec![json!({
        "metadata": metadata(CLUSTER_INFO_ROLE, Some(KUBE_PUBLIC), None),
        "roleRef": role_ref("Role", CLUSTER_INFO_ROLE), "subjects": subjects(&[ANONYMOUS]),
    })]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_name_roles_that_exist() {
        let known = super::super::cluster_roles();
        for binding in cluster_role_bindings() {
            let role = &binding["roleRef"]["name"];
            assert!(known.iter().any(|known| known["metadata"]["name"] == *role), "{role}");
        }
        let role = &roles()[0]["metadata"]["name"];
        assert_eq!(role_bindings()[0]["roleRef"]["name"], *role);
    }
}
