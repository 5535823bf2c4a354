//! The page in a real browser: how it shows volumes and claims.

use serde_json::json;

use crate::harness::browser::Browser;
use crate::harness::plane::{Layout, Plane};
use crate::loopback::orlop;

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

/// The cell texts of an object's row in the current list; empty if it has none.
fn row(name: &str) -> String {
    format!(
        "([...document.querySelectorAll('.scroller .body [role=row]')].filter(row => row.querySelector('a')?.textContent == '{name}').map(row => [...row.children].map(cell => cell.innerText))[0] ?? [])"
    )
}

/// Navigates to another address of the page.
async fn go(browser: &mut Browser, address: &str) {
    browser.value(&format!("location.hash = '{address}', 0")).await;
}

const LIVE: &str = "document.getElementById('connection')?.dataset.state == 'live'";

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
    // A browser that opens only the server's address is redirected to the page.
    let mut browser = Browser::open(&(plane.url() + "/#/list/persistentvolumes")).await;
    browser.until("is live", LIVE).await;
    let shown = |name: &str, want: serde_json::Value| {
        format!("JSON.stringify({}.slice(0, -1)) == JSON.stringify({want})", row(name))
    };
    let want = json!(["pv3", "Bound", "5Gi", "RWO,ROX,RWX", "Recycle", "default/myclaim", ""]);
    browser.until("the volume", &shown("pv3", want)).await;
    go(&mut browser, "#/list/persistentvolumeclaims").await;
    let want = json!(["myclaim", "default", "Bound", "pv3", "5Gi", "RWO,ROX,RWX", ""]);
    browser.until("the claim", &shown("myclaim", want)).await;
    browser.until("what waits", &format!("{}[2] == 'Pending'", row("hopeless"))).await;
    go(&mut browser, "#/list/persistentvolumeclaims?phase=Bound").await;
    browser.until("a filter in the address", &format!("{}.length == 0", row("hopeless"))).await;
    assert_eq!(browser.value(&format!("{}.length > 0", row("myclaim"))).await, true);
    // An empty list shows what to do.
    go(&mut browser, "#/list/pods").await;
    browser.until("no pods", "document.querySelector('main').innerText.includes('There are no pods')").await;
    // An object, opened by its address.
    go(&mut browser, "#/object/persistentvolumeclaims/default/myclaim?tab=yaml").await;
    let text = "(document.querySelector('pre.sheet')?.textContent ?? '')";
    browser.until("its text", &format!("{text}.includes('  volumeName: pv3\\n')")).await;
    assert_eq!(browser.value(&format!("{text}.includes('managedFields')")).await, false);
}

#[tokio::test]
async fn page_loads_everything_from_its_own_server() {
    let plane = Plane::start().await;
    let page = plane.http().get("/ui/").await;
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    let page = page.text();
    let elsewhere: Vec<&str> = page.split(['"', '\'']).filter(|part| part.contains("//")).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?} is elsewhere");
}

#[tokio::test]
async fn page_follows_changes() {
    let mut plane = Plane::start().await;
    let (kubectl, http) = (plane.kubectl(), plane.http());
    let mut browser = Browser::open(&(plane.url() + "/ui/#/list/persistentvolumes")).await;
    browser.until("is live", LIVE).await;
    kubectl.apply(VOLUME).await;
    browser.until("a volume comes", &(row("pv3") + ".includes('Available')")).await;
    kubectl.apply(CLAIM).await;
    browser.until("both sides", &(row("pv3") + ".includes('default/myclaim')")).await;
    // Values of other users are shown as text only.
    let trap = "<img src=x onerror=\"document.title='caught'\">";
    let event = json!({"metadata": {"name": "trap"}, "reason": "Trap", "message": trap, "type": "Warning",
        "involvedObject": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "myclaim"}});
    http.create("/api/v1/namespaces/default/events", &event).await;
    go(&mut browser, "#/list/events").await;
    browser.until("the trap as text", &(row("Trap") + ".some(text => text.includes('<img src=x'))")).await;
    assert_eq!(browser.value("document.querySelectorAll('img').length").await, 0);
    assert_eq!(browser.value("document.title").await, "Events · orlop");
    // Keyboard shortcuts: to the claims, and to the search.
    let press = |key: &str| {
        format!(
            "document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}})), 0"
        )
    };
    browser.value(&press("g")).await;
    browser.value(&press("c")).await;
    browser.until("the claims", &(row("myclaim") + ".includes('Bound')")).await;
    // A page that is still being drawn takes the focus.
    let focused = format!("document.activeElement.id == 'search' || ({}, false)", press("/"));
    browser.until("the search has the focus", &focused).await;
    // The server dies: the page shows it, and continues when the server is back.
    plane.kill().await;
    browser.until("is not live", &LIVE.replace("==", "!=")).await;
    browser.until("says so", "document.querySelector('.stale')?.innerText.startsWith('Not live')").await;
    plane.start_again().await;
    browser.until("is live again", LIVE).await;
    kubectl.run(&["delete", "pvc", "myclaim"]).await.ok();
    browser.until("the claim goes", &(row("myclaim") + ".length == 0")).await;
    go(&mut browser, "#/list/persistentvolumes").await;
    browser.until("its volume", &(row("pv3") + ".includes('Released')")).await;
}

