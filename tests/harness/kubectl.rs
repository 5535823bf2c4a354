//! The real kubectl against a plane, with a home of its own: no configuration, no cache of others.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::process::command;

/// kubectl for one server.
pub(crate) struct Kubectl {
    url: String,
    home: PathBuf,
}

/// What it said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// What it printed, if it went well.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "kubectl said:\n{}\n{}", self.out, self.err);
        self.out
    }
}

impl Kubectl {
    pub(crate) fn new(url: &str, home: &Path) -> Self {
        Kubectl { url: url.to_owned(), home: home.to_owned() }
    }

    /// `kubectl ARGS`.
    pub(crate) async fn run(&self, args: &[&str]) -> Said {
        self.run_with(args, "").await
    }

    /// `kubectl ARGS` that reads a text.
    pub(crate) async fn run_with(&self, args: &[&str], input: &str) -> Said {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::finish(command, input).await
    }

    /// `kubectl edit ARGS`, where a shell script is the person: `$1` is the file that it changes.
    pub(crate) async fn edit(&self, args: &[&str], script: &str) -> Said {
        let editor = self.home.join("editor");
        std::fs::write(&editor, script).unwrap();
        let mut command = self.command(&[&["edit"], args].concat());
        command.env("KUBE_EDITOR", format!("sh {}", editor.display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::finish(command, "").await
    }

    /// `kubectl ARGS`, not yet started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = command("kubectl", &self.home);
        command.env("KUBECONFIG", "/dev/null").arg("--server").arg(&self.url).args(args);
        command
    }

    async fn finish(mut command: Command, input: &str) -> Said {
        let input = input.to_owned();
        let run = move || {
            let mut child = command.spawn().unwrap_or_else(|error| {
                panic!("kubectl does not start ({error}): apt-get install -y kubernetes-client")
            });
            let mut stdin = child.stdin.take().expect("stdin is piped");
            // kubectl may not want to read all of it.
            let _ = stdin.write_all(input.as_bytes());
            drop(stdin);
            child.wait_with_output().unwrap()
        };
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        Said {
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
