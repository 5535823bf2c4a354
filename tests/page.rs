//! The page in a real browser: what a person sees of volumes and claims.

use std::process::Stdio;

use serde_json::json;

use crate::harness::browser::{Browser, FLAGS, MISSING};
use crate::harness::plane::Plane;
use crate::harness::process::command;

const VOLUME: &str = "
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv3}
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteOnce, ReadWriteMany, ReadOnlyMany]
  persistentVolumeReclaimPolicy: Recycle
  nfs: {server: 172.16.51.58.1, path: /var/nfsshare/v1}
";

const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: myclaim, namespace: default}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 5Gi}}
";

/// The page as the browser has it when everything has been loaded.
async fn dom(plane: &Plane, path: &str) -> String {
    let profile = tempfile::tempdir().unwrap();
    let mut browser = command("chromium", profile.path());
    browser.env("TMPDIR", profile.path());
    // Time runs only while the page waits for nothing: this is no pause.
    browser.args(FLAGS).args(["--virtual-time-budget=5000", "--dump-dom"]);
    browser.arg(format!("--user-data-dir={}", profile.path().display())).arg(plane.url() + path);
    browser.stdin(Stdio::null());
    let run = move || browser.output().unwrap_or_else(|error| panic!("{MISSING} ({error})"));
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The text between tags.
fn text(html: &str) -> String {
    let mut text = String::new();
    for piece in html.split('<') {
        text.push_str(piece.split_once('>').map_or(piece, |(_, rest)| rest));
    }
    text
}

/// The cells of the row with this name in the table with this title.
fn row(dom: &str, title: &str, name: &str) -> Option<Vec<String>> {
    let table = dom.split("<section").find(|part| part.contains(&format!("<h2 id=\"title-{title}\"")))?;
    let row = table.split("<tr").find(|row| row.contains(&format!(">{name}</button>")))?;
    let row = row.split("</tr>").next()?;
    // What is before the first cell is the rest of the tag.
    let cells = row.split("<t").skip(1).map(|cell| text(&format!("<t{cell}")));
    Some(cells.collect())
}

#[test]
fn rows_are_found() {
    let dom = "<section id=a><h2 id=\"title-a\">A</h2><tr class=x><th><button>n</button></th><td a=b>1</td><td></td></tr></section>";
    assert_eq!(row(dom, "a", "n"), Some(vec!["n".to_owned(), "1".to_owned(), String::new()]));
    assert_eq!(row(dom, "b", "n"), None);
    assert_eq!(row(dom, "a", "m"), None);
}

#[tokio::test]
async fn volumes_and_claims_are_shown() {
    let plane = Plane::start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    kubectl.apply(VOLUME).await;
    kubectl.apply(CLAIM).await;
    kubectl.apply(&CLAIM.replace("myclaim", "hopeless").replace("5Gi", "9Gi")).await;
    for (path, phase) in [
        ("persistentvolumes/pv3", "Bound"),
        ("namespaces/default/persistentvolumeclaims/myclaim", "Bound"),
        ("namespaces/default/persistentvolumeclaims/hopeless", "Pending"),
    ] {
        http.until(&format!("/api/v1/{path}"), phase, |object| object["status"]["phase"] == phase).await;
    }
    let dom = self::dom(&plane, "/ui/").await;
    let shown = |title, name| {
        let mut row = row(&dom, title, name).unwrap_or_else(|| panic!("no {name} in {title}: {dom}"));
        // The age.
        row.pop();
        row
    };
    assert_eq!(
        shown("persistentvolumes", "pv3"),
        ["pv3", "Bound", "5Gi", "RWO,ROX,RWX", "Recycle", "default/myclaim", ""]
    );
    assert_eq!(
        shown("persistentvolumeclaims", "myclaim"),
        ["myclaim", "default", "Bound", "pv3", "5Gi", "RWO,ROX,RWX", ""]
    );
    assert_eq!(shown("persistentvolumeclaims", "hopeless")[2..4], ["Pending", ""]);
    assert!(dom.contains("data-state=\"live\""), "{dom}");
    assert!(text(&dom).contains("No pods yet."), "what is empty says what to type: {dom}");
    // The same for a browser that knows only the server's address, with the panel that the address names.
    let dom = self::dom(&plane, "/#/persistentvolumeclaims/default/myclaim").await;
    assert!(row(&dom, "persistentvolumes", "pv3").is_some(), "{dom}");
    let panel = text(dom.split("<aside").nth(1).unwrap_or_default());
    for part in ["PersistentVolumeClaim default/myclaim", "  volumeName: pv3\n", "  phase: Bound\n"] {
        assert!(panel.contains(part), "{part}: {panel}");
    }
    assert!(!panel.contains("managedFields"), "{panel}");
}

#[tokio::test]
async fn everything_on_the_page_comes_from_the_server_itself() {
    let plane = Plane::start().await;
    let page = plane.http().get("/ui/").await;
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'self';"), "{policy}");
    let page = page.text();
    let elsewhere: Vec<&str> = page.split(['"', '\'']).filter(|part| part.contains("//")).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?} is elsewhere");
    // An empty plane is no blank page.
    let dom = dom(&plane, "/ui/").await;
    for words in ["No volumes yet.", "No claims yet.", "kubectl --server http://127.0.0.1:"] {
        assert!(text(&dom).contains(words), "{words}: {dom}");
    }
}

