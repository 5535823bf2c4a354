//! The `ServiceCIDR` kind: ranges for the cluster IPs of Services. The server assigns addresses only from its own range, which the
//! object `kubernetes` describes.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ip_address::range_start;
use super::{GROUP, items};
use crate::kind::{Column, Kind, Names, Policy, Scope, StatusSubresource};
use crate::object::Object;
use crate::registry::go_format::Shape;
use crate::registry::workload::spec;
use crate::registry::{addresses, cells, checks};
use crate::validate::{FieldErrors, Path};

/// The `ServiceCIDR` kind.
pub(in crate::registry) struct ServiceCidr;

const NAMES: Names = Names {
    group: GROUP,
    version: "v1",
    kind: "ServiceCIDR",
    plural: "servicecidrs",
    singular: "servicecidr",
    short: &[],
    categories: &[],
    schema: "io.k8s.api.networking.v1.ServiceCIDR",
};

const SPEC: Shape = Shape::Struct(&[("CIDRs", "cidrs", Shape::Plain)]);

/// The object that describes the range of this server.
pub fn default_object(range: &str, now: Timestamp) -> Object {
    Object::from_value(json!({
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [range]},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "",
            "message": "Kubernetes default Service CIDR is ready", "lastTransitionTime": checks::seconds(now),
        }]},
    }))
}

impl Kind for ServiceCidr {
    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn storage_prefix(&self) -> &'static str {
        "/registry/servicecidrs/"
    }

    fn policy(&self) -> Policy {
        Policy { status: StatusSubresource::WithMetadata, ..Policy::DEFAULT }
    }

    fn validate(&self, object: &Object, errors: &mut FieldErrors) {
        let (spec, path) = (spec(object), Path::new("spec.cidrs"));
        let ranges = items(spec, "cidrs");
        let families: Vec<Option<bool>> = ranges
            .iter()
            .map(|range| range.as_str().and_then(range_start).map(|(start, _)| start.is_ipv4()))
            .collect();
        match families.as_slice() {
            [] => errors.required(&path, "at least one CIDR required"),
            [_] => each_range(ranges, &path, errors),
            [Some(first), Some(second)] if first != second => each_range(ranges, &path, errors),
            [_, _] => errors.invalid_shown(
                &path,
                &SPEC.show(Some(spec)),
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
            ),
            _ => errors.invalid_shown(&path, &SPEC.show(Some(spec)), "may only hold up to 2 values"),
        }
    }

    /// A second range may be added. Ranges neither change nor disappear.
    fn validate_update(&self, object: &Object, old: &Object, errors: &mut FieldErrors) {
        let path = Path::new("spec.cidrs");
        let (new, old) = (items(spec(object), "cidrs"), items(spec(old), "cidrs"));
        if new.len() < old.len() {
            return errors.invalid(&path, new.to_vec(), checks::IMMUTABLE);
        }
        for (at, (new, _)) in new.iter().zip(old).enumerate().filter(|(_, (new, old))| new != old) {
            errors.invalid(&path.index(at), new.clone(), checks::IMMUTABLE);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[cells::NAME, cells::text("CIDRs", "The ranges of addresses."), cells::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let ranges: Vec<&str> = items(spec(object), "cidrs").iter().filter_map(Value::as_str).collect();
        vec![cells::name(object), ranges.join(",").into(), cells::age(object, now)]
    }
}

fn each_range(ranges: &[Value], path: &Path, errors: &mut FieldErrors) {
    for (at, range) in ranges.iter().enumerate() {
        one_range(range.as_str().unwrap_or_default(), &path.index(at), errors);
    }
}

/// A range in its canonical form.
fn one_range(range: &str, path: &Path, errors: &mut FieldErrors) {
    let Some((start, bits)) = range_start(range) else { return addresses::cidr(range, path, errors) };
    let (ip, length) = range.split_once('/').unwrap_or((range, ""));
    let ip = ip.parse().unwrap_or(start);
    let canonical = format!("{start}/{bits}");
    let why = match ip {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
            "must not have an IPv4-mapped IPv6 address".to_owned()
        }
        _ if length != bits.to_string() => "must not have leading 0s in IP or prefix length".to_owned(),
        _ if ip != start => "must not have bits set beyond the prefix length".to_owned(),
        _ if range != canonical => format!("must be in canonical form ({canonical:?})"),
        _ => return,
    };
    errors.invalid(path, range, &why);
}
