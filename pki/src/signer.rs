//! The signers of Kubernetes, and the requests that they accept.
//!
//! Upstream: `ValidateKubeletClientCSR` and `ValidateKubeletServingCSR` in pkg/apis/certificates/helpers.go, and
//! pkg/controller/certificates/signer.

use std::collections::BTreeSet;

use crate::request::CertificateRequest;

/// The group of nodes, which is the organization of their certificates.
pub const NODES: &str = "system:nodes";
/// The prefix of the user of a node. The name of the node follows.
pub const NODE_PREFIX: &str = "system:node:";

/// A signer that the controller serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// Certificates of users.
    ApiserverClient,
    /// Certificates of nodes as clients of the API server.
    ApiserverClientKubelet,
    /// Certificates of the servers of nodes.
    KubeletServing,
    /// Any certificate, without a promise of the cluster to trust it.
    LegacyUnknown,
}

impl Signer {
    /// All signers.
    pub const ALL: [Signer; 4] = [
        Signer::ApiserverClient,
        Signer::ApiserverClientKubelet,
        Signer::KubeletServing,
        Signer::LegacyUnknown,
    ];

    /// The name in `spec.signerName`.
    pub fn name(self) -> &'static str {
        match self {
            Signer::ApiserverClient => "kubernetes.io/kube-apiserver-client",
            Signer::ApiserverClientKubelet => "kubernetes.io/kube-apiserver-client-kubelet",
            Signer::KubeletServing => "kubernetes.io/kubelet-serving",
            Signer::LegacyUnknown => "kubernetes.io/legacy-unknown",
        }
    }

    /// The signer of a name; `None` for a signer that another program serves.
    pub fn of(name: &str) -> Option<Signer> {
        Signer::ALL.into_iter().find(|signer| signer.name() == name)
    }

    /// Whether this signer signs such a request.
    ///
    /// # Errors
    /// Upstream's reason for a refusal.
    pub fn accepts(self, request: &CertificateRequest, usages: &[String]) -> Result<(), String> {
        match self {
            Signer::ApiserverClient => client_usages(usages),
            Signer::ApiserverClientKubelet => node_client(request, usages),
            Signer::KubeletServing => node_server(request, usages),
            Signer::LegacyUnknown => Ok(()),
        }
    }
}

/// A usage of RSA keys: they decrypt session keys. Some clients list it for other keys too, where it has no effect.
const KEY_ENCIPHERMENT: &str = "key encipherment";
const DIGITAL_SIGNATURE: &str = "digital signature";
const CLIENT_AUTH: &str = "client auth";
const SERVER_AUTH: &str = "server auth";

fn client_usages(usages: &[String]) -> Result<(), String> {
    for usage in usages {
        if ![DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, CLIENT_AUTH].contains(&usage.as_str()) {
            return Err(format!("invalid usage for client certificate: {usage}"));
        }
    }
    if usages.iter().any(|usage| usage == CLIENT_AUTH) {
        return Ok(());
    }
    Err(format!("missing required usage for client certificate: {CLIENT_AUTH}"))
}

fn node_client(request: &CertificateRequest, usages: &[String]) -> Result<(), String> {
    if request.organizations != [NODES] {
        return Err("subject organization is not system:nodes".to_owned());
    }
    let names = &request.names;
    for (kind, is_empty) in [
        ("DNS", names.dns.is_empty()),
        ("Email", names.emails.is_empty()),
        ("IP", names.addresses.is_empty()),
        ("URI", names.uris.is_empty()),
    ] {
        if !is_empty {
            return Err(format!("{kind} subjectAltNames are not allowed"));
        }
    }
    named_as_node(request)?;
    usages_are(usages, CLIENT_AUTH, "client auth digital signature key encipherment")
}

