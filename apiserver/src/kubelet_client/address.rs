//! The address of a node's kubelet, and whether the server connects to it. Pure, except for the addresses of this machine.
//!
//! A client with write access to a Node chooses its addresses. So the server connects neither to its own port nor, unless the node is this
//! machine, to an address that leads to this machine or to its link.

use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::str::FromStr;

use orlop_api::object::Object;
use serde_json::Value;

use crate::https;

/// A type of node addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressType {
    /// The name of the machine, which often cannot be resolved.
    Hostname,
    /// A name in the network of the nodes.
    InternalDns,
    /// An address in the network of the nodes.
    InternalIp,
    /// A public name.
    ExternalDns,
    /// A public address.
    ExternalIp,
}

impl AddressType {
    /// The default order. Upstream's begins with the name of the machine.
    pub const PREFERRED: [AddressType; 5] = [
        AddressType::InternalIp,
        AddressType::Hostname,
        AddressType::InternalDns,
        AddressType::ExternalDns,
        AddressType::ExternalIp,
    ];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            AddressType::Hostname => "Hostname",
            AddressType::InternalDns => "InternalDNS",
            AddressType::InternalIp => "InternalIP",
            AddressType::ExternalDns => "ExternalDNS",
            AddressType::ExternalIp => "ExternalIP",
        }
    }
}

impl fmt::Display for AddressType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Not a type of node addresses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no type of node addresses; use Hostname, InternalDNS, InternalIP, ExternalDNS or ExternalIP"
)]
pub struct UnknownAddressType(String);

impl FromStr for AddressType {
    type Err = UnknownAddressType;

    fn from_str(text: &str) -> Result<Self, UnknownAddressType> {
        let found = AddressType::PREFERRED.into_iter().find(|known| known.name() == text);
        found.ok_or_else(|| UnknownAddressType(text.to_owned()))
    }
}

/// The host and the port of a kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubeletAddress {
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether the Node states the boot ID of this machine.
    pub(super) is_this_machine: bool,
}

impl fmt::Display for KubeletAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&https::host_port(&self.host, self.port))
    }
}

/// A Node without a usable address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

impl KubeletAddress {
    /// The address of a node's kubelet, by the first preferred type that the node has.
    ///
    /// Upstream: `pkg/util/node` (GetPreferredNodeAddress).
    pub(super) fn of(node: &Object, preferred: &[AddressType], port: u16) -> Result<Self, Refusal> {
        let addresses =
            node.at(&["status", "addresses"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let of_type =
            |wanted: &AddressType| addresses.iter().find(|address| address["type"] == wanted.name());
        let Some(best) = preferred.iter().find_map(of_type) else {
            return Err(Refusal("no preferred addresses found; known addresses: []".to_owned()));
        };
        let host = best["address"].as_str().unwrap_or_default().to_owned();
        let named =
            node.at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).and_then(Value::as_i64);
        let port = named.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0).unwrap_or(port);
        let boot_id = node.str_at(&["status", "nodeInfo", "bootID"]);
        let is_this_machine = !boot_id.is_empty() && boot_id == own_boot_id();
        Ok(KubeletAddress { host, port, is_this_machine })
    }

    /// The name or the IP address of the machine.
    pub(crate) fn host(&self) -> String {
        self.host.clone()
    }

    /// The port of the kubelet.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Another server of the machine.
    pub(crate) fn with_port(self, port: u16) -> Self {
        KubeletAddress { port, ..self }
    }

    /// Whether the server connects to an address of this kubelet.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn check(&self, address: SocketAddr, own_port: Option<u16>) -> Result<(), String> {
        let ip = address.ip().to_canonical();
        check_not_own(ip, address.port(), own_port)?;
        let is_own = is_own(ip);
        if self.is_this_machine && is_own {
            return Ok(());
        }
        if is_own || !is_somewhere_else(&ip.to_string()) {
            return Err("the address is not that of another machine".to_owned());
        }
        Ok(())
    }
}

