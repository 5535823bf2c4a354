//! Runs this machine as a node: `orlop node` in a separate process, in a directory of the run. Dropping a
//! `NodeAgent` unmounts everything below that directory, so that the files can be removed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};
use serde_json::Value;

use crate::client::Draft;
use crate::environment::Server;
use crate::error::BenchError;
use crate::process;

/// Timeout for the node to become ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running agent.
pub(crate) struct NodeAgent {
    process: Child,
    root: PathBuf,
}

impl NodeAgent {
    /// Starts an agent in `dir`, with additional flags, and waits until its Node is Ready.
    pub(crate) async fn start(
        program: &Path,
        dir: &Path,
        name: &str,
        server: &Server,
        flags: &[&str],
    ) -> Result<Self, BenchError> {
        let failed = |what, path: &Path, error| BenchError::File { what, path: path.to_owned(), error };
        std::fs::create_dir_all(dir).map_err(|error| failed("cannot make", dir, error))?;
        // The mount table lists paths without symbolic links.
        let dir = dir.canonicalize().map_err(|error| failed("cannot use", dir, error))?;
        let (root, log) = (dir.join("node"), dir.join("agent.log"));
        let log_file = File::create(&log).map_err(|error| failed("cannot write", &log, error))?;
        let mut command = Command::new(program);
        command.args([
            "node",
            "--name",
            name,
            "--server",
            &server.endpoint.url,
            "--port",
            "0",
            "--eviction-hard=",
            "--root-dir",
        ]);
        command.arg(&root).args(flags);
        // `ORLOP_*` variables of the caller must not configure this agent.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ORLOP_"))
        {
            command.env_remove(name);
        }
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log_file)
            .spawn()
            .map_err(|error| failed("cannot start", program, error))?;
        let mut agent = NodeAgent { process, root };
        let begin = Instant::now();
        let path = format!("/api/v1/nodes/{name}");
        loop {
            let body = server.once(&Draft::of("GET", path.as_str()), &[200, 404]).await?;
            if is_ready(&serde_json::from_slice(&body).unwrap_or_default()) {
                return Ok(agent);
            }
            let has_ended = agent.process.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || begin.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(BenchError::Child {
                    problem: "agent that bench started has no ready node".to_owned(),
                    log,
                });
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The process ID of the agent.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The number of mounts below the agent's directory.
    pub(crate) fn mounts(&self) -> usize {
        process::mounted(&self.root).len()
    }
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

impl Drop for NodeAgent {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
        for target in process::mounted(&self.root).iter().rev() {
            // If this unmount fails, removing the directory fails too and reports the problem.
            let _ = unmount(target, UnmountFlags::DETACH);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_ready_nodes_count() {
        for (case, node, ready) in [
            ("1 none", json!({"code": 404}), false),
            ("2 new", json!({"status": {}}), false),
            ("3 not ready", json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}), false),
            ("4 ready", json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}), true),
        ] {
            assert_eq!(is_ready(&node), ready, "{case}");
        }
    }
}
