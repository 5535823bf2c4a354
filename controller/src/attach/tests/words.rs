//! Names and texts.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::attach::desired::PodRef;
use crate::attach::events::{CurrentUser, Ends, held, refused};
use crate::attach::force_detach_timeout::force_after;
use crate::attach::volume::{Key, Spec, digest, digest_of_name};
use orlop_volume::attachment::name_of_digest;

fn name(volume: &str, node: &str) -> Option<String> {
    digest(&Key::new(volume, node)).map(|digest| name_of_digest(&digest))
}

#[test]
fn attachment_names_match_upstream() {
    let long = name("kubernetes.io/csi/b.example.org^h/1 2", "node-1").unwrap();
    assert_eq!(long, "csi-80788d16087705beed7aa1e9c12852479a1fa5e04e91d10649449d417c8a7e8d", "AD-101");
    assert_eq!(digest_of_name(&long), digest(&Key::new("kubernetes.io/csi/b.example.org^h/1 2", "node-1")));
    assert_eq!(name("kubernetes.io/iscsi/p:q:0", "node-1"), None);
    for other in
        ["csi-", "csi-80788d", "node-1", &long.replace("csi-8", "csi-x"), &long.replace("csi-80", "csi-é")]
    {
        assert_eq!(digest_of_name(other), None, "{other}");
    }
}

#[test]
fn attachable_part_of_a_volume() {
    let volume = |source: serde_json::Value, modes: serde_json::Value| {
        let mut volume = json!({"metadata": {"name": "pv-1"}, "spec": source});
        volume["spec"]["accessModes"] = modes;
        Spec::of_volume(&serde_json::from_value(volume).unwrap())
    };
    let csi = || json!({"csi": {"driver": "d", "volumeHandle": "h"}});
    let table = [
        ("AD-043", csi(), json!(["ReadWriteOnce"]), Some(("kubernetes.io/csi/d^h", true))),
        ("NEW-AD-RWOP", csi(), json!(["ReadWriteOncePod"]), Some(("kubernetes.io/csi/d^h", true))),
        ("AD-047", csi(), json!(["ReadWriteMany"]), Some(("kubernetes.io/csi/d^h", false))),
        ("AD-048", csi(), json!(["ReadOnlyMany"]), Some(("kubernetes.io/csi/d^h", false))),
        ("AD-049", csi(), json!(["ReadWriteOnce", "ReadOnlyMany"]), Some(("kubernetes.io/csi/d^h", false))),
        ("without modes", csi(), json!([]), Some(("kubernetes.io/csi/d^h", false))),
        (
            "AD-013",
            json!({"iscsi": {"targetPortal": "192.0.2.1:3260", "iqn": "iqn.2001-04.com.example:st", "lun": 0}}),
            json!(["ReadWriteOnce"]),
            Some(("kubernetes.io/iscsi/192.0.2.1:3260:iqn.2001-04.com.example:st:0", true)),
        ),
        (
            "Fibre Channel by names",
            json!({"fc": {"targetWWNs": ["a", "b"], "lun": 2}}),
            json!(["ReadOnlyMany"]),
            Some(("kubernetes.io/fc/[a b]:2", false)),
        ),
        (
            "Fibre Channel by identifiers",
            json!({"fc": {"wwids": ["a"]}}),
            json!(["ReadWriteOnce"]),
            Some(("kubernetes.io/fc/[a]", true)),
        ),
        ("Fibre Channel by nothing", json!({"fc": {"targetWWNs": ["a"]}}), json!(["ReadWriteOnce"]), None),
        ("AD-011", json!({"local": {"path": "/a"}}), json!(["ReadWriteOnce"]), None),
        ("NFS", json!({"nfs": {"server": "s", "path": "/a"}}), json!(["ReadWriteMany"]), None),
    ];
    for (id, source, modes, wanted) in table {
        let spec = volume(source, modes);
        let got = spec.as_ref().map(|spec| (&*spec.unique, spec.exclusive));
        assert_eq!(got, wanted, "{id}");
    }
}

