//! The iSCSI plugin with an in-memory initiator whose every command may fail, and with scripts in place of
//! `iscsiadm`.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::admin::{NOTHING_FOUND, SESSION_EXISTS};
use super::*;
use crate::mount::Programs;
use crate::plugin::testing::{Fixture, Side, fault, inline, persistent, place, program, with};

const PORTAL: &str = "192.0.2.1:3260";
const IQN: &str = "iqn.2001-04.com.example:st";

/// The state of `iscsiadm`, and the disks that udev creates.
struct Initiator {
    by_path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: BTreeSet<String>,
    /// The interfaces of the sessions, by portal.
    made_with: BTreeMap<String, String>,
    ifaces: BTreeSet<String>,
    commands: Vec<String>,
    /// The target exposes no disk.
    shows_nothing: bool,
}

impl Initiator {
    fn new(rig: &Fixture) -> Arc<Self> {
        let by_path = rig.base.join("by-path");
        fs::create_dir(&by_path).unwrap();
        for lun in 0..2 {
            // blkid and mkfs accept files as disks.
            fs::File::create(rig.base.join(format!("disk-{lun}"))).unwrap().set_len(4 << 20).unwrap();
        }
        Arc::new(Self { by_path, state: Mutex::default() })
    }

    fn commands(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().commands)
    }

    fn sessions(&self) -> Vec<String> {
        self.state.lock().sessions.iter().cloned().collect()
    }

    fn answer(&self, args: &[&str]) -> Result<String, AdminError> {
        let mut state = self.state.lock();
        let command = args.join(" ");
        state.commands.push(command.clone());
        let failed = |code| {
            Err(AdminError::Failed { command: command.clone(), code: Some(code), said: "no".to_owned() })
        };
        let after =
            |word: &str| args.iter().position(|arg| *arg == word).map(|at| args[at + 1]).unwrap_or_default();
        let (mode, operation, portal) = (after("-m"), after("-o"), after("-p"));
        let is = |word: &str| args.contains(&word);
        match mode {
            "session" if state.sessions.is_empty() => failed(NOTHING_FOUND),
            "session" => {
                Ok(state.sessions.iter().map(|session| format!("tcp: [1] {session} (non-flash)\n")).collect())
            }
            "iface" if operation == "show" => {
                Ok("iface.transport_name = tcp\niface.initiatorname = <empty>\n".to_owned())
            }
            "iface" if operation == "new" => match state.ifaces.insert(after("-I").to_owned()) {
                true => Ok(String::new()),
                false => failed(SESSION_EXISTS),
            },
            "iface" if operation == "delete" => match state.ifaces.remove(after("-I")) {
                true => Ok(String::new()),
                false => failed(NOTHING_FOUND),
            },
            "node" if is("--login") || is("-R") => {
                if state.sessions.insert(format!("{portal},1 {IQN}")) {
                    state.made_with.insert(portal.to_owned(), after("-I").to_owned());
                }
                for lun in (0..2).filter(|_| !state.shows_nothing) {
                    let link = self.by_path.join(format!("ip-{portal}-iscsi-{IQN}-lun-{lun}"));
                    let _ = symlink(format!("../disk-{lun}"), link);
                }
                Ok(String::new())
            }
            "node" if is("--logout") => {
                if state.made_with.get(portal).is_some_and(|iface| iface != after("-I")) {
                    return failed(NOTHING_FOUND);
                }
                if !state.sessions.remove(&format!("{portal},1 {IQN}")) {
                    return failed(NOTHING_FOUND);
                }
                for lun in 0..2 {
                    let _ = fs::remove_file(self.by_path.join(format!("ip-{portal}-iscsi-{IQN}-lun-{lun}")));
                }
                Ok(String::new())
            }
            _ => Ok(String::new()),
        }
    }
}

#[async_trait]
impl Admin for Initiator {
    async fn run(&self, args: &[&str]) -> Result<String, AdminError> {
        let failed =
            |_| AdminError::Failed { command: args.join(" "), code: Some(1), said: "on purpose".to_owned() };
        fault("iscsiadm", Side::Before).map_err(failed)?;
        let answer = self.answer(args)?;
        fault("iscsiadm", Side::After).map_err(failed)?;
        Ok(answer)
    }
}

fn plugin(rig: &Fixture, admin: Arc<dyn Admin>) -> IscsiPlugin {
    let looks = Looks {
        by_path: rig.base.join("by-path"),
        sys_block: rig.base.join("sys"),
        tries: 2,
        pause: Duration::from_millis(1),
    };
    IscsiPlugin::new(admin, looks, Devices::default())
}

