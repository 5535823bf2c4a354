//! The environment of the rows: the directory, the servers, and the operations that several rows share.

use parking_lot::Mutex;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use crate::args::BenchArgs;
use crate::child::{Child, Role};
use crate::client::{Connection, Draft};
use crate::endpoint::{AGAINST, Endpoint, SERVER};
use crate::error::BenchError;
use crate::load::{Fill, Load, Work, drive};
use crate::machine::{Machine, sync_samples};
use crate::objects::{self, LABEL, Template};
use crate::plan::Plan;
use crate::process::Cpu;
use crate::samples::Samples;

/// Requests in flight of every load except the sequential one.
pub(crate) const IN_FLIGHT: usize = 64;

/// A server that a row measures.
pub(crate) struct Server {
    pub(crate) endpoint: Arc<Endpoint>,
    /// The process, if bench started the server.
    pub(crate) child: Option<Child>,
    data: Option<PathBuf>,
}

/// Data that one row leaves for another row.
#[derive(Clone, Debug)]
pub(crate) struct SharedData {
    pub(crate) data: PathBuf,
    pub(crate) volumes: usize,
}

/// The directory, the servers from the command line, and the options of the run.
pub(crate) struct Environment {
    pub(crate) plan: Plan,
    pub(crate) machine: Machine,
    /// Identifies the run; part of the names of all its objects.
    pub(crate) run: String,
    pub(crate) given: Option<Arc<Endpoint>>,
    pub(crate) against: Option<Arc<Endpoint>>,
    /// Whether the measured disk is the server's.
    knows_disk: bool,
    /// The binary of the servers that bench starts.
    program: PathBuf,
    kept: Mutex<Option<SharedData>>,
    directories: AtomicUsize,
    dir: TempDir,
}

impl Environment {
    /// Checks the flags, creates the directory and measures its disk.
    pub(crate) fn prepare(args: &BenchArgs) -> Result<Self, BenchError> {
        let endpoint = |url: &Option<String>, token: &Option<PathBuf>, authority: &Option<PathBuf>, flags| {
            let Some(url) = url else { return Ok(None) };
            Endpoint::new(url, token.as_deref(), authority.as_deref(), flags)
                .map(|found| Some(Arc::new(found)))
        };
        let given = endpoint(&args.server, &args.token_file, &args.certificate_authority, &SERVER)?;
        let against =
            endpoint(&args.against, &args.against_token_file, &args.against_certificate_authority, &AGAINST)?;
        let program = match &args.program {
            Some(path) => path.clone(),
            None => std::env::current_exe().map_err(|error| BenchError::File {
                what: "this program cannot be found",
                path: "/proc/self/exe".into(),
                error,
            })?,
        };
        let parent = args.data_dir.clone().unwrap_or_else(std::env::temp_dir);
        let private = Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new()
            .prefix("orlop-bench-")
            .permissions(private)
            .tempdir_in(&parent)
            .map_err(|error| BenchError::Flag {
                flag: "--data-dir",
                value: parent.display().to_string(),
                problem: format!("cannot create a directory in it: {error}"),
            })?;
        let plan = Plan::new(args.scale, args.operations, args.idle_seconds, against.is_some());
        let machine = Machine::look(dir.path(), plan.syncs)?;
        Ok(Environment {
            knows_disk: given.is_none() || args.data_dir.is_some(),
            plan,
            machine,
            run: format!("{:06x}", rand::random_range(0..1u32 << 24)),
            given,
            against,
            program,
            kept: Mutex::new(None),
            directories: AtomicUsize::new(0),
            dir,
        })
    }

    /// The binary of the servers that bench starts.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// A description of the measured server.
    pub(crate) fn server_words(&self) -> String {
        match &self.given {
            Some(endpoint) => endpoint.url.clone(),
            None => format!("{}, started by bench", self.program.display()),
        }
    }

    /// How to clean up after an interrupted run on a server that bench did not start.
    pub(crate) fn leftovers(&self) -> Option<String> {
        let url = &self.given.as_ref().or(self.against.as_ref())?.url;
        Some(format!(
            "objects created at {url} are deleted after each row; to find them after an interruption, select the label {LABEL}={}",
            self.run
        ))
    }

    /// Samples of the cost of a sync, if the disk is the server's. Takes one of `slices` parts of all samples.
    pub(crate) fn syncs(&self, slices: usize) -> Result<Samples, BenchError> {
        if !self.knows_disk {
            return Ok(Samples::default());
        }
        sync_samples(self.dir.path(), self.plan.syncs.div_ceil(slices.max(1)))
    }

    /// The path of a directory that does not exist yet.
    pub(crate) fn fresh_data(&self) -> PathBuf {
        self.dir.path().join(format!("data-{}", self.directories.fetch_add(1, Ordering::Relaxed)))
    }

    /// The prefix of the names of a row's objects.
    pub(crate) fn prefix(&self, row: &str) -> String {
        format!("orlop-bench-{}-{row}-", self.run)
    }

    /// The servers of a row: the server from the command line or a new one, and the second server.
    pub(crate) async fn servers(&self, role: Role) -> Result<Vec<Server>, BenchError> {
        let first = match &self.given {
            Some(endpoint) => Server { endpoint: endpoint.clone(), child: None, data: None },
            None => self.own(role, &[]).await?,
        };
        let second = self.against.iter();
        let second = second.map(|endpoint| Server { endpoint: endpoint.clone(), child: None, data: None });
        Ok(std::iter::once(first).chain(second).collect())
    }

    /// Starts a server on a new directory.
    pub(crate) async fn own(&self, role: Role, flags: &[&str]) -> Result<Server, BenchError> {
        let data = self.fresh_data();
        let child = self.child(role, &data, flags).await?;
        Ok(Server { endpoint: child.endpoint.clone(), child: Some(child), data: Some(data) })
    }