#[tokio::test]
async fn it_follows_what_happens() {
    let mut plane = Plane::start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    let mut browser = Browser::open(&(plane.url() + "/ui/")).await;
    // The row of an object as one text.
    let row = |kind: &str, name: &str| {
        format!(
            "([...document.querySelectorAll('#{kind} tbody tr')].find(row => row.querySelector('button')?.textContent == '{name}')?.innerText ?? '')"
        )
    };
    let live = "document.getElementById('connection')?.dataset.state == 'live'";
    browser.until("is live", live).await;
    kubectl.apply(VOLUME).await;
    browser.until("a volume comes", &(row("persistentvolumes", "pv3") + ".includes('Available')")).await;
    kubectl.apply(CLAIM).await;
    browser.until("its claim", &(row("persistentvolumeclaims", "myclaim") + ".includes('Bound')")).await;
    browser.until("both sides", &(row("persistentvolumes", "pv3") + ".includes('default/myclaim')")).await;
    // What others write is text and nothing else.
    let trap = "<img src=x onerror=\"document.title='caught'\">";
    let event = json!({"metadata": {"name": "trap"}, "reason": "Trap", "message": trap, "type": "Warning",
        "involvedObject": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "myclaim"}});
    http.create("/api/v1/namespaces/default/events", &event).await;
    browser.until("the trap as text", &(row("events", "Trap") + ".includes('<img src=x')")).await;
    assert_eq!(browser.value("document.querySelectorAll('img').length").await, 0);
    assert_eq!(browser.value("document.title").await, "orlop");
    // The panel, and the way back.
    browser.value("document.querySelector('#persistentvolumeclaims tbody button').click()").await;
    browser
        .until("the panel", "document.getElementById('panel-text').innerText.includes('volumeName: pv3')")
        .await;
    assert_eq!(browser.value("location.hash").await, "#/persistentvolumeclaims/default/myclaim");
    browser.value("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'})), 0").await;
    browser.until("no panel", "document.getElementById('panel').hidden").await;
    // The filter.
    let filter = |text: &str| {
        format!(
            "(field => {{ field.value = '{text}'; field.dispatchEvent(new Event('input')); return 0; }})(document.getElementById('filter'))"
        )
    };
    browser.value(&filter("nobody")).await;
    browser.until("all are filtered", &(row("persistentvolumes", "pv3") + " == ''")).await;
    browser.value(&filter("")).await;
    browser.until("nobody is filtered", &(row("persistentvolumes", "pv3") + ".includes('Bound')")).await;
    // The server dies: the page says so, and goes on when it is back.
    plane.kill().await;
    browser.until("is not live", &live.replace("==", "!=")).await;
    plane.start_again().await;
    browser.until("is live again", live).await;
    kubectl.run(&["delete", "pvc", "myclaim"]).await.ok();
    browser.until("the claim goes", &(row("persistentvolumeclaims", "myclaim") + " == ''")).await;
    browser.until("its volume", &(row("persistentvolumes", "pv3") + ".includes('Released')")).await;
}

#[tokio::test]
async fn the_api_is_told_searched_and_tried() {
    let plane = Plane::start().await;
    plane.kubectl().apply(VOLUME).await;
    let mut browser = Browser::open(&(plane.url() + "/ui/")).await;
    browser.until("a link", "document.querySelector('header a[href=\"/docs\"]') != null").await;
    let mut browser = Browser::open(&(plane.url() + "/docs")).await;
    browser.until("it is read", "document.getElementById('state')?.textContent.includes('kinds')").await;
    let shown = |text: &str| format!("document.getElementById('shown').innerText.includes('{text}')");
    let click = |selector: &str, text: &str| {
        format!(
            "[...document.querySelectorAll('{selector}')].find(one => one.textContent.includes('{text}')).click()"
        )
    };
    // A field, by the keyboard: the key that leads to the search, then what it finds.
    browser.value("document.dispatchEvent(new KeyboardEvent('keydown', {key: '/'})), 0").await;
    assert_eq!(browser.value("document.activeElement.id").await, "search");
    let search = "(field => { field.value = 'ReclaimPolicy'; field.dispatchEvent(new Event('input')); return 0; })(document.activeElement)";
    browser.value(search).await;
    browser.until("it is found", &shown("PersistentVolumeSpec.persistentVolumeReclaimPolicy")).await;
    browser.value(&click("#found a", "PersistentVolumeSpec.persistentVolumeReclaimPolicy")).await;
    browser.until("the schema", &shown("io.k8s.api.core.v1.PersistentVolumeSpec")).await;
    // A kind with its operations, and one of them tried.
    browser.value(&click("#groups a", "PersistentVolume")).await;
    browser.value("location.hash = '#/api/v1/persistentvolumes', 0").await;
    browser.until("operations", &shown("/api/v1/persistentvolumes/{name}/status")).await;
    browser.value("document.querySelector('.operation summary').click()").await;
    browser.until("parameters", &shown("labelSelector")).await;
    browser.until("refusals", &shown("The revision or the token is older than what is remembered")).await;
    browser.value("document.querySelector('.operation form').requestSubmit(), 0").await;
    browser.until("the answer", &shown("\"kind\": \"PersistentVolumeList\"")).await;
    browser.until("the volume", &shown("172.16.51.58.1")).await;
    // What is no resource.
    browser.value("location.hash = '#/orlop/health', 0").await;
    browser.until("health", &shown("/readyz/{check}")).await;
    let dom = browser.value("document.documentElement.outerHTML").await;
    let dom = dom.as_str().unwrap();
    let elsewhere = dom.split(['"', '\'']).find(|part| part.starts_with("http"));
    assert_eq!(elsewhere, None, "everything comes from the server itself");
}