fn volume(name: &str, lun: i32, more: Value) -> PodVolume {
    let mut source = json!({"targetPortal": "192.0.2.1", "iqn": IQN, "lun": lun});
    orlop_test_support::merge_into(&mut source, &more);
    persistent(name, json!({"iscsi": source}))
}

#[test]
fn volume_sources_are_parsed() {
    let of = |more| Disk::of(&volume("pv-1", 3, more).spec);
    let disk = of(json!({})).unwrap();
    assert_eq!(
        disk.name, "192.0.2.1:iqn.2001-04.com.example:st:3",
        "as the attach/detach controller names it"
    );
    assert_eq!((&*disk.portals, &*disk.iface), (&[PORTAL.to_owned()][..], "default"));
    assert_eq!(disk.by_path(PORTAL), format!("ip-{PORTAL}-iscsi-{IQN}-lun-3"));
    let portals = of(
        json!({"targetPortal": "2001:db8::1", "portals": ["nas", "nas:3260", "[2001:db8::2]:1", "[2001:db8::3]"]}),
    );
    assert_eq!(
        portals.unwrap().portals,
        ["[2001:db8::1]:3260", "nas:3260", "[2001:db8::2]:1", "[2001:db8::3]:3260"]
    );
    for (more, part) in [
        (json!({"targetPortal": ""}), "iscsi.targetPortal \"\" is none"),
        (json!({"iqn": "-h"}), "iscsi.iqn"),
        (json!({"iqn": "a/../../b"}), "iscsi.iqn"),
        (json!({"iscsiInterface": "a b"}), "iscsi.iscsiInterface"),
        (json!({"initiatorName": "a\nb"}), "iscsi.initiatorName"),
        (json!({"lun": -1}), "less than 0"),
    ] {
        let error = of(more).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn each_step_and_each_command_recovers_from_one_failure() {
    let rig = Fixture::recorded();
    let initiator = Initiator::new(&rig);
    let plugin = plugin(&rig, Arc::clone(&initiator) as Arc<dyn Admin>);
    for (more, is_plain) in [(json!({}), true), (json!({"initiatorName": "iqn.own"}), false)] {
        let volume = volume("pv-1", 0, more);
        let check = |rig: &Fixture| {
            let points = rig.points();
            assert_eq!(points.len(), 2);
            assert!(points.iter().all(|point| point.fs_type == "ext4"), "{points:?}");
        };
        rig.whole_way(&plugin, &volume, &check).await;
        // An initiator name adds commands; in that case only the block volume is tested, which is faster.
        if is_plain {
            rig.every_step(&plugin, &volume, &check).await;
        }
        let block = with(&volume, |spec| spec.block = true);
        let link = plugin.path(&rig.host, &Place { block: true, ..place(&plugin, "pv-1") });
        let check = |_: &Fixture| {
            assert!(fs::read_link(&link).unwrap().ends_with(format!("ip-{PORTAL}-iscsi-{IQN}-lun-0")))
        };
        rig.whole_way(&plugin, &block, &check).await;
        if !is_plain {
            rig.every_step(&plugin, &block, &check).await;
        }
        assert_eq!(initiator.sessions(), Vec::<String>::new());
        assert!(initiator.state.lock().ifaces.is_empty());
    }
}

#[tokio::test]
async fn session_stays_while_a_disk_uses_it() {
    let rig = Fixture::recorded();
    let initiator = Initiator::new(&rig);
    let plugin = plugin(&rig, Arc::clone(&initiator) as Arc<dyn Admin>);
    let (one, two) = (volume("pv-1", 0, json!({})), volume("pv-2", 1, json!({})));
    plugin.mount_device(&rig.host, &one.spec).await.unwrap();
    initiator.commands();
    plugin.mount_device(&rig.host, &two.spec).await.unwrap();
    assert_eq!(initiator.commands(), ["-m session".to_owned(), format!("-m node -p {PORTAL} -T {IQN} -R")]);
    plugin.set_up(&rig.host, &two).await.unwrap();
    // A restarted agent, which has only the state on disk.
    let plugin = self::plugin(&rig, Arc::clone(&initiator) as Arc<dyn Admin>);
    let names: Vec<String> = [&one, &two].map(|volume| plugin.volume_name(&volume.spec).unwrap()).into();
    let mut found = plugin.devices(&rig.host).await.unwrap();
    found.sort();
    assert_eq!(found, names);
    let at = place(&plugin, "pv-2");
    assert_eq!(plugin.found(&rig.host, &at).await.unwrap().as_deref(), Some(&*names[1]));
    plugin.unmount_device(&rig.host, &names[0]).await.unwrap();
    assert_eq!(initiator.sessions().len(), 1);
    plugin.tear_down(&rig.host, &at).await.unwrap();
    plugin.unmount_device(&rig.host, &names[1]).await.unwrap();
    assert_eq!((initiator.sessions(), rig.left()), (Vec::new(), Vec::new()));
    assert!(plugin.found(&rig.host, &at).await.is_err());
}

/// A disk with another interface uses the existing session, and must not lose it when the first disk is removed.
#[tokio::test]
async fn session_stays_for_a_disk_with_another_interface() {
    let rig = Fixture::recorded();
    let initiator = Initiator::new(&rig);
    let plugin = plugin(&rig, Arc::clone(&initiator) as Arc<dyn Admin>);
    let first = volume("pv-1", 0, json!({"initiatorName": "iqn.own"}));
    let second = volume("pv-2", 1, json!({}));
    let names = [&first, &second].map(|volume| plugin.volume_name(&volume.spec).unwrap());
    plugin.mount_device(&rig.host, &first.spec).await.unwrap();
    plugin.mount_device(&rig.host, &second.spec).await.unwrap();
    plugin.unmount_device(&rig.host, &names[0]).await.unwrap();
    assert_eq!(initiator.sessions().len(), 1, "the disk of another volume went");
    // It is mounted again in between, by a restarted agent that has only the state on disk.
    let plugin = self::plugin(&rig, Arc::clone(&initiator) as Arc<dyn Admin>);
    plugin.mount_device(&rig.host, &with(&second, |spec| spec.block = true).spec).await.unwrap();
    plugin.unmount_device(&rig.host, &names[1]).await.unwrap();
    assert_eq!((initiator.sessions(), rig.left()), (Vec::new(), Vec::new()), "the last one logs out");
    assert!(initiator.state.lock().ifaces.is_empty());
}

#[tokio::test]
async fn login_sets_names_and_passwords() {
    let rig = Fixture::recorded();
    let initiator = Initiator::new(&rig);
    let plugin = plugin(&rig, Arc::clone(&initiator) as Arc<dyn Admin>);
    let chap = json!({"chapAuthDiscovery": true, "chapAuthSession": true, "secretRef": {"name": "chap"}});
    let volume = volume("pv-1", 0, chap);
    let error = plugin.mount_device_for(&rig.host, &volume).await.unwrap_err();
    assert!(error.message.starts_with("couldn't get secret ns/chap error: "), "{error}");
    assert_eq!(plugin.devices(&rig.host).await.unwrap(), Vec::<String>::new());
    let error = plugin.mount_device(&rig.host, &volume.spec).await.unwrap_err();
    assert!(error.message.contains("the namespace of its secret chap is not specified"), "{error}");
    // me, geheim.
    let data = json!({"node.session.auth.username": "bWU=", "node.session.auth.password": "Z2VoZWlt",
        "discovery.sendtargets.auth.username": "bWU="});
    rig.api.seed(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "ns", "name": "chap"}, "data": data}));
    plugin.mount_device_for(&rig.host, &volume).await.unwrap();
    let discovery = format!("-m discoverydb -t sendtargets -p {PORTAL} -I default");
    let node = format!("-m node -p {PORTAL} -T {IQN} -I default");
    let expected = [
        "-m session".to_owned(),
        format!("{discovery} -o new"),
        format!("{discovery} -o update -n discovery.sendtargets.auth.authmethod -v CHAP"),
        format!("{discovery} -o update -n discovery.sendtargets.auth.username -v me"),
        format!("{discovery} --discover"),
        format!("{node} -o update -n node.session.auth.authmethod -v CHAP"),
        format!("{node} -o update -n node.session.auth.username -v me"),
        format!("{node} -o update -n node.session.auth.password -v geheim"),
        format!("{node} --login"),
        format!("{node} -o update -n node.startup -v manual"),
    ];
    assert_eq!(initiator.commands(), expected);
    let nameless = self::volume("pv-1", 1, json!({"chapAuthSession": true}));
    let error = plugin.mount_device_for(&rig.host, &nameless).await.unwrap_err();
    assert!(error.message.contains("no secret is specified"), "{error}");
}