fn node_server(request: &CertificateRequest, usages: &[String]) -> Result<(), String> {
    if request.organizations != [NODES] {
        return Err("subject organization is not system:nodes".to_owned());
    }
    let names = &request.names;
    if names.dns.is_empty() && names.addresses.is_empty() {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    for (kind, is_empty) in [("Email", names.emails.is_empty()), ("URI", names.uris.is_empty())] {
        if !is_empty {
            return Err(format!("{kind} subjectAltNames are not allowed"));
        }
    }
    usages_are(usages, SERVER_AUTH, "digital signature key encipherment server auth")?;
    named_as_node(request)
}

fn named_as_node(request: &CertificateRequest) -> Result<(), String> {
    match request.common_name.starts_with(NODE_PREFIX) {
        true => Ok(()),
        false => Err("subject common name does not begin with system:node:".to_owned()),
    }
}

/// The usages must be the digital signature and `purpose`, with or without the encipherment of keys. `shown` is the list in the form
/// of Go's `%v`.
fn usages_are(usages: &[String], purpose: &str, shown: &str) -> Result<(), String> {
    let given: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    let all = BTreeSet::from([DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, purpose]);
    let without = BTreeSet::from([DIGITAL_SIGNATURE, purpose]);
    if given == all || given == without { Ok(()) } else { Err(format!("usages did not match [{shown}]")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::private_key::PrivateKey;
    use crate::request::{AlternativeNames, create};

    fn request(user: &str, groups: &[&str], names: &AlternativeNames) -> CertificateRequest {
        let (key, _) = PrivateKey::generate().unwrap();
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        let text = create(&key, user, &groups, names).unwrap();
        CertificateRequest::from_pem(text.as_bytes()).unwrap()
    }

    #[test]
    fn signers_accept_what_upstream_accepts() {
        let none = AlternativeNames::default();
        let dns = AlternativeNames { dns: vec!["n1".to_owned()], ..none.clone() };
        let address = AlternativeNames { addresses: vec!["10.0.0.1".parse().unwrap()], ..none.clone() };
        let email = AlternativeNames { emails: vec!["a@b".to_owned()], ..dns.clone() };
        let uri = AlternativeNames { uris: vec!["x://y".to_owned()], ..address.clone() };
        let node = |names: &AlternativeNames| request("system:node:n1", &[NODES], names);
        let user = |names: &AlternativeNames| request("ann", &["devs"], names);
        let misnamed = |names: &AlternativeNames| request("n1", &[NODES], names);
        let two_groups = request("system:node:n1", &[NODES, "system:masters"], &dns);
        let client = &[DIGITAL_SIGNATURE, CLIENT_AUTH][..];
        let server = &[DIGITAL_SIGNATURE, SERVER_AUTH][..];
        let organization = Err("subject organization is not system:nodes");
        let unnamed = Err("subject common name does not begin with system:node:");
        type Case<'a> = (&'a str, Signer, CertificateRequest, &'a [&'a str], Result<(), &'a str>);
        let cases: [Case<'_>; 25] = {
            use Signer::{ApiserverClient, ApiserverClientKubelet, KubeletServing, LegacyUnknown};
            [
                ("1 a user", ApiserverClient, user(&none), client, Ok(())),
                ("2 client auth alone", ApiserverClient, user(&dns), &[CLIENT_AUTH], Ok(())),
                (
                    "3 a server",
                    ApiserverClient,
                    user(&none),
                    server,
                    Err("invalid usage for client certificate: server auth"),
                ),
                (
                    "4 no client auth",
                    ApiserverClient,
                    user(&none),
                    &[DIGITAL_SIGNATURE],
                    Err("missing required usage for client certificate: client auth"),
                ),
                ("5 a node", ApiserverClientKubelet, node(&none), client, Ok(())),
                (
                    "6 a node with RSA",
                    ApiserverClientKubelet,
                    node(&none),
                    &[CLIENT_AUTH, KEY_ENCIPHERMENT, DIGITAL_SIGNATURE],
                    Ok(()),
                ),
                ("7 a user as a node", ApiserverClientKubelet, user(&none), client, organization),
                ("8 more groups", ApiserverClientKubelet, two_groups.clone(), client, organization),
                ("9 without the prefix", ApiserverClientKubelet, misnamed(&none), client, unnamed),
                (
                    "10 DNS",
                    ApiserverClientKubelet,
                    node(&dns),
                    client,
                    Err("DNS subjectAltNames are not allowed"),
                ),
                (
                    "11 IP",
                    ApiserverClientKubelet,
                    node(&address),
                    client,
                    Err("IP subjectAltNames are not allowed"),
                ),
                (
                    "12 URI after IP",
                    ApiserverClientKubelet,
                    node(&uri),
                    client,
                    Err("IP subjectAltNames are not allowed"),
                ),
                (
                    "13 usages",
                    ApiserverClientKubelet,
                    node(&none),
                    server,
                    Err("usages did not match [client auth digital signature key encipherment]"),
                ),
                (
                    "14 one usage",
                    ApiserverClientKubelet,
                    node(&none),
                    &[CLIENT_AUTH],
                    Err("usages did not match [client auth digital signature key encipherment]"),
                ),
                ("15 a server", KubeletServing, node(&dns), server, Ok(())),
                ("16 an address", KubeletServing, node(&address), server, Ok(())),
                (
                    "17 no name",
                    KubeletServing,
                    node(&none),
                    server,
                    Err("DNS or IP subjectAltName is required"),
                ),
                (
                    "18 an email",
                    KubeletServing,
                    node(&email),
                    server,
                    Err("Email subjectAltNames are not allowed"),
                ),
                ("19 a URI", KubeletServing, node(&uri), server, Err("URI subjectAltNames are not allowed")),
                (
                    "20 usages",
                    KubeletServing,
                    node(&dns),
                    client,
                    Err("usages did not match [digital signature key encipherment server auth]"),
                ),
                ("21 a user", KubeletServing, user(&dns), server, organization),
                ("22 more groups", KubeletServing, two_groups, server, organization),
                ("23 without the prefix", KubeletServing, misnamed(&dns), server, unnamed),
                ("24 anything", LegacyUnknown, user(&uri), server, Ok(())),
                ("25 no usage", LegacyUnknown, user(&none), &[], Ok(())),
            ]
        };
        for (case, signer, request, usages, want) in cases {
            let usages: Vec<String> = usages.iter().map(|usage| (*usage).to_owned()).collect();
            assert_eq!(signer.accepts(&request, &usages), want.map_err(str::to_owned), "{case}");
        }
        for signer in Signer::ALL {
            assert_eq!(Signer::of(signer.name()), Some(signer));
        }
        assert_eq!(Signer::of("example.org/x"), None);
    }
}
