//! The `IPAddress` kind: an address that an object, such as a Service, owns.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;
use orlop_apimachinery::names;
use serde_json::{Value, json};

use super::GROUP;
use crate::kind::{Column, Kind, NameRule, Names, Policy, Scope};
use crate::object::Object;
use crate::registry::go_format::Shape;
use crate::registry::service::fields::family_of;
use crate::registry::workload::{given, spec, text};
use crate::registry::{cells, checks};
use crate::validate::{FieldErrors, Path};

/// The `IPAddress` kind.
pub(in crate::registry) struct IpAddress;

const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "IPAddress",
    plural: "ipaddresses",
    singular: "ipaddress",
    short: &["ip"],
    categories: &[],
    schema: "io.k8s.api.networking.v1.IPAddress",
};

/// The label with the family of the address.
const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
/// The label with the owner of the object.
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// The owner of the addresses of Services.
const ALLOCATOR: &str = "ipallocator.k8s.io";

const PARENT: Shape = Shape::Pointer(&[
    ("Group", "group", Shape::Text),
    ("Resource", "resource", Shape::Text),
    ("Namespace", "namespace", Shape::Text),
    ("Name", "name", Shape::Text),
]);

/// The object for a cluster IP of a Service.
pub fn of_service(ip: IpAddr, service: &Object) -> Object {
    Object::from_value(json!({
        "metadata": {
            "name": ip.to_string(), "labels": {FAMILY: family_of(ip), MANAGED_BY: ALLOCATOR},
        },
        "spec": {"parentRef": {
            "resource": "services", "namespace": service.namespace(), "name": service.name(),
        }},
    }))
}

/// Namespace and name of the Service that owns an address, if the server has created the object.
pub fn owner(address: &Object) -> Option<(&str, &str)> {
    let parent = spec(address).get("parentRef")?;
    let is_managed = address.labels().and_then(|labels| labels.get(MANAGED_BY)) == Some(&ALLOCATOR.into());
    let is_service = text(parent, "group").is_empty() && text(parent, "resource") == "services";
    (is_managed && is_service).then(|| (text(parent, "namespace"), text(parent, "name")))
}

impl Kind for IpAddress {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/ipaddresses/"
    }

    fn policy(&self) -> Policy {
        Policy { names: NameRule::PathSegment, ..Policy::DEFAULT }
    }

    fn validate(&self, address: &Object, errors: &mut FieldErrors) {
        let name = address.name();
        if let Some(why) = name_problem(name).filter(|_| !name.is_empty()) {
            errors.invalid(&Path::new("metadata.name"), name, &why);
        }
        let path = Path::new("spec").child("parentRef");
        let Some(parent) = given(spec(address), "parentRef") else { return errors.required(&path, "") };
        let group = text(parent, "group");
        if !group.is_empty() {
            checks::subdomain(errors, &path.child("group"), group);
        }
        for (field, is_required) in [("resource", true), ("name", true), ("namespace", false)] {
            let (value, at) = (text(parent, field), path.child(field));
            if !value.is_empty() {
                checks::each(errors, &at, value, names::path_segment(value));
            } else if is_required {
                errors.required(&at, "");
            }
        }
    }

    fn validate_update(&self, address: &Object, old: &Object, errors: &mut FieldErrors) {
        let parent = |address: &Object| PARENT.show(spec(address).get("parentRef"));
        let (new, old) = (parent(address), parent(old));
        if new != old {
            errors.invalid_shown(&Path::new("spec.parentRef"), &new, checks::IMMUTABLE);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[cells::NAME, cells::text("ParentRef", "The object that owns the address.")];
        COLUMNS
    }

    /// As upstream's, rows have the age as a third cell without a column.
    fn cells(&self, address: &Object, now: Timestamp) -> Vec<Value> {
        let shown = given(spec(address), "parentRef").map(|parent| {
            let resource = match (text(parent, "resource"), text(parent, "group")) {
                (resource, "") => resource.to_lowercase(),
                (resource, group) => format!("{resource}.{group}").to_lowercase(),
            };
            let mut place = vec![resource.as_str()];
            place.extend(Some(text(parent, "namespace")).filter(|namespace| !namespace.is_empty()));
            place.push(text(parent, "name"));
            place.join("/")
        });
        vec![
            cells::name(address),
            shown.unwrap_or_else(|| "<none>".to_owned()).into(),
            cells::age(address, now),
        ]
    }
}

/// Why a name is not an address in its canonical form, as Go's `netip.ParseAddr` reports it.
fn name_problem(name: &str) -> Option<String> {
    if let Ok(ip) = name.parse::<IpAddr>() {
        return (ip.to_string() != name).then(|| "must be a canonical format IP address".to_owned());
    }
    let problem = match name.find(['.', ':', '%']).map(|at| name.as_bytes()[at]) {
        Some(b'.') => ipv4_problem(name),
        Some(b'%') => "missing IPv6 address".to_owned(),
        _ => "unable to parse IP".to_owned(),
    };
    Some(format!("ParseAddr({name:?}): {problem}"))
}

/// The first problem of an IPv4 address, from left to right.
fn ipv4_problem(name: &str) -> String {
    let (mut fields, mut value, mut digits) = (0, 0_u32, 0);
    for (at, char) in name.char_indices() {
        match char.to_digit(10) {
            Some(digit) => {
                if digits == 1 && value == 0 {
                    return "IPv4 field has octet with leading zero".to_owned();
                }
                value = value * 10 + digit;
                digits += 1;
                if value > 255 {
                    return "IPv4 field has value >255".to_owned();
                }
            }
            None if char == '.' => {
                let rest = &name[at..];
                if at == 0 || rest == "." || digits == 0 {
                    return format!("IPv4 field must have at least one digit (at {rest:?})");
                }
                if fields == 3 {
                    return "IPv4 address too long".to_owned();
                }
                (fields, value, digits) = (fields + 1, 0, 0);
            }
            None => return format!("unexpected character (at {:?})", &name[at..]),
        }
    }
    "IPv4 address too short".to_owned()
}

/// The address at the beginning of a range, and whether only bits of the prefix are set. `None` if the text is no range.
pub(super) fn range_start(text: &str) -> Option<(IpAddr, u32)> {
    let (ip, bits) = text.split_once('/')?;
    let (ip, bits): (IpAddr, u32) = (ip.parse().ok()?, bits.parse().ok()?);
    let start = match ip {
        IpAddr::V4(ip) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or_default();
            IpAddr::V4(Ipv4Addr::from(u32::from(ip) & mask))
        }
        IpAddr::V6(ip) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or_default();
            IpAddr::V6(Ipv6Addr::from(u128::from(ip) & mask))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => return None,
    };
    Some((start, bits))
}