    /// Starts a process on a directory that may already exist.
    pub(crate) async fn child(&self, role: Role, data: &Path, flags: &[&str]) -> Result<Child, BenchError> {
        Child::start(&self.program, role, data, flags).await
    }

    /// Stores data of a stopped server for another row.
    pub(crate) fn keep(&self, kept: SharedData) {
        *self.kept.lock() = Some(kept);
    }

    /// Takes the data that another row stored.
    pub(crate) fn kept(&self) -> Option<SharedData> {
        self.kept.lock().take()
    }
}

/// Processor time of bench, and of the server if bench started it.
pub(crate) struct BothEnds {
    own: Option<Cpu>,
    server: Option<Cpu>,
}

impl BothEnds {
    /// Adds the processor time spent since `before` to a load.
    pub(crate) fn charge(&self, before: &BothEnds, load: &mut Load) {
        let spent = |after: &Option<Cpu>, before: &Option<Cpu>| Some(after.as_ref()?.since(before.as_ref()?));
        load.own_cpu = spent(&self.own, &before.own).unwrap_or_default();
        load.server_cpu = spent(&self.server, &before.server);
    }
}

impl Server {
    /// A process that bench started; the caller removes its data.
    pub(crate) fn of(child: Child) -> Self {
        Server { endpoint: child.endpoint.clone(), child: Some(child), data: None }
    }

    /// The data directory, if bench started the server.
    pub(crate) fn data(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// Stops the server and removes its data, if bench started it.
    pub(crate) fn done(mut self) {
        if let Some(child) = self.child.take() {
            child.kill();
        }
        if let Some(data) = &self.data {
            // Removing the parent directory removes any remaining files.
            let _ = std::fs::remove_dir_all(data);
        }
    }

    /// Sends requests and measures the processor time of bench and the server.
    pub(crate) async fn load(&self, work: &Work, from: usize, n: usize) -> Load {
        let before = self.cpu();
        let mut load = drive(&self.endpoint, work, from, n).await;
        self.cpu().charge(&before, &mut load);
        load
    }

    /// The current processor time of bench and the server.
    pub(crate) fn cpu(&self) -> BothEnds {
        let pid = self.child.as_ref().map(Child::pid);
        BothEnds { own: Cpu::of(std::process::id()), server: pid.and_then(Cpu::of) }
    }

    /// Creates objects with the numbers `from..from + n`.
    pub(crate) async fn fill(
        &self,
        path: &str,
        template: &Template,
        prefix: &str,
        from: usize,
        n: usize,
    ) -> Result<Load, BenchError> {
        let load = self.load(&creates(path, template, prefix, IN_FLIGHT), from, n).await;
        match &load.first_failure {
            None => Ok(load),
            Some(first) => Err(self.failed("creating objects", first)),
        }
    }

    /// Deletes the objects `0..n` from a server that bench did not start. The data of the other servers is removed
    /// as a whole.
    pub(crate) async fn clean(&self, path: &str, prefix: &str, n: usize) -> Result<(), BenchError> {
        if self.child.is_some() {
            return Ok(());
        }
        let (at, named) = (path.to_owned(), prefix.to_owned());
        // The server may run no controller that removes the finalizers.
        let strip: Fill = Arc::new(move |number, draft| {
            draft.method = "PATCH";
            draft.path = format!("{at}/{}", objects::name(&named, number));
            draft.content_type = "application/merge-patch+json";
            draft.body.clear();
            draft.body.extend_from_slice(br#"{"metadata":{"finalizers":null}}"#);
        });
        let (at, named) = (path.to_owned(), prefix.to_owned());
        let delete: Fill = Arc::new(move |number, draft| {
            *draft = Draft::of("DELETE", format!("{at}/{}", objects::name(&named, number)));
        });
        for (fill, wanted) in [(strip, &[200, 404][..]), (delete, &[200, 202, 404])] {
            let work = Work { in_flight: IN_FLIGHT, wanted, fill };
            if let Some(first) = drive(&self.endpoint, &work, 0, n).await.first_failure {
                return Err(self.failed("deleting the created objects", &first));
            }
        }
        Ok(())
    }

    /// Sends one request outside of any load and returns the body of the response.
    pub(crate) async fn once(&self, draft: &Draft, wanted: &[u16]) -> Result<Vec<u8>, BenchError> {
        let mut connection = Connection::new(self.endpoint.clone());
        let answer = connection.call(draft).await?;
        if wanted.contains(&answer.status) {
            return Ok(answer.body.to_vec());
        }
        Err(self.failed(&format!("{} {}", draft.method, draft.path), &answer.words()))
    }

    /// The current revision of a collection. A watch that starts there misses no event.
    pub(crate) async fn revision(&self, path: &str) -> Result<u64, BenchError> {
        let body = self.once(&Draft::of("GET", format!("{path}?limit=1")), &[200]).await?;
        let list: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        text.parse().map_err(|_| self.failed(&format!("GET {path}"), "the list has no resourceVersion"))
    }

    fn failed(&self, what: &str, problem: &str) -> BenchError {
        BenchError::Request {
            url: self.endpoint.url.clone(),
            what: what.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

/// Requests that create objects.
pub(crate) fn creates(path: &str, template: &Template, prefix: &str, in_flight: usize) -> Work {
    let (path, template, prefix) = (path.to_owned(), template.clone(), prefix.to_owned());
    let fill: Fill = Arc::new(move |number, draft| {
        draft.method = "POST";
        draft.path.clear();
        draft.path.push_str(&path);
        draft.content_type = "application/json";
        template.fill(&mut draft.body, &objects::name(&prefix, number));
    });
    Work { in_flight, wanted: &[201], fill }
}