#[tokio::test]
async fn missing_disk_is_reported() {
    let rig = Fixture::recorded();
    let initiator = Initiator::new(&rig);
    let plugin = plugin(&rig, Arc::clone(&initiator) as Arc<dyn Admin>);
    initiator.state.lock().shows_nothing = true;
    let volume = volume("pv-1", 0, json!({}));
    let error = plugin.mount_device(&rig.host, &volume.spec).await.unwrap_err();
    assert!(
        error.message.starts_with(
            "failed to get any path for iscsi disk, last err seen:\nlogged in to 192.0.2.1:3260"
        ),
        "{error}"
    );
    assert_eq!(error.outcome, Outcome::Uncertain);
    let error = plugin.set_up(&rig.host, &volume).await.unwrap_err();
    assert!(error.message.contains("is not there for this node yet"), "{error}");
    initiator.state.lock().shows_nothing = false;
    plugin.mount_device(&rig.host, &volume.spec).await.unwrap();
    plugin.unmount_device(&rig.host, &plugin.volume_name(&volume.spec).unwrap()).await.unwrap();
    assert_eq!(initiator.sessions(), Vec::<String>::new());
}

#[tokio::test]
async fn multipath_device_is_removed_before_its_paths() {
    let rig = Fixture::recorded();
    let initiator = Initiator::new(&rig);
    let plugin = plugin(&rig, initiator.clone() as Arc<dyn Admin>);
    initiator.answer(&["-m", "node", "-p", PORTAL, "--login"]).unwrap();
    let holders = rig.base.join("sys/disk-1/holders");
    fs::create_dir_all(holders.join("dm-3")).unwrap();
    fs::create_dir_all(rig.base.join("sys/dm-3/dm")).unwrap();
    fs::write(rig.base.join("sys/dm-3/dm/uuid"), "mpath-360000\n").unwrap();
    for (lun, expected) in [
        (0, rig.base.join(format!("by-path/ip-{PORTAL}-iscsi-{IQN}-lun-0"))),
        (1, PathBuf::from("/dev/dm-3")),
    ] {
        let disk = Disk::of(&volume("pv", lun, json!({})).spec).unwrap();
        let found = plugin.find(&lane_of(&rig.host, "x"), &disk).await.unwrap();
        assert_eq!(found, Some(expected));
    }
}

