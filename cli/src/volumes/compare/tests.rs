//! All states of a handle, and races with creation and deletion.

use super::*;

#[derive(Clone, Default)]
struct Look(ApiObjects);

impl Look {
    fn volume(mut self, handle: &str, name: &str, going: bool) -> Self {
        let held = HandleObject { object: format!("persistentvolume/{name}"), going, bytes: 5 };
        self.0.volumes.insert(handle.to_owned(), held);
        self.0.names.insert(name.to_owned());
        self
    }

    fn claim(mut self, claim: &str, name: &str, bytes: i64) -> Self {
        self.0.making.insert(claim.to_owned(), Making { name: name.to_owned(), bytes });
        self
    }

    fn in_tree(mut self, id: &str, name: &str) -> Self {
        self.0.in_tree.push((id.to_owned(), format!("persistentvolume/{name}")));
        self
    }

    fn snapshots(mut self, handles: &[&str], taking: &[&str]) -> Self {
        let held =
            |handle: &str| HandleObject { object: format!("content/{handle}"), going: false, bytes: 5 };
        self.0.snapshots = Some(handles.iter().map(|handle| ((*handle).to_owned(), held(handle))).collect());
        self.0.taking = taking.iter().map(|content| (*content).to_owned()).collect();
        self
    }
}

fn listed(handles: &[(&str, i64)]) -> Vec<Listed> {
    handles.iter().map(|(handle, bytes)| Listed { handle: (*handle).to_owned(), bytes: *bytes }).collect()
}

/// Each row as `handle what object`.
fn lines(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| format!("{}|{:?}|{}", row.handle, row.what, row.object)).collect()
}

#[test]
fn volumes_are_compared_by_handle() {
    let none = Look::default;
    let pv = || none().volume("h", "pv", false);
    let going = || none().volume("h", "pv", true);
    let claim = || none().claim("ns/c", "pvc-1", 10);
    let made = || none().volume("h", "pvc-1", false);
    let pods = format!("csi-{}", "0f".repeat(32));
    let of_a_pod = [(pods.as_str(), 5)];
    type Case<'a> = (&'a str, Look, &'a [(&'a str, i64)], Look, Vec<String>, bool);
    let row = |text: &str| vec![text.to_owned()];
    let table: Vec<Case<'_>> = vec![
        ("nothing", none(), &[], none(), vec![], false),
        ("both have it", pv(), &[("h", 5)], pv(), row("h|Known|persistentvolume/pv"), false),
        ("listed twice", pv(), &[("h", 5), ("h", 5)], pv(), row("h|Known|persistentvolume/pv"), false),
        ("unknown", none(), &[("h", 5)], none(), row("h|Unknown|"), true),
        ("the driver has lost it", pv(), &[], pv(), row("h|Missing|persistentvolume/pv"), true),
        (
            "it came between the looks, before the list",
            none(),
            &[("h", 5)],
            pv(),
            row("h|Known|persistentvolume/pv"),
            false,
        ),
        ("it came after the list", none(), &[], pv(), vec![], false),
        (
            "it went between the looks, after the list",
            pv(),
            &[("h", 5)],
            none(),
            row("h|Known|persistentvolume/pv"),
            false,
        ),
        ("it went before the list", pv(), &[], none(), vec![], false),
        ("the driver has deleted it and the object is going", going(), &[], going(), vec![], false),
        ("going, and still there", going(), &[("h", 5)], going(), row("h|Known|persistentvolume/pv"), false),
        ("a claim waits, nothing is made yet", claim(), &[], claim(), row("|BeingMade|claim ns/c"), false),
        (
            "made, and not saved yet",
            claim(),
            &[("h", 10)],
            claim(),
            vec!["|BeingMade|claim ns/c".to_owned(), "h|BeingMade|perhaps for claim ns/c".to_owned()],
            false,
        ),
        (
            "begun after the first look",
            none(),
            &[("h", 10)],
            claim(),
            vec!["|BeingMade|claim ns/c".to_owned(), "h|BeingMade|perhaps for claim ns/c".to_owned()],
            false,
        ),
        (
            "saved between the looks",
            claim(),
            &[("h", 10)],
            made(),
            row("h|Known|persistentvolume/pvc-1"),
            false,
        ),
        (
            "too small for what is being made",
            claim(),
            &[("h", 9)],
            claim(),
            vec!["|BeingMade|claim ns/c".to_owned(), "h|Unknown|".to_owned()],
            true,
        ),
        (
            "the driver tells no sizes",
            claim(),
            &[("h", 0)],
            claim(),
            vec!["|BeingMade|claim ns/c".to_owned(), "h|BeingMade|perhaps for claim ns/c".to_owned()],
            false,
        ),
        (
            "two, and one of them is being made",
            claim(),
            &[("g", 10), ("h", 10)],
            claim(),
            vec![
                "|BeingMade|claim ns/c".to_owned(),
                "g|BeingMade|perhaps for claim ns/c".to_owned(),
                "h|BeingMade|perhaps for claim ns/c".to_owned(),
            ],
            true,
        ),
        (
            "in-tree, by a part of its identifier",
            none(),
            &[("vol-1", 5)],
            none().in_tree("aws://zone/vol-1", "old"),
            row("vol-1|Known|persistentvolume/old"),
            false,
        ),
        (
            "in-tree, the identifier is a part of the handle",
            none().in_tree("disk-1", "old"),
            &[("projects/p/disks/disk-1", 5)],
            none(),
            row("projects/p/disks/disk-1|Known|persistentvolume/old"),
            false,
        ),
        ("a pod's own", none(), &of_a_pod, none(), vec![format!("{pods}|Known|a pod's own volume")], false),
    ];
    for (name, before, list, after, wanted, amiss) in table {
        let lists = Lists { volumes: listed(list), snapshots: None };
        let rows = compare("d", &before.0, &lists, &after.0);
        assert_eq!(lines(&rows), wanted, "{name}");
        assert_eq!(is_amiss(&rows), amiss, "{name}");
    }
}

#[test]
fn snapshots_are_compared_by_handle() {
    let look = |handles: &[&str], taking: &[&str]| Look::default().snapshots(handles, taking);
    let table = [
        ("known", look(&["s"], &[]), Some(vec!["s"]), look(&["s"], &[]), vec!["s|Known|content/s"]),
        ("unknown", look(&[], &[]), Some(vec!["s"]), look(&[], &[]), vec!["s|Unknown|"]),
        ("missing", look(&["s"], &[]), Some(vec![]), look(&["s"], &[]), vec!["s|Missing|content/s"]),
        (
            "being taken",
            look(&[], &[]),
            Some(vec!["s"]),
            look(&[], &["c"]),
            vec!["s|BeingMade|perhaps for c"],
        ),
        ("the driver lists none", look(&["s"], &[]), None, look(&["s"], &[]), vec![]),
        ("the API has no such kind", Look::default(), Some(vec!["s"]), Look::default(), vec![]),
    ];
    for (name, before, list, after, wanted) in table {
        let pairs = list.map(|list| list.into_iter().map(|handle| (handle, 5)).collect::<Vec<_>>());
        let lists = Lists { volumes: Vec::new(), snapshots: pairs.map(|pairs| listed(&pairs)) };
        assert_eq!(lines(&compare("d", &before.0, &lists, &after.0)), wanted, "{name}");
    }
}
