//! `orlop node gc`: reports the leftovers in the directory of an agent, one sentence for each finding.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use orlop_client::client::{ConnectError, Endpoint};
use orlop_node::config::NodeConfig;
use orlop_node::gc::{self, GcError, Purge, Report, Request};
use orlop_node::volumes::{LeftVolume, OrphanOutcome};

use crate::local_admin;

/// Exit code: data or mounts remain.
const EXIT_PROBLEMS: u8 = 1;
/// Exit code: the directory could not be examined.
const EXIT_ERROR: u8 = 2;

/// The directory to clean up, and the options.
pub(crate) struct Gc {
    pub(crate) config: NodeConfig,
    pub(crate) server: Endpoint,
    pub(crate) dry_run: bool,
    pub(crate) purge: Option<Duration>,
}

/// Why the directory cannot be examined.
#[derive(Debug, thiserror::Error)]
enum CannotLook {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Gc(#[from] GcError),
    #[error("cannot start threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// Cleans up the directory and returns the exit code.
pub(crate) fn run(gc: Gc) -> ExitCode {
    // The built-in filter is always valid.
    let _ = crate::logging::start_for_tool();
    let dry_run = gc.dry_run;
    let work = || -> Result<Report, CannotLook> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let report = runtime.block_on(async {
            let client = local_admin::connect(gc.server).await?;
            let request = Request { config: gc.config, client, dry_run: gc.dry_run, purge: gc.purge };
            Ok::<_, CannotLook>(gc::run(request).await?)
        });
        // A mount that hangs blocks its thread.
        runtime.shutdown_background();
        report
    };
    match work() {
        Ok(report) => {
            let (text, is_amiss) = render(&report, dry_run);
            // A reader that closed the pipe needs no more output.
            let _ = std::io::stdout().write_all(text.as_bytes());
            if is_amiss { ExitCode::from(EXIT_PROBLEMS) } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            eprintln!("error: {}", crate::error::chain(&error));
            ExitCode::from(EXIT_ERROR)
        }
    }
}

/// The report as text, and whether data or mounts remain or would be removed. Pure.
fn render(report: &Report, dry_run: bool) -> (String, bool) {
    let mut lines: Vec<(bool, String)> = Vec::new();
    let mut say = |is_amiss: bool, line: String| lines.push((is_amiss, line));
    let root = report.root.display();
    match (report.agent_runs, dry_run) {
        (true, true) => say(false, format!("{root}: in use by an agent")),
        (true, false) => {
            say(
                false,
                format!(
                    "{root}: in use by an agent, which cleans it up every minute; this command only reports"
                ),
            );
        }
        (false, _) => say(false, format!("{root}: not in use by an agent")),
    }
    let agent = if report.agent_runs { "the agent" } else { "the next agent" };
    for LeftVolume { volume, uid } in &report.left.volumes {
        let owner = match uid {
            Some(uid) => format!("of unknown pod {uid}"),
            None => "of no pod".to_owned(),
        };
        say(true, format!("unmounted by {agent}: volume {volume} ({owner})"));
    }
    let has_acted = !dry_run && !report.agent_runs;
    for finding in &report.left.findings {
        let path = finding.path.display();
        let line = match (&finding.fate, has_acted) {
            (OrphanOutcome::Removed, true) => format!("removed: {path}, which was empty"),
            (OrphanOutcome::Removed, false) => format!("would be removed: {path}, which is empty"),
            (OrphanOutcome::Quarantined(to), true) => {
                format!("moved into quarantine: {path}, which was not empty; it is now {}", to.display())
            }
            (OrphanOutcome::Quarantined(_), false) => {
                format!("would be moved into quarantine: {path}, which is not empty")
            }
            (OrphanOutcome::Mounted(mounts), _) => {
                let mounts: Vec<String> = mounts.iter().map(|mount| mount.display().to_string()).collect();
                format!("kept: {path}; unknown mounts in it: {}", mounts.join(", "))
            }
            (OrphanOutcome::Kept(why), _) => format!("kept: {path}; {why}"),
        };
        say(!has_acted || finding.fate != OrphanOutcome::Removed, line);
    }
    for quarantined in &report.quarantine {
        let path = quarantined.path.display();
        let age = match quarantined.age {
            Some(age) => format!("for {}", in_words(age)),
            None => "since an unknown time: its name contains no date, so it is never deleted".to_owned(),
        };
        match (&quarantined.purge, dry_run) {
            (Purge::Stays, _) => say(true, format!("in quarantine: {path}, {age}")),
            (Purge::Deleted, true) => say(true, format!("would be deleted from quarantine: {path}, {age}")),
            (Purge::Deleted, false) => say(false, format!("deleted from quarantine: {path}, {age}")),
            (Purge::Failed(why), _) => say(true, format!("in quarantine: {path}, {age}; not deleted: {why}")),
        }
    }
    let is_amiss = lines.iter().any(|(is_amiss, _)| *is_amiss);
    if !is_amiss {
        lines.push((false, "nothing is left".to_owned()));
    }
    (lines.into_iter().map(|(_, line)| line + "\n").collect(), is_amiss)
}

/// An age in its two largest units.
fn in_words(age: Duration) -> String {
    let seconds = age.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use orlop_node::gc::Quarantined;
    use orlop_node::volumes::{Finding, Remains};

    use super::*;

    fn finding(uid: &str, fate: OrphanOutcome) -> Finding {
        Finding { uid: uid.to_owned(), path: PathBuf::from("/r/pods").join(uid), fate }
    }

    fn report(agent_runs: bool, findings: Vec<Finding>, quarantine: Vec<Quarantined>) -> Report {
        let left = Remains { volumes: Vec::new(), findings };
        Report { root: PathBuf::from("/r"), agent_runs, left, quarantine }
    }

    #[test]
    fn report_distinguishes_done_from_planned() {
        let removed = || vec![finding("u", OrphanOutcome::Removed)];
        let moved = || vec![finding("u", OrphanOutcome::Quarantined(PathBuf::from("/r/quarantine/t-u")))];
        for (agent_runs, dry_run, findings, line, expected) in [
            (false, false, removed(), "removed: /r/pods/u, which was empty", false),
            (false, true, removed(), "would be removed: /r/pods/u, which is empty", true),
            (true, false, removed(), "would be removed: /r/pods/u, which is empty", true),
            (
                false,
                false,
                moved(),
                "moved into quarantine: /r/pods/u, which was not empty; it is now /r/quarantine/t-u",
                true,
            ),
            (true, true, moved(), "would be moved into quarantine: /r/pods/u, which is not empty", true),
            (
                false,
                false,
                vec![finding("u", OrphanOutcome::Mounted(vec![PathBuf::from("/r/pods/u/m")]))],
                "kept: /r/pods/u; unknown mounts in it: /r/pods/u/m",
                true,
            ),
            (
                false,
                false,
                vec![finding("u", OrphanOutcome::Kept("why".to_owned()))],
                "kept: /r/pods/u; why",
                true,
            ),
            (false, false, vec![], "nothing is left", false),
        ] {
            let (text, is_amiss) = render(&report(agent_runs, findings, vec![]), dry_run);
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
            assert_eq!(is_amiss, expected, "{text}");
        }
    }

    #[test]
    fn report_lists_the_quarantine() {
        let age = Some(Duration::from_secs(3 * 86_400 + 7200));
        let one = |age, purge| Quarantined { path: PathBuf::from("/q/x"), age, purge };
        for (dry_run, quarantined, line, expected) in [
            (false, one(age, Purge::Stays), "in quarantine: /q/x, for 3 d 2 h", true),
            (true, one(age, Purge::Deleted), "would be deleted from quarantine: /q/x, for 3 d 2 h", true),
            (false, one(age, Purge::Deleted), "deleted from quarantine: /q/x, for 3 d 2 h", false),
            (
                false,
                one(age, Purge::Failed("busy".to_owned())),
                "in quarantine: /q/x, for 3 d 2 h; not deleted: busy",
                true,
            ),
            (
                false,
                one(None, Purge::Stays),
                "in quarantine: /q/x, since an unknown time: its name contains no date, so it is never deleted",
                true,
            ),
        ] {
            let (text, is_amiss) = render(&report(false, vec![], vec![quarantined]), dry_run);
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
            assert_eq!(is_amiss, expected, "{text}");
        }
    }

    #[test]
    fn left_volumes_are_unmounted_by_the_agent() {
        let mut report = report(true, vec![], vec![]);
        report.left.volumes = vec![
            LeftVolume { volume: "kubernetes.io/csi/d^h".to_owned(), uid: None },
            LeftVolume { volume: "kubernetes.io/empty-dir/x".to_owned(), uid: Some("u".to_owned()) },
        ];
        let (text, is_amiss) = render(&report, false);
        assert!(is_amiss);
        for line in [
            "/r: in use by an agent, which cleans it up every minute; this command only reports",
            "unmounted by the agent: volume kubernetes.io/csi/d^h (of no pod)",
            "unmounted by the agent: volume kubernetes.io/empty-dir/x (of unknown pod u)",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }

    #[test]
    fn ages_have_two_units() {
        for (seconds, expected) in
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3661, "1 h 1 min"), (86_400 * 2, "2 d 0 h")]
        {
            assert_eq!(in_words(Duration::from_secs(seconds)), expected);
        }
    }
}
