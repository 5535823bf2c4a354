//! Rights to the status of claims, and to devices with administrative access.

use super::*;
use crate::kind::{Permission, WriteContext};

/// A user with some permissions, in a namespace with or without the label.
struct Context {
    is_admin_namespace: bool,
    granted: &'static [&'static str],
    node: Option<&'static str>,
}

impl WriteContext for Context {
    fn verb(&self) -> &'static str {
        "update"
    }

    fn namespace_label(&self, key: &str) -> Option<String> {
        let is_set = self.is_admin_namespace && key == "resource.kubernetes.io/admin-access";
        is_set.then(|| "true".to_owned())
    }

    fn check(&self, permission: Permission<'_>) -> Result<(), String> {
        let Permission { verb, subresource, namespace, name } = permission;
        let asked = format!("{verb} {subresource} {namespace}/{name}");
        if self.granted.contains(&asked.as_str()) { Ok(()) } else { Err(format!("no {asked}")) }
    }

    fn service_account_node(&self) -> Option<String> {
        self.node.map(str::to_owned)
    }
}

const UNPRIVILEGED: Context = Context { is_admin_namespace: false, granted: &[], node: None };

/// A case, the status before and after, the context, and the path and message of the error.
type Case<'a> = (&'a str, &'a Value, &'a Value, &'a Context, Option<(&'a str, &'a str)>);

#[test]
fn admin_access_needs_the_label_of_the_namespace() {
    let why = "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the \
               containing namespace";
    let admin = claim(request(json!({"exactly": {"adminAccess": true}})));
    let plain = claim(request(json!({"exactly": {"adminAccess": false}})));
    let labeled = Context { is_admin_namespace: true, ..UNPRIVILEGED };
    let found = causes(|errors| CLAIM.validate_in_context(&admin, None, &UNPRIVILEGED, errors));
    assert_eq!(found, [(FORBIDDEN, "spec.devices.requests[0].adminAccess", why)]);
    assert!(causes(|errors| CLAIM.validate_in_context(&admin, None, &labeled, errors)).is_empty());
    assert!(causes(|errors| CLAIM.validate_in_context(&plain, None, &UNPRIVILEGED, errors)).is_empty());
    let template = object(json!({"spec": {"spec": admin.at(&["spec"]).unwrap()}}));
    let found = causes(|errors| TEMPLATE.validate_in_context(&template, None, &UNPRIVILEGED, errors));
    assert_eq!(found, [(FORBIDDEN, "spec.devices.requests[0].adminAccess", why)]);
}

#[test]
fn parts_of_the_status_need_separate_rights() {
    let allocation = json!({
        "devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]},
        "nodeSelector": {"nodeSelectorTerms": [{
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
        }]},
    });
    let empty = json!({});
    let bound = json!({"allocation": allocation});
    let reported =
        json!({"allocation": allocation, "devices": [{"driver": "d", "pool": "p", "device": "x"}]});
    let scheduler = Context { granted: &["update binding /"], ..UNPRIVILEGED };
    let local = Context { granted: &["associated-node:update driver n/d"], node: Some("n1"), ..UNPRIVILEGED };
    let elsewhere = Context { node: Some("n2"), ..local };
    let global = Context { granted: &["arbitrary-node:update driver n/d"], ..UNPRIVILEGED };
    let no_binding = "Forbidden: changing status.allocation or status.reservedFor requires \
                      resource=\"resourceclaims/binding\", verb=\"update\" permission: no update binding /";
    let no_driver = "Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", \
                     verb=\"[arbitrary-node:update]\" permission: no arbitrary-node:update driver n/d";
    let with = |status: &Value| {
        let mut claim = claim(request(json!({})));
        claim.set(&["status"], status.clone());
        claim
    };
    let cases: [Case<'_>; 9] = [
        ("nothing changes", &bound, &bound, &UNPRIVILEGED, None),
        ("a scheduler allocates", &empty, &bound, &scheduler, None),
        ("another user allocates", &empty, &bound, &global, Some(("status", no_binding))),
        ("another user deallocates", &bound, &empty, &local, Some(("status", no_binding))),
        ("the driver on the node reports", &bound, &reported, &local, None),
        ("the driver on the node deletes its report", &reported, &bound, &local, None),
        (
            "a driver on another node reports",
            &bound,
            &reported,
            &elsewhere,
            Some(("status.devices", no_driver)),
        ),
        ("a driver for all nodes reports", &bound, &reported, &global, None),
        ("a scheduler reports", &bound, &reported, &scheduler, Some(("status.devices", no_driver))),
    ];
    for (case, old, new, context, want) in cases {
        let (old, new) = (with(old), with(new));
        let want: Vec<_> = want.iter().map(|(path, why)| (FORBIDDEN, *path, *why)).collect();
        let found = causes(|errors| CLAIM.validate_in_context(&new, Some(&old), context, errors));
        assert_eq!(found, want, "{case}");
    }
}
