//! Hooks: programs of the administrator that run on pod events, one file per event in one directory, with the
//! event in the environment and the pod as JSON on standard input. After 30 seconds, a program is killed with its
//! process group.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use orlop_client::api::Json as _;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use super::PodPath;
use super::captured_output::CapturedOutput;

/// How long a hook may run.
const DEADLINE: Duration = Duration::from_secs(30);
/// The number of bytes that are kept of each output stream.
const OUTPUT: usize = 16 * 1024;

/// The event for which a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEvent {
    /// A volume is mounted; runs for each volume, before the pod starts.
    VolumeMounted,
    /// All volumes are mounted and the links are created. When this hook fails, the pod counts as not started.
    PodStarted,
    /// The pod is about to stop; its volumes stay until this hook has exited.
    PodStopping,
    /// A volume is about to be unmounted; runs for each volume, after the links are removed.
    VolumeUnmounting,
    /// The links are removed, and the volumes are unmounted next.
    PodStopped,
}

impl HookEvent {
    /// The name of the file and of the event.
    pub fn name(self) -> &'static str {
        match self {
            Self::VolumeMounted => "volume-mounted",
            Self::PodStarted => "pod-started",
            Self::PodStopping => "pod-stopping",
            Self::VolumeUnmounting => "volume-unmounting",
            Self::PodStopped => "pod-stopped",
        }
    }
}

/// A hook failed.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// It cannot be started.
    #[error("hook {} cannot be run (is it executable?): {source}", path.display())]
    Run {
        /// The file.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// It exited with an error.
    #[error("hook {} ended with {how}: {said}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The exit status, as text.
        how: String,
        /// The end of its output.
        said: String,
    },
    /// It exceeded the deadline.
    #[error("hook {} has not ended within {seconds} s and was killed: {said}", path.display())]
    Late {
        /// The file.
        path: PathBuf,
        /// The deadline.
        seconds: u64,
        /// The end of its output.
        said: String,
    },
}

/// The hooks of one directory.
#[derive(Clone, Debug)]
pub struct Hooks {
    dir: Option<PathBuf>,
    deadline: Duration,
}

impl Hooks {
    /// The hooks in this directory; `None` for no hooks.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self { dir, deadline: DEADLINE }
    }

    /// With another deadline.
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs the hook of an event, if one exists. `volume` is the volume of the event.
    ///
    /// # Errors
    /// The hook cannot be started, exited with another code than 0, or exceeded its deadline.
    pub async fn run(
        &self,
        event: HookEvent,
        pod: &Pod,
        paths: &[PodPath],
        volume: Option<&PodPath>,
    ) -> Result<(), HookError> {
        let Some(path) = self.dir.as_ref().map(|dir| dir.join(event.name())) else { return Ok(()) };
        if !path.exists() {
            return Ok(());
        }
        let cannot = |source| HookError::Run { path: path.clone(), source };
        let mut child = Command::new(&path)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|value| ("PATH", value)))
            .envs(environment(event, pod, paths, volume))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(cannot)?;
        let body = pod.encode().map_err(|error| cannot(error.into()))?;
        let (status, said) = self.watch(&mut child, &body).await;
        tracing::info!(hook = event.name(), pod = ?pod.metadata.name, "hook exited ({status:?}): {said}");
        match status {
            Some(Ok(status)) if status.success() => Ok(()),
            Some(Ok(status)) => Err(HookError::Failed { path, how: status.to_string(), said }),
            Some(Err(source)) => Err(HookError::Run { path, source }),
            None => Err(HookError::Late { path, seconds: self.deadline.as_secs(), said }),
        }
    }

    /// Waits until a program exits or exceeds its deadline, and captures its output.
    async fn watch(
        &self,
        child: &mut Child,
        body: &[u8],
    ) -> (Option<io::Result<std::process::ExitStatus>>, String) {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let out = child.stdout.take().map(|stream| CapturedOutput::of(stream, OUTPUT));
        let err = child.stderr.take().map(|stream| CapturedOutput::of(stream, OUTPUT));
        let input = child.stdin.take();
        let feed = async {
            if let Some(mut input) = input {
                // A program need not read its input.
                let _ = input.write_all(body).await;
            }
        };
        let (_, status) = tokio::join!(
            tokio::time::timeout(self.deadline, feed),
            tokio::time::timeout(self.deadline, child.wait())
        );
        if status.is_err() {
            if let Some(group) = group {
                // It may have exited in the meantime.
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait().await;
        }
        let mut said = String::new();
        for output in [out, err].into_iter().flatten() {
            said.push_str(&output.end().await);
        }
        (status.ok(), said.trim().to_owned())
    }
}

