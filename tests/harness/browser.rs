//! A headless Chromium with one page open, controlled through its debugging pipe: JSON messages that end with a
//! zero byte.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::process::command;
use super::wait;

/// The flags of every start of the browser.
pub(crate) const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    // /dev/shm has 64 MB in a container, which is less than two pages need.
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// The message if the browser cannot be started.
pub(crate) const MISSING: &str =
    "chromium does not start; hack/test installs it, or: apt-get install -y chromium";

/// The maximum number of starts of a browser that crashes at the start.
const STARTS: u32 = 3;

/// A running browser. Dropping it ends its processes.
pub(crate) struct Browser {
    process: Child,
    to: File,
    from: mpsc::UnboundedReceiver<Value>,
    session: String,
    next: u64,
    // The last field: the process must end before its profile is removed.
    profile: TempDir,
}

fn pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success(), "mkfifo {}", path.display());
}

impl Browser {
    /// Opens a URL. A browser that exits before it shows a page is started again, at most [`STARTS`] times: on a
    /// busy machine Chromium sometimes crashes at the start.
    pub(crate) async fn open(url: &str) -> Browser {
        let mut last = String::new();
        for _ in 0..STARTS {
            let mut browser = Browser::start().await;
            match browser.attach(url).await {
                Ok(()) => return browser,
                Err(exited) => last = exited,
            }
        }
        panic!("{MISSING}\n{last}");
    }

    async fn start() -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let (to, from) = (profile.path().join("to"), profile.path().join("from"));
        pipe(&to);
        pipe(&from);
        // The browser reads from descriptor 3 and writes to 4; only a shell can set these up without unsafe code. `exec`
        // is used throughout, so that the child is the browser itself.
        let mut browser = command("sh", profile.path());
        browser.env("TMPDIR", profile.path());
        browser.args(["-c", r#"exec chromium "$@" 3<"$HOME/to" 4>"$HOME/from""#, "sh"]);
        browser.args(FLAGS).arg("--remote-debugging-pipe").arg("--window-size=1300,900");
        browser.arg(format!("--user-data-dir={}", profile.path().join("profile").display()));
        let log = File::create(profile.path().join("log")).unwrap();
        browser.arg("about:blank").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = browser.spawn().expect("a shell starts");
        // Opening a pipe blocks until the other side opens it.
        let open = move || (File::options().write(true).open(to).unwrap(), File::open(from).unwrap());
        let (to, from) = wait::in_time(MISSING, tokio::task::spawn_blocking(open)).await.unwrap();
        let (tell, heard) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let messages = BufReader::new(from).split(0).map_while(Result::ok);
            for message in messages {
                let message = serde_json::from_slice(&message).expect("the browser speaks JSON");
                if tell.send(message).is_err() {
                    return;
                }
            }
        });
        Browser { process, to, from: heard, session: String::new(), next: 0, profile }
    }

    async fn attach(&mut self, url: &str) -> Result<(), String> {
        let target = self.call("Target.createTarget", json!({"url": url})).await?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.call("Target.attachToTarget", attach).await?;
        session["sessionId"].as_str().expect("a session").clone_into(&mut self.session);
        Ok(())
    }

    /// The result of a call. The error, if the browser exits instead, is its exit status and its log.
    async fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        if self.to.write_all(format!("{message}\0").as_bytes()).is_err() {
            return Err(self.exited(method));
        }
        loop {
            let Some(heard) = wait::in_time(method, self.from.recv()).await else {
                return Err(self.exited(method));
            };
            if heard["id"] == self.next {
                assert!(heard["error"].is_null(), "{method}: {heard}");
                return Ok(heard["result"].clone());
            }
        }
    }

    fn exited(&mut self, method: &str) -> String {
        let log = std::fs::read_to_string(self.profile.path().join("log")).unwrap_or_default();
        format!("{method}: chromium exited: {:?}\n{log}", self.process.wait())
    }

    /// The value of an expression.
    pub(crate) async fn value(&mut self, script: &str) -> Value {
        let params = json!({"expression": script, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params).await.unwrap_or_else(|exited| panic!("{exited}"));
        assert!(result["exceptionDetails"].is_null(), "{script}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until a script returns true; if it never does, the error shows the page's content.
    pub(crate) async fn until(&mut self, what: &str, script: &str) {
        wait::until(&format!("the page: {what}"), async || {
            if self.value(script).await == true {
                return Ok(());
            }
            let shown = self.value("document.body?.innerText").await;
            Err(shown.as_str().unwrap_or_default().to_owned())
        })
        .await;
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // On request, it ends with all its processes; after a kill, some of them would still use their files.
        let close = json!({"id": 0, "method": "Browser.close"});
        let asked = self.to.write_all(format!("{close}\0").as_bytes()).is_ok();
        let until = Instant::now() + Duration::from_secs(5);
        while asked && Instant::now() < until && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        // It may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