fn pods(names: &[(&str, &str)]) -> Vec<Arc<PodRef>> {
    let pod = |(namespace, name): &(&str, &str)| {
        Arc::new(PodRef { namespace: (*namespace).into(), name: (*name).into(), uid: (*name).into() })
    };
    names.iter().map(pod).collect()
}

#[test]
fn refusal_events_name_pods_and_nodes() {
    type Row = (&'static str, &'static [(&'static str, &'static str)], &'static str);
    let table: [Row; 5] = [
        (
            "no node",
            &[],
            "Volume is already exclusively attached to one node and can't be attached to another",
        ),
        ("AD-043", &[("a", "p-1")], "Volume is already used by pod(s) p-1"),
        ("AD-054", &[("a", "p-1"), ("a", "p-2")], "Volume is already used by pod(s) p-1, p-2"),
        ("AD-051", &[("b", "p-1")], "Volume is already used by 1 pod(s) in different namespaces"),
        (
            "both",
            &[("a", "p-1"), ("b", "p-2"), ("b", "p-3")],
            "Volume is already used by pod(s) p-1 and 2 pod(s) in different namespaces",
        ),
    ];
    for (name, users, text) in table {
        let wanted = format!("Multi-Attach error for volume \"pv-1\" {text}");
        assert_eq!(refused("pv-1", "a", &pods(users)), wanted, "{name}");
    }
}

#[test]
fn holders_are_described_without_names_of_other_namespaces() {
    let attachment = || Some(("csi-1".to_owned(), Some("2026-01-01T00:00:00Z".to_owned())));
    let holder = |users: &[(&str, &str)], attachment, ends| CurrentUser {
        node: "n".into(),
        pods: pods(users),
        attachment,
        ends,
    };
    let table = [
        (
            holder(&[("a", "p-1"), ("b", "hidden")], attachment(), Ends::WithPods),
            "used by pod a/p-1, 1 pod(s) in different namespaces on node n through attachment csi-1, since \
             2026-01-01T00:00:00Z; will be released when these pods have ended",
        ),
        (
            holder(&[], attachment(), Ends::Forced("2026-01-01T00:06:00Z".into())),
            "used by no pod any more on node n through attachment csi-1, since 2026-01-01T00:00:00Z; will be released when node n \
             reports it as not in use, at the latest by force at 2026-01-01T00:06:00Z",
        ),
        (
            holder(&[], None, Ends::Unmounted),
            "used by no pod any more on node n; will be released when node n reports it as not in use",
        ),
        (
            holder(&[], None, Ends::NeverForced),
            "used by no pod any more on node n; node n is not ready, and forced detach is off: bring the node back, or \
             taint it as out of service",
        ),
        (
            holder(&[], None, Ends::Detached),
            "used by no pod any more on node n; will be released when its attacher has detached it",
        ),
    ];
    for (holder, text) in table {
        let wanted = format!("Multi-Attach error for volume \"pv-1\": {text}");
        assert_eq!(held("pv-1", "a", &[holder]), wanted, "NEW-AD-HELD");
    }
}

#[test]
fn force_detach_timeout_follows_precedence() {
    let seconds = |n| Some(Duration::from_secs(n));
    type Row = (&'static str, [Option<&'static str>; 3], Option<Duration>, usize);
    let table: [Row; 8] = [
        ("NEW-AD-PATIENCE no default", [None, None, None], seconds(360), 0),
        ("the class", [Some("30s"), None, None], seconds(30), 0),
        ("the volume over the class", [Some("30s"), Some("1h"), None], seconds(3600), 0),
        ("the node over both", [Some("30s"), Some("1h"), Some("0s")], seconds(0), 0),
        ("never", [Some("30s"), Some("never"), None], None, 0),
        ("the node over never", [Some("never"), Some("never"), Some("1m30s")], seconds(90), 0),
        ("what cannot be read is passed over", [Some("30s"), Some("soon"), Some("")], seconds(30), 2),
        ("less than nothing", [None, None, Some("-5s")], seconds(360), 1),
    ];
    for (name, asked, wanted, problems) in table {
        let (got, reported) = force_after(seconds(360), asked);
        assert_eq!((got, reported.len()), (wanted, problems), "{name}: {reported:?}");
    }
}
