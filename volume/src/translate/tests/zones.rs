//! Zones and regions of volumes, in both directions.

use super::*;

const REGION: &str = "topology.kubernetes.io/region";

fn affinity(terms: &[&[(&str, &[&str])]]) -> Value {
    let term = |all: &&[(&str, &[&str])]| {
        let all: Vec<Value> =
            all.iter().map(|(key, values)| json!({"key": key, "operator": "In", "values": values})).collect();
        json!({"matchExpressions": all})
    };
    let terms: Vec<Value> = terms.iter().map(term).collect();
    json!({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}})
}

#[test]
fn volume_zones_translate_to_driver_keys() {
    let disk = json!({"gcePersistentDisk": {"pdName": "d"}});
    let key = "topology.gke.io/zone";
    for (case, labels, before, handle, after) in [
        ("1 none", json!({}), json!({}), "zones/UNSPECIFIED", json!({})),
        (
            "2 a label",
            json!({ZONE: "us-b1-a"}),
            json!({}),
            "zones/us-b1-a",
            affinity(&[&[(key, &["us-b1-a"])]]),
        ),
        (
            "3 an old label",
            json!({BETA_ZONE: "us-b1-a"}),
            json!({}),
            "zones/us-b1-a",
            affinity(&[&[(key, &["us-b1-a"])]]),
        ),
        (
            "4 two zones",
            json!({ZONE: "us-b1-b__us-b1-a"}),
            json!({}),
            "regions/us-b1",
            affinity(&[&[(key, &["us-b1-a", "us-b1-b"])]]),
        ),
        (
            "5 the affinity goes first",
            json!({ZONE: "us-b1-a"}),
            affinity(&[&[(ZONE, &["us-b1-c"])], &[("x", &["y"]), (ZONE, &["us-b1-d"])]]),
            "zones/us-b1-a",
            affinity(&[&[(key, &["us-b1-c"])], &[("x", &["y"]), (key, &["us-b1-d"])]]),
        ),
        (
            "6 labels are added to what there is",
            json!({ZONE: "us-b1-a"}),
            affinity(&[&[("x", &["y"])]]),
            "zones/us-b1-a",
            affinity(&[&[("x", &["y"]), (key, &["us-b1-a"])]]),
        ),
        (
            "7 old names of regions",
            json!({}),
            affinity(&[&[
                (BETA_ZONE, &["us-b1-a"]),
                ("failure-domain.beta.kubernetes.io/region", &["us-b1"]),
            ]]),
            "zones/UNSPECIFIED",
            affinity(&[&[(key, &["us-b1-a"]), (REGION, &["us-b1"])]]),
        ),
    ] {
        let volume = volume(disk.clone(), json!({"metadata": {"labels": labels}, "spec": before}));
        let got = show(to_csi(&volume));
        assert_eq!(
            got["spec"]["csi"]["volumeHandle"],
            format!("projects/UNSPECIFIED/{handle}/disks/d"),
            "{case}"
        );
        assert_eq!(got["spec"].get("nodeAffinity"), after.get("nodeAffinity"), "{case}");
        assert_eq!(got["metadata"].get("labels").cloned().unwrap_or(json!({})), labels, "{case}");
    }
    // No region contains both zones.
    let far = json!({"metadata": {"labels": {ZONE: "us-b1-a__eu-b1-a"}}});
    assert!(to_csi(&volume(disk, far)).is_none());
    let vsphere = json!({"metadata": {"labels": {ZONE: "z", REGION: "r"}}});
    let vsphere = show(to_csi(&volume(json!({"vsphereVolume": {"volumePath": "p"}}), vsphere)));
    let want =
        affinity(&[&[("topology.csi.vmware.com/zone", &["z"]), ("topology.csi.vmware.com/region", &["r"])]]);
    assert_eq!(vsphere["spec"]["nodeAffinity"], want["nodeAffinity"]);
}

#[test]
fn driver_zones_translate_back_to_kubernetes_keys() {
    let ebs = "topology.ebs.csi.aws.com/zone";
    for (case, zones, want) in [
        ("1 a zone", affinity(&[&[(ebs, &["us-west-2a"])]]), Some(("us-west-2", "us-west-2a"))),
        (
            "2 two zones",
            affinity(&[&[(ebs, &["us-gov-east-1b", "us-gov-east-1a"])]]),
            Some(("us-gov-east-1", "us-gov-east-1a__us-gov-east-1b")),
        ),
        (
            "3 a local zone",
            affinity(&[&[(ebs, &["us-west-2-lax-1a"])]]),
            Some(("us-west-2", "us-west-2-lax-1a")),
        ),
        (
            "4 a wavelength",
            affinity(&[&[(ebs, &["us-east-1-wl1-bos-wlz-1"])]]),
            Some(("us-east-1", "us-east-1-wl1-bos-wlz-1")),
        ),
        ("5 two regions", affinity(&[&[(ebs, &["us-west-2a", "us-east-1a"])]]), None),
        ("6 no zone at all", affinity(&[&[(ebs, &["here"])]]), None),
    ] {
        let source = json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}});
        let got = from_csi(&volume(source, json!({ "spec": zones })));
        let Some((region, zone)) = want else {
            assert!(got.is_none(), "{case}");
            continue;
        };
        let got = show(got);
        assert_eq!(got["metadata"]["labels"], json!({ZONE: zone, REGION: region}), "{case}");
        let expressions =
            &got["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"];
        let keys: Vec<&Value> = expressions.as_array().unwrap().iter().map(|e| &e["key"]).collect();
        assert_eq!(keys, [ZONE, REGION], "{case}");
        assert_eq!(expressions[1]["values"], json!([region]), "{case}");
    }
    let key = "topology.cinder.csi.openstack.org/zone";
    let cinder = json!({"csi": {"driver": "cinder.csi.openstack.org", "volumeHandle": "v"}});
    let labelled =
        json!({"metadata": {"labels": {BETA_ZONE: "nova"}}, "spec": affinity(&[&[(key, &["nova"])]])});
    let got = show(from_csi(&volume(cinder, labelled)));
    assert_eq!(got["spec"]["nodeAffinity"], affinity(&[&[(BETA_ZONE, &["nova"])]])["nodeAffinity"]);
    assert_eq!(got["metadata"]["labels"], json!({BETA_ZONE: "nova"}));
    let vsphere = json!({"csi": {"driver": "csi.vsphere.vmware.com", "volumeHandle": "v"}});
    let zones =
        affinity(&[&[("topology.csi.vmware.com/zone", &["z"]), ("topology.csi.vmware.com/region", &["r"])]]);
    let got = show(from_csi(&volume(vsphere, json!({ "spec": zones }))));
    assert_eq!(got["metadata"]["labels"], json!({ZONE: "z", REGION: "r"}));
}
