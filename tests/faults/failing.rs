//! A disk that returns EIO: the server stops acknowledging writes and reports the reason, reads continue, and
//! after a restart every acknowledged write is present.

use super::fuse::layer::{Layer, Place, Plan, What};
use super::fuse::tree::Tree;
use super::server::{MAPS, Server};

/// The number of writes within which the fault must occur.
const MOST: usize = 400;

/// The directory whose syncs acknowledge writes.
const JOURNAL: &str = "journal";

struct Case {
    name: &'static str,
    what: What,
    place: Place,
    times: u64,
    /// The server must stop accepting writes.
    stops: bool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_stops_writing_when_the_disk_fails() {
    let journal = Place::In(JOURNAL);
    for case in [
        Case { name: "1 one sync fails", what: What::Sync, place: journal, times: 1, stops: true },
        // Two: a write across a page boundary is split in two, and the failed part is retried once.
        Case { name: "2 one write fails", what: What::Write, place: journal, times: 2, stops: true },
        Case {
            name: "3 all writes fail",
            what: What::Write,
            place: Place::Anywhere,
            times: u64::MAX,
            stops: true,
        },
        Case {
            name: "4 all syncs fail",
            what: What::Sync,
            place: Place::Anywhere,
            times: u64::MAX,
            stops: true,
        },
        // A fault in the history files may be tolerated; the store decides whether it stops accepting writes.
        Case {
            name: "5 a write of the served copy fails",
            what: What::Write,
            place: Place::NotIn(JOURNAL),
            times: 1,
            stops: false,
        },
        Case {
            name: "6 syncs of the served copy fail",
            what: What::Sync,
            place: Place::NotIn(JOURNAL),
            times: 3,
            stops: false,
        },
    ] {
        for after in [0, 7] {
            if !fails(&case, after).await {
                return;
            }
        }
    }
}

/// Returns false if FUSE is not available.
async fn fails(case: &Case, after: u64) -> bool {
    let Case { name, what, place, times, stops } = *case;
    let Some(layer) = Layer::mount(Tree::new(), false) else { return false };
    let mut server = Server::start(&layer.path()).await;
    for n in 0..20 {
        assert_eq!(server.put(&format!("m{n}"), server.text(500)).await.code, 201, "{name}");
    }
    layer.plan(Plan::Fail { what, place, after, times });
    let mut refused = None;
    for n in 0..MOST {
        let answer = server.put(&format!("m{}", n % 30), server.text(500)).await;
        if !matches!(answer.code, 200 | 201) {
            refused = Some(answer);
            break;
        }
        if !stops && layer.failed() >= times && n > 50 {
            break;
        }
        // The served copy is written asynchronously.
        tokio::time::sleep(std::time::Duration::from_millis(if stops { 0 } else { 10 })).await;
    }
    assert!(layer.failed() > 0, "{name}: nothing failed");
    assert!(
        refused.is_some() || !stops,
        "{name}: {} changes failed, and writes are acknowledged",
        layer.failed()
    );
    if let Some(answer) = refused {
        let status = answer.expect(500);
        assert_eq!(status["kind"], "Status", "{name}: {status}");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("stopped taking writes"), "{name}: {message}");
        assert!(message.contains("Input/output error"), "{name}: the reason is reported: {message}");
        // The server stays in this state, even if the disk has recovered.
        layer.plan(Plan::Go);
        for path in ["/readyz", "/livez"] {
            let answer = server.http.get(path).await;
            assert_eq!(answer.code, 500, "{name}: {path}");
            assert!(answer.text().contains("[-]etcd failed"), "{name}: {path}: {}", answer.text());
        }
        let answer = server.put("late", server.text(10)).await;
        assert_eq!(answer.code, 500, "{name}: {}", answer.text());
        // Reads continue, and return acknowledged writes only.
        let list = server.http.get(MAPS).await.expect(200);
        assert!(list["items"].as_array().unwrap().len() >= 20, "{name}");
        server.check().await;
        assert_eq!(server.http.get(&format!("{MAPS}/m3")).await.code, 200, "{name}");
        assert_eq!(server.http.get(&format!("{MAPS}/late")).await.code, 404, "{name}");
        assert!(server.log().contains("rejects writes until it is opened again"), "{name}: the log says it");
    }
    layer.plan(Plan::Go);
    server.kill_and_restart().await;
    // Pending writes are settled now: each one is present or absent, and stays so.
    for n in 0..30 {
        let map = server.http.get(&format!("{MAPS}/m{n}")).await;
        let now = (map.code == 200).then(|| crate::crash::ledger::KnownState::of(&map.json()));
        let known = server.ledger.at(&format!("m{n}"));
        if known.1.is_some() {
            server.ledger.resolved(&format!("m{n}"), now);
        } else {
            assert_eq!(now, known.0, "{name}");
        }
    }
    for n in 0..5 {
        let answer = server.put(&format!("m{n}"), server.text(100)).await;
        assert_eq!(answer.code, 200, "{name}: {}", answer.text());
    }
    server.kill_and_restart().await;
    server.kill().await;
    true
}