/// Checks that an address does not lead to this server, which listens on a port.
///
/// # Errors
/// The reason.
pub(super) fn check_not_own(ip: IpAddr, port: u16, own_port: Option<u16>) -> Result<(), String> {
    if own_port == Some(port) && is_own(ip.to_canonical()) {
        return Err("the address is that of this server".to_owned());
    }
    Ok(())
}

fn is_own(ip: IpAddr) -> bool {
    ip.is_loopback() || is_local(ip)
}

/// Whether an address belongs to this machine: a datagram socket can be bound to it.
fn is_local(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// Whether an address can belong to a pod: a unicast address that is neither loopback nor link-local. The kernel connects an
/// IPv4-mapped address (`::ffff:127.0.0.1`) to the IPv4 address.
pub(crate) fn is_somewhere_else(address: &str) -> bool {
    match address.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(IpAddr::V4(ip)) => {
            !(ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_multicast()
                || ip.is_link_local()
                || ip.is_broadcast())
        }
        Ok(IpAddr::V6(ip)) => {
            !(ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || ip.is_unicast_link_local())
        }
        Err(_) => false,
    }
}

/// The identifier of the current boot of this machine, as agents publish it in `status.nodeInfo.bootID`.
pub(crate) fn own_boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(addresses: Value, port: Value) -> Object {
        Object::from_value(json!({"status": {"addresses": addresses,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}}))
    }

    #[test]
    fn address_is_of_the_first_preferred_type() {
        let both =
            json!([{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.1"}]);
        let default = &AddressType::PREFERRED[..];
        for (case, addresses, port, preferred, want) in [
            ("1 by default", both.clone(), json!(10250), default, Some("10.0.0.1:10250")),
            ("2 another order", both.clone(), json!(1), &[AddressType::Hostname], Some("n:1")),
            ("3 no port", both.clone(), json!(0), default, Some("10.0.0.1:99")),
            ("4 an impossible port", both.clone(), json!(70_000), default, Some("10.0.0.1:99")),
            (
                "5 IPv6",
                json!([{"type": "InternalIP", "address": "fd00::1"}]),
                json!(5),
                default,
                Some("[fd00::1]:5"),
            ),
            ("6 no such type", both, json!(5), &[AddressType::ExternalIp], None),
            ("7 no addresses", json!(null), json!(5), default, None),
        ] {
            let found = KubeletAddress::of(&node(addresses, port), preferred, 99);
            assert_eq!(found.ok().map(|found| found.to_string()).as_deref(), want, "{case}");
        }
    }

    #[test]
    fn server_connects_to_other_machines_and_to_kubelets_of_this_one() {
        let (own, other) =
            ("the address is that of this server", "the address is not that of another machine");
        for (address, is_this_machine, want) in [
            ("192.0.2.1:10250", false, Ok(())),
            ("[2001:db8::1]:10250", false, Ok(())),
            ("127.0.0.1:10250", false, Err(other)),
            ("127.0.0.1:10250", true, Ok(())),
            ("[::ffff:127.0.0.1]:10250", false, Err(other)),
            ("127.0.0.1:6443", true, Err(own)),
            ("169.254.169.254:80", false, Err(other)),
            ("169.254.169.254:80", true, Err(other)),
            ("0.0.0.0:10250", false, Err(other)),
            ("224.0.0.1:10250", false, Err(other)),
        ] {
            let kubelet = KubeletAddress { host: String::new(), port: 0, is_this_machine };
            let found = kubelet.check(address.parse().expect("an address"), Some(6443));
            assert_eq!(found, want.map_err(str::to_owned), "{address} {is_this_machine}");
        }
    }

    #[test]
    fn address_types_are_parsed() {
        for one in AddressType::PREFERRED {
            assert_eq!(one.name().parse(), Ok(one));
        }
        assert!("internalip".parse::<AddressType>().is_err());
    }
}
