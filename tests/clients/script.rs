//! External programs: their libraries are installed once; each program has a deadline and is killed when its test
//! ends.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;

use crate::harness::process::command;
use crate::harness::wait;

/// If this variable is set, libraries that cannot be installed are a failure.
const REQUIRED: &str = "ORLOP_REQUIRE_CLIENTS";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether these parts are installed; if not, reports the skipped tests on standard error.
fn install(parts: &[&str], left_out: &str) -> bool {
    for part in parts {
        // Long enough for the first installation over a slow connection.
        let mut command = Command::new("timeout");
        let output = command.arg("300").arg(root().join("hack/clients")).arg(part).output().unwrap();
        if output.status.success() {
            continue;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().last().unwrap_or("it took too long");
        assert!(std::env::var_os(REQUIRED).is_none(), "hack/clients {part}: {said}, and {REQUIRED} is set");
        // Not `eprintln!`: the test harness would capture it.
        let _ = writeln!(
            std::io::stderr(),
            "\nSKIPPED: {left_out}: hack/clients cannot install {part} ({why}). {REQUIRED}=1 makes this a failure"
        );
        return false;
    }
    true
}

static CLIENTS: LazyLock<bool> = LazyLock::new(|| {
    install(&["javascript", "python"], "the clients of Python and JavaScript, and schemathesis")
});

static BROWSER: LazyLock<bool> =
    LazyLock::new(|| install(&["browser"], "the stories of the page in a browser (tests/browser)"));

/// Whether the tests with the client libraries can run.
pub(super) async fn installed() -> bool {
    tokio::task::spawn_blocking(|| *CLIENTS).await.unwrap()
}

/// Whether a browser can be started.
pub(crate) async fn browser_installed() -> bool {
    tokio::task::spawn_blocking(|| *BROWSER).await.unwrap()
}

/// Python with the libraries of `requirements.txt`.
pub(super) fn python(script: &str, home: &Path) -> Command {
    let mut python = command(root().join("target/clients/python/bin/python"), home);
    python.arg("-u").arg(root().join("tests/clients/python").join(script));
    // The environment may configure a proxy; these programs connect only to this machine.
    python.env("NO_PROXY", "*").env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

/// A command of one of the libraries of `requirements.txt`. Its imports are resolved next to the test scripts.
pub(super) fn python_tool(name: &str, home: &Path) -> Command {
    let mut tool = command(root().join("target/clients/python/bin").join(name), home);
    tool.current_dir(home).env("PYTHONPATH", root().join("tests/clients/python"));
    tool.env("NO_PROXY", "*").env("PYTHONDONTWRITEBYTECODE", "1");
    tool
}

/// Node.js with the libraries of `package-lock.json`. Modules are resolved next to the script, so it is copied
/// there.
pub(super) fn node(script: &str, home: &Path) -> Command {
    let folder = root().join("target/clients/javascript");
    let copy = folder.join(script);
    std::fs::copy(root().join("tests/clients/javascript").join(script), &copy).unwrap();
    let mut node = command("node", home);
    node.arg(copy);
    node
}

/// A program that prints one JSON value per line.
pub(crate) struct Script {
    name: String,
    child: Child,
    out: PathBuf,
}

impl Script {
    /// Starts it; its output is saved in its home.
    pub(crate) fn start(name: &str, mut command: Command, home: &Path) -> Script {
        let out = home.join(format!("{name}.out"));
        let file = File::create(&out).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Script { name: name.to_owned(), child, out }
    }

    /// Its whole output so far, including lines that are not JSON.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.out).unwrap_or_default()).into_owned()
    }

    /// The complete lines of JSON that it has printed so far.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let said = self.said();
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until its output so far matches.
    pub(crate) async fn says(&mut self, what: &str, fits: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        wait::until(&format!("{}: {what}", self.name), async || {
            let lines = self.lines();
            if fits(&lines) {
                return Ok(lines);
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{} ended ({status}) before: {what}\n{}", self.name, self.said());
            }
            Err(self.said())
        })
        .await
    }

    /// Waits for it to exit with 0. It is killed after `patience`.
    pub(crate) async fn ok_within(mut self, patience: Duration) -> String {
        let end = tokio::time::Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{} ({status}):\n{}", self.name, self.said());
                return self.said();
            }
            assert!(tokio::time::Instant::now() < end, "{} takes too long:\n{}", self.name, self.said());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The same with the default timeout of the tests.
    pub(crate) async fn ok(self) -> String {
        self.ok_within(wait::PATIENCE).await
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
