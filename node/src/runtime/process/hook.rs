//! The postStart and preStop hooks of a container: a program that joins the container, an HTTP request, or a
//! sleep (upstream: pkg/kubelet/lifecycle).

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};

use super::container_run;
use super::launch_spec::Program;
use super::probe::{self, JoinTarget};

/// Runs a hook with the timeout `limit`.
///
/// # Errors
/// The hook failed.
pub(super) async fn run(
    handler: &LifecycleHandler,
    container: &Container,
    target: &JoinTarget,
    limit: Duration,
) -> Result<(), String> {
    if let Some(exec) = &handler.exec {
        let program = Program { args: exec.command.clone().unwrap_or_default(), ..target.program.clone() };
        let joined = container_run::join(&target.launcher, &target.attempt, program, limit).await?;
        return match joined.code {
            Some(0) => Ok(()),
            Some(code) => Err(format!("command ended with exit code {code}: {}", joined.said)),
            None => Err(format!("command timed out: no end after {} s", limit.as_secs())),
        };
    }
    if let Some(get) = &handler.http_get {
        return probe::http(get, container.ports.as_deref().unwrap_or_default(), limit).await;
    }
    if let Some(sleep) = &handler.sleep {
        let rest = Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or_default());
        tokio::time::sleep(rest.min(limit)).await;
        return Ok(());
    }
    Err("the hook has no handler that this runtime supports (exec, httpGet or sleep)".to_owned())
}
