//! The CSI driver of the benchmark: this binary as `orlop csi-hostpath`. Its volumes are records and empty
//! directories, so that the benchmark measures orlop and not the driver.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::BenchError;

/// Timeout for the driver to create its socket.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running driver. Dropping it kills the process.
pub(crate) struct Driver {
    process: Child,
    socket: PathBuf,
}

impl Driver {
    /// The driver name.
    pub(crate) const NAME: &'static str = orlop_csi_hostpath::NAME;

    /// Starts the driver below `dir` for these nodes and waits for its socket.
    pub(crate) async fn start(program: &Path, dir: &Path, nodes: &[String]) -> Result<Self, BenchError> {
        let failed = |what, path: &Path, error| BenchError::File { what, path: path.to_owned(), error };
        std::fs::create_dir_all(dir).map_err(|error| failed("cannot make", dir, error))?;
        let (socket, log) = (dir.join("csi.sock"), dir.join("driver.log"));
        let log_file = File::create(&log).map_err(|error| failed("cannot write", &log, error))?;
        let (first, others) = nodes.split_first().map_or(("", &[][..]), |(first, others)| (first, others));
        let process = Command::new(program)
            .args(["csi-hostpath", "--endpoint", &format!("unix://{}", socket.display()), "--data-dir"])
            .arg(dir.join("volumes"))
            .args(["--node-id", first, "--other-nodes", &others.join(",")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log_file)
            .spawn()
            .map_err(|error| failed("cannot start", program, error))?;
        let driver = Driver { process, socket };
        let begin = Instant::now();
        while tokio::net::UnixStream::connect(&driver.socket).await.is_err() {
            if begin.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(BenchError::Child {
                    problem: "driver that bench started does not answer".to_owned(),
                    log,
                });
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(driver)
    }

    /// The value of `--csi-endpoint` for this driver.
    pub(crate) fn endpoint(&self) -> String {
        format!("{}=unix://{}", Self::NAME, self.socket.display())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
