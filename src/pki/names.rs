//! The DNS names and IP addresses of the certificate that the server signs for itself.

use std::net::{IpAddr, SocketAddr};

/// The names by which Pods and this machine reach the server (upstream: kubeadm's `GetAPIServerAltNames`).
const FIXED: [&str; 7] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// All names, without repetitions: the fixed ones, the machine's name and addresses, the addresses of the server and of the Service
/// `kubernetes`, and the given ones.
pub(crate) fn server_names(server: SocketAddr, service: IpAddr, given: &[String]) -> Vec<String> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let interfaces = interfaces.iter().map(if_addrs::Interface::ip).filter(|ip| !is_link_local(*ip));
    collect(&host, interfaces, server, service, given)
}

/// Pure.
fn collect(
    host: &str,
    interfaces: impl Iterator<Item = IpAddr>,
    server: SocketAddr,
    service: IpAddr,
    given: &[String],
) -> Vec<String> {
    let mut names: Vec<String> = FIXED.map(str::to_owned).to_vec();
    names.push(host.to_owned());
    names.extend([server.ip(), service].map(|ip| ip.to_string()));
    let mut interfaces: Vec<String> = interfaces.map(|ip| ip.to_string()).collect();
    // The order of the system may change; the names do not.
    interfaces.sort_unstable();
    names.extend(interfaces);
    names.extend(given.iter().cloned());
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| !name.is_empty() && seen.insert(name.clone()));
    names
}

/// Such addresses need the name of an interface, which a certificate cannot contain.
fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_are_complete_and_occur_once() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let interfaces = [ip("127.0.0.1"), ip("192.168.1.7"), ip("10.1.0.3")];
        let given = ["orlop.example.org".to_owned(), "edge-1".to_owned()];
        let server = "192.168.1.7:6443".parse().unwrap();
        let got = collect("edge-1", interfaces.into_iter(), server, ip("10.0.0.1"), &given);
        let rest = ["edge-1", "192.168.1.7", "10.0.0.1", "10.1.0.3", "orlop.example.org"];
        assert_eq!(got, FIXED.iter().chain(&rest).copied().collect::<Vec<_>>());
    }
}