#[tokio::test]
async fn api_browser_shows_searches_and_tries_operations() {
    let plane = Plane::start().await;
    plane.kubectl().apply(VOLUME).await;
    let mut browser = Browser::open(&(plane.url() + "/ui/")).await;
    browser.until("a link", "document.querySelector('nav a[href=\"/docs\"]') != null").await;
    let mut browser = Browser::open(&(plane.url() + "/docs")).await;
    browser.until("it is read", "document.getElementById('state')?.textContent.includes('kinds')").await;
    let shown = |text: &str| format!("document.getElementById('shown').innerText.includes('{text}')");
    let click = |selector: &str, text: &str| {
        format!(
            "[...document.querySelectorAll('{selector}')].find(one => one.textContent.includes('{text}')).click()"
        )
    };
    // A field, by keyboard: the shortcut of the search, then its result.
    browser.value("document.dispatchEvent(new KeyboardEvent('keydown', {key: '/'})), 0").await;
    assert_eq!(browser.value("document.activeElement.id").await, "search");
    let search = "(field => { field.value = 'ReclaimPolicy'; field.dispatchEvent(new Event('input')); return 0; })(document.activeElement)";
    browser.value(search).await;
    browser.until("it is found", &shown("PersistentVolumeSpec.persistentVolumeReclaimPolicy")).await;
    browser.value(&click("#found a", "PersistentVolumeSpec.persistentVolumeReclaimPolicy")).await;
    browser.until("the schema", &shown("io.k8s.api.core.v1.PersistentVolumeSpec")).await;
    // A kind with its operations, one of which is tried.
    browser.value(&click("#groups a", "PersistentVolume")).await;
    browser.value("location.hash = '#/api/v1/persistentvolumes', 0").await;
    browser.until("operations", &shown("/api/v1/persistentvolumes/{name}/status")).await;
    browser.value("document.querySelector('.operation summary').click()").await;
    browser.until("parameters", &shown("labelSelector")).await;
    browser.until("responses", &shown("Unauthorized")).await;
    browser.value("document.querySelector('.operation form').requestSubmit(), 0").await;
    browser.until("the answer", &shown("\"kind\": \"PersistentVolumeList\"")).await;
    browser.until("the volume", &shown("172.16.51.58.1")).await;
    // A non-resource endpoint.
    browser.value("location.hash = '#/orlop/health', 0").await;
    browser.until("health", &shown("/readyz/{check}")).await;
    let dom = browser.value("document.documentElement.outerHTML").await;
    let dom = dom.as_str().unwrap();
    let elsewhere = dom.split(['"', '\'']).find(|part| part.starts_with("http"));
    assert_eq!(elsewhere, None, "everything comes from the server itself");
}

#[tokio::test]
async fn page_requires_credentials_and_accepts_a_link() {
    let plane = Plane::of(Layout::OneProcess).closed().start().await;
    let url = plane.url();
    let mut browser = Browser::open(&(url.clone() + "/")).await;
    browser.until("it asks", "document.querySelector('h1')?.textContent == 'Sign in'").await;
    let (code, link, err) = orlop(&plane, Some(&plane.data_dir()), &["page", "--server", &url]);
    assert_eq!(code, Some(0), "{err}");
    let fill = |text: &str| {
        format!(
            "(field => {{ field.focus(); field.value = '{text}'; field.dispatchEvent(new Event('input', {{bubbles: true}})); return 0; }})\
             (document.querySelector('input[name=credential]'))"
        )
    };
    let (is_ready, send) = (
        "!document.querySelector('main form button').disabled",
        "document.querySelector('main form').requestSubmit(), 0",
    );
    // A rejected token leaves the form as it is.
    browser.value(&fill("wrong")).await;
    browser.until("the button", is_ready).await;
    browser.value(send).await;
    browser
        .until("it rejects", "document.querySelector('main').textContent.includes('token is not valid')")
        .await;
    let left = "(field => field.value == 'wrong' && document.activeElement == field)(document.querySelector('input[name=credential]'))";
    assert_eq!(browser.value(left).await, true, "the form keeps its text and the focus");
    browser.value(&fill(link.trim())).await;
    browser.until("the button", is_ready).await;
    browser.value(send).await;
    browser.until("it follows the server", LIVE).await;
    // Opened.
    let link = orlop(&plane, Some(&plane.data_dir()), &["page", "--server", &url]).1;
    let mut browser = Browser::open(link.trim()).await;
    browser.until("it follows the server", LIVE).await;
    let hash = browser.value("location.hash").await;
    assert!(!hash.as_str().unwrap().contains("code"), "{hash}");
}