#[tokio::test]
async fn iscsiadm_output_and_errors_are_returned() {
    let dir = tempfile::tempdir().unwrap();
    let programs = |dir: &Path| Programs { mount: PathBuf::from("mount"), search: vec![dir.to_owned()] };
    let missing = Iscsiadm::new(programs(dir.path()), Duration::from_secs(9)).run(&["-m", "session"]).await;
    assert!(missing.unwrap_err().to_string().contains("it is in the package open-iscsi (Debian"));
    let script = "case $2 in\nsession) echo tcp;;\nnode) echo \"no $*\" >&2; exit 24;;\niface) exit 7;;\n*) sleep 30;;\nesac";
    program(&dir.path().join("iscsiadm"), script);
    let admin = Iscsiadm::new(programs(dir.path()), Duration::from_secs(20));
    assert_eq!(admin.run(&["-m", "session"]).await.unwrap(), "tcp\n");
    let error = admin.run(&["-m", "node", "-n", "a.password", "-v", "geheim"]).await.unwrap_err();
    assert_eq!(error.to_string(), "iscsiadm -m node -n a.password -v ***: no -m node -n a.password -v ***");
    assert!(error.is(24));
    let error = admin.run(&["-m", "iface"]).await.unwrap_err();
    assert!(error.is(7) && error.to_string().contains("it failed without output"), "{error}");
    let start = Instant::now();
    let error = Iscsiadm::new(programs(dir.path()), Duration::from_millis(300))
        .run(&["-m", "hang"])
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("no answer for") && start.elapsed() < Duration::from_secs(20),
        "{error}"
    );
}

#[tokio::test]
async fn virtual_node_does_not_log_in() {
    let mut rig = Fixture::recorded();
    Arc::make_mut(&mut rig.host.config).is_virtual = true;
    let initiator = Initiator::new(&rig);
    let plugin = plugin(&rig, Arc::clone(&initiator) as Arc<dyn Admin>);
    rig.whole_way(&plugin, &volume("pv-1", 0, json!({})), &|rig| assert_eq!(rig.points().len(), 2)).await;
    assert_eq!(initiator.commands(), Vec::<String>::new());
    assert!(!plugin.can_support(&inline(json!({"name": "v", "emptyDir": {}})).spec.source));
}
