//! The real kubectl against a control plane, with its own home: no configuration and no shared cache.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::process::command;
use super::wait;

/// kubectl for one server.
pub(crate) struct Kubectl {
    /// The flag that names the server.
    server: [String; 2],
    home: PathBuf,
}

/// Its output.
#[derive(Debug)]
pub(crate) struct KubectlOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl KubectlOutput {
    /// Its output, if it succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "kubectl said:\n{}\n{}", self.out, self.err);
        self.out
    }

    /// Its error output; it must have failed.
    #[track_caller]
    pub(crate) fn refused(self) -> String {
        assert_ne!(self.code, Some(0), "kubectl said:\n{}\n{}", self.out, self.err);
        self.err
    }
}

/// A kubectl that runs in the background.
pub(crate) struct Running {
    what: String,
    child: Child,
    out: PathBuf,
}

impl Running {
    /// Its output so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.out).unwrap_or_default()).into_owned()
    }

    /// Waits until its output matches.
    pub(crate) async fn says(&self, fits: impl Fn(&str) -> bool) -> String {
        wait::until(&format!("kubectl {} says it", self.what), async || {
            let said = self.said();
            if fits(&said) { Ok(said) } else { Err(said) }
        })
        .await
    }

    /// Whether it is still running.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for it to exit; it must succeed.
    pub(crate) async fn ok(mut self) -> String {
        let status = wait::until(&format!("kubectl {} ends", self.what), async || {
            self.child.try_wait().unwrap().ok_or_else(|| self.said())
        })
        .await;
        assert!(status.success(), "kubectl {}: {}", self.what, self.said());
        self.said()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Kubectl {
    pub(crate) fn new(url: &str, home: &Path) -> Self {
        Kubectl { server: ["--server".to_owned(), url.to_owned()], home: home.to_owned() }
    }

    /// kubectl with the server and the credentials of a kubeconfig.
    pub(crate) fn with_kubeconfig(file: &Path, home: &Path) -> Self {
        Kubectl { server: ["--kubeconfig".to_owned(), file.display().to_string()], home: home.to_owned() }
    }

    /// `kubectl ARGS`.
    pub(crate) async fn run(&self, args: &[&str]) -> KubectlOutput {
        self.run_with(args, "").await
    }

    /// `kubectl ARGS` with this input.
    pub(crate) async fn run_with(&self, args: &[&str], input: &str) -> KubectlOutput {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::finish(command, input).await
    }

    /// `kubectl edit ARGS` with a shell script as the editor: `$1` is the file that it changes.
    pub(crate) async fn edit(&self, args: &[&str], script: &str) -> KubectlOutput {
        let editor = self.home.join("editor");
        std::fs::write(&editor, script).unwrap();
        let mut command = self.command(&[&["edit"], args].concat());
        command.env("KUBE_EDITOR", format!("sh {}", editor.display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::finish(command, "").await
    }

    /// `kubectl ARGS` in the background: it runs until it exits or is dropped.
    pub(crate) fn start(&self, name: &str, args: &[&str]) -> Running {
        let out = self.home.join(format!("kubectl-{name}.out"));
        let file = File::create(&out).unwrap();
        let mut command = self.command(args);
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        Running { what: args.join(" "), child: command.spawn().unwrap(), out }
    }

    /// The minor version of this kubectl.
    pub(crate) async fn minor(&self) -> u32 {
        let text = self.run(&["version", "--client", "--output", "json"]).await.ok();
        let version: Value = serde_json::from_str(&text).unwrap();
        let minor = version["clientVersion"]["minor"].as_str().unwrap().trim_end_matches('+');
        minor.parse().unwrap_or_else(|_| panic!("a version of kubectl: {text}"))
    }

    /// Whether this kubectl supports a feature of 1.`minor`; if not, reports the skipped part on standard error.
    pub(crate) async fn can(&self, what: &str, minor: u32) -> bool {
        let has = self.minor().await;
        if has < minor {
            eprintln!("left out, this kubectl is 1.{has} and it came with 1.{minor}: {what}");
        }
        has >= minor
    }

    /// `kubectl ARGS`, not yet started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = command("kubectl", &self.home);
        command.env("KUBECONFIG", "/dev/null").args(&self.server).args(args);
        command
    }

    async fn finish(mut command: Command, input: &str) -> KubectlOutput {
        let input = input.to_owned();
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("kubectl does not start ({error}): apt-get install -y kubernetes-client")
        });
        let pid = Pid::from_child(&child);
        let run = move || {
            let mut stdin = child.stdin.take().expect("stdin is piped");
            // kubectl may exit before it has read all of it.
            let _ = stdin.write_all(input.as_bytes());
            drop(stdin);
            child.wait_with_output().unwrap()
        };
        let mut run = tokio::task::spawn_blocking(run);
        let output = match tokio::time::timeout(wait::PATIENCE, &mut run).await {
            Ok(output) => output.unwrap(),
            Err(_) => {
                // The process has not been reaped, so its id is still its own.
                let _ = kill_process(pid, Signal::KILL);
                let output = run.await.unwrap();
                let said = [output.stdout, output.stderr].concat();
                panic!("{command:?} takes too long; it said:\n{}", String::from_utf8_lossy(&said));
            }
        };
        KubectlOutput {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// `kubectl apply -f -`.
    pub(crate) async fn apply(&self, yaml: &str) -> String {
        self.run_with(&["apply", "-f", "-"], yaml).await.ok()
    }
}