fn environment(
    event: HookEvent,
    pod: &Pod,
    paths: &[PodPath],
    volume: Option<&PodPath>,
) -> BTreeMap<String, std::ffi::OsString> {
    let metadata = &pod.metadata;
    let mut all: BTreeMap<String, std::ffi::OsString> = BTreeMap::new();
    for path in paths {
        all.insert(format!("ORLOP_VOLUME_{}", variable(&path.volume)), path.path.clone().into());
    }
    for (name, value) in [
        ("ORLOP_EVENT", Some(event.name())),
        ("ORLOP_NAMESPACE", metadata.namespace.as_deref()),
        ("ORLOP_POD", metadata.name.as_deref()),
        ("ORLOP_UID", metadata.uid.as_deref()),
        ("ORLOP_VOLUME", volume.map(|path| path.volume.as_str())),
    ] {
        if let Some(value) = value {
            all.insert(name.to_owned(), value.into());
        }
    }
    if let Some(volume) = volume {
        all.insert("ORLOP_PATH".to_owned(), volume.path.clone().into());
    }
    all
}

/// The name of a volume as part of an environment variable: `web-data` is `WEB_DATA`.
fn variable(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn hooks(script: &str) -> (tempfile::TempDir, Hooks) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pod-started");
        // Another process writes it: the children of concurrent tests would inherit the open file, and an open file cannot be executed.
        let write = r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod 755 "$1""#;
        let written =
            std::process::Command::new("sh").args(["-c", write, "sh"]).arg(&path).arg(script).status();
        assert!(written.unwrap().success());
        let hooks = Hooks::new(Some(dir.path().to_owned()));
        (dir, hooks)
    }

    fn pod() -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}}))
            .unwrap()
    }

    #[tokio::test]
    async fn hook_receives_the_event_and_the_pod() {
        let (dir, hooks) = hooks(r#"cd "${0%/*}"; env | grep ORLOP | sort >env; cat >body; echo said"#);
        let path = PodPath { volume: "web-data".into(), path: "/v".into(), read_only: false, block: false };
        hooks.run(HookEvent::PodStarted, &pod(), std::slice::from_ref(&path), None).await.unwrap();
        let env = std::fs::read_to_string(dir.path().join("env")).unwrap();
        let want = "ORLOP_EVENT=pod-started\nORLOP_NAMESPACE=n\nORLOP_POD=p\nORLOP_UID=u\nORLOP_VOLUME_WEB_DATA=/v\n";
        assert_eq!(env, want);
        let body: Pod = serde_json::from_slice(&std::fs::read(dir.path().join("body")).unwrap()).unwrap();
        assert_eq!(body, pod());
        hooks.run(HookEvent::PodStopped, &pod(), &[], None).await.unwrap();
    }

    #[tokio::test]
    async fn failed_hook_reports_its_status_and_output() {
        let (_dir, bad) = hooks("echo no room >&2; exit 3");
        let error = bad.run(HookEvent::PodStarted, &pod(), &[], None).await.unwrap_err().to_string();
        assert!(error.ends_with("ended with exit status: 3: no room"), "{error}");
        let (_dir, slow) = hooks("echo waiting; sleep 600 & sleep 600");
        let slow = slow.with_deadline(Duration::from_millis(300));
        let error = slow.run(HookEvent::PodStarted, &pod(), &[], None).await.unwrap_err();
        assert!(matches!(&error, HookError::Late { said, .. } if said == "waiting"), "{error}");
        let (_dir, loud) = hooks("yes | head -c 1000000; exit 1");
        let error = loud.run(HookEvent::PodStarted, &pod(), &[], None).await.unwrap_err();
        assert!(matches!(&error, HookError::Failed { said, .. } if said.len() < 20_000), "{error}");
    }
}
