//! `orlop volumes`: compares the volumes of CSI drivers with the API, and adopts or deletes unknown ones.
//!
//! `inventory` reads the API, `compare` finds the differences (pure), `report` formats them, `prompt` asks the
//! user, `adopt` builds the PersistentVolume of an adopted volume. The order is API, driver, API, and the same
//! again right before each change.

mod adopt;
mod compare;
mod inventory;
mod prompt;
mod report;

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use kube::Client;
use orlop_client::client::{self, ConnectError, message_of};
use orlop_csi::capabilities::Rpc;
use orlop_csi::driver::{Driver, Line};
use orlop_csi::drivers::Endpoint;
use orlop_csi::error::CallError;
use orlop_csi::socket::{self, SocketError};
use orlop_csi::v1::DeleteVolumeRequest;
use orlop_csi::v1::list_volumes_response::Entry;
use serde_json::Value;

use self::adopt::Use;
use self::compare::{Listed, Lists, Row, RowKind, What, compare, is_amiss};
use self::prompt::Deed;
use crate::args::{AuditArgs, Output};
use crate::local_admin;

/// Exit code: differences found.
const EXIT_PROBLEMS: u8 = 1;
/// Exit code: the comparison or a requested change failed.
const EXIT_ERROR: u8 = 2;

/// `orlop volumes audit`.
pub(crate) struct Audit {
    pub(crate) args: Box<AuditArgs>,
    pub(crate) server: client::Endpoint,
}

/// Why the audit failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditError {
    #[error("cannot start threads: {0}")]
    Runtime(std::io::Error),
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] std::io::Error),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Look(#[from] inventory::LookError),
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("driver {driver}: {cause}")]
    Driver { driver: String, cause: CallError },
    #[error("the driver at {endpoint} is {name:?}, not {wanted:?}: correct --csi-endpoint")]
    OtherName { endpoint: String, name: String, wanted: String },
    #[error("driver {0} cannot list its volumes, so they cannot be compared")]
    NoList(String),
    #[error("{handle}: {why}; it was not changed")]
    NotUnknown { handle: String, why: String },
    #[error("cannot create the PersistentVolume {name}: {}", message_of(cause))]
    Create { name: String, cause: kube::Error },
    #[error("--adopt and --delete require confirmation on a terminal; without a terminal, use --yes")]
    NobodyToAsk,
}

/// Why a driver and the API cannot be compared.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CompareError(#[from] AuditError);

/// Runs the audit. The table is written to stdout, the changes to stderr.
pub(crate) fn run(audit: &Audit) -> ExitCode {
    // The built-in filter is always valid.
    let _ = crate::logging::start_for_tool();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime.map_err(AuditError::Runtime).and_then(|runtime| runtime.block_on(audit.run()));
    match done {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::from(EXIT_PROBLEMS),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(EXIT_ERROR)
        }
    }
}

impl Audit {
    /// Returns whether differences remain.
    async fn run(&self) -> Result<bool, AuditError> {
        let client = local_admin::connect(self.server.clone()).await?;
        let mut drivers = Vec::new();
        for endpoint in &self.args.csi_endpoint {
            drivers.push(identify(endpoint, self.args.csi_timeout).await?);
        }
        let found = look(&client, &drivers).await?;
        // A reader that closed the pipe needs no more output.
        let _ = std::io::stdout().write_all(report::render(&found.rows, self.args.output).as_bytes());
        let deeds = self.deeds(&found.rows)?;
        if deeds.is_empty() {
            return Ok(is_amiss(&found.rows));
        }
        for (row, deed) in deeds {
            self.act(&client, &drivers, row, deed).await?;
        }
        Ok(is_amiss(&look(&client, &drivers).await?.rows))
    }

    /// The requested changes: from the flags, else from the user at the terminal.
    fn deeds<'a>(&self, rows: &'a [Row]) -> Result<Vec<(&'a Row, Deed)>, AuditError> {
        let adopt = self.args.adopt.iter().map(|handle| (handle, Deed::Adopt));
        let delete = self.args.delete.iter().map(|handle| (handle, Deed::Delete));
        let wishes: Vec<(&String, Deed)> = adopt.chain(delete).collect();
        let (mut answers, mut questions) = (std::io::stdin().lock(), std::io::stderr());
        let has_person = answers.is_terminal() && questions.is_terminal();
        if wishes.is_empty() {
            let unknown: Vec<&Row> = rows.iter().filter(|row| is_offered(row)).collect();
            if !has_person || self.args.output != Output::Table {
                return Ok(Vec::new());
            }
            return Ok(prompt::choose(&unknown, &mut answers, &mut questions)?);
        }
        // All changes are validated before the first one is carried out.
        let wishes: Vec<(&Row, Deed)> = wishes
            .into_iter()
            .map(|(handle, deed)| Ok((offered(rows, handle)?, deed)))
            .collect::<Result<_, AuditError>>()?;
        if self.args.yes {
            return Ok(wishes);
        }
        if !has_person {
            return Err(AuditError::NobodyToAsk);
        }
        let mut meant = Vec::new();
        for (row, deed) in wishes {
            if prompt::confirm(row, deed, &mut answers, &mut questions)? {
                meant.push((row, deed));
            }
        }
        Ok(meant)
    }

    /// Compares again and carries out one change if it still applies.
    async fn act(
        &self,
        client: &Client,
        drivers: &[Driver],
        row: &Row,
        deed: Deed,
    ) -> Result<(), AuditError> {
        let its: Vec<Driver> = drivers.iter().filter(|driver| driver.name() == row.driver).cloned().collect();
        let now = look(client, &its).await?;
        offered(&now.rows, &row.handle)?;
        let key = (row.driver.clone(), row.handle.clone());
        let (Some(entry), Some(driver)) = (now.entries.get(&key), its.first()) else { return Ok(()) };
        match deed {
            Deed::Adopt => {
                let how = Use { access_modes: self.args.access_modes.clone(), mode: self.args.volume_mode };
                create(client, &adopt::persistent_volume(driver.name(), entry, &how)).await
            }
            Deed::Delete => delete(driver, entry, &row.handle).await,
        }
    }
}

/// Compares one driver with the API without changing anything. Returns the table and whether there are
/// differences.
pub async fn compared(
    client: &Client,
    at: &Endpoint,
    timeout: Duration,
) -> Result<(String, bool), CompareError> {
    let driver = identify(at, timeout).await?;
    let rows = look(client, &[driver]).await?.rows;
    Ok((report::render(&rows, Output::Table), is_amiss(&rows)))
}

/// Connects to the driver at an endpoint and verifies its name.
async fn identify(at: &Endpoint, timeout: Duration) -> Result<Driver, AuditError> {
    let line = Line::new(socket::connect(&at.endpoint)?, timeout);
    let driver = line.identify().await.map_err(|cause| failed(&at.name, cause))?;
    if driver.name() != at.name {
        return Err(AuditError::OtherName {
            endpoint: at.endpoint.clone(),
            name: driver.name().to_owned(),
            wanted: at.name.clone(),
        });
    }
    if !driver.can().can(Rpc::ListVolumes) {
        return Err(AuditError::NoList(at.name.clone()));
    }
    Ok(driver)
}

/// Whether a row can be adopted or deleted.
fn is_offered(row: &Row) -> bool {
    row.thing == RowKind::Volume && row.what == What::Unknown
}

/// The unknown volume with this handle.
fn offered<'a>(rows: &'a [Row], handle: &str) -> Result<&'a Row, AuditError> {
    let no = |why: String| AuditError::NotUnknown { handle: report::plain(handle), why };
    let named: Vec<&Row> =
        rows.iter().filter(|row| row.thing == RowKind::Volume && row.handle == handle).collect();
    match named.as_slice() {
        [] => Err(no("no driver has such a volume".to_owned())),
        [row] if is_offered(row) => Ok(row),
        [row] if row.object.is_empty() => Err(no(format!("it is {}", report::words(row.what)))),
        [row] => Err(no(format!("it is {} ({})", report::words(row.what), row.object))),
        _ => Err(no("more than one driver has such a volume: specify one with --csi-endpoint".to_owned())),
    }
}

async fn create(client: &Client, object: &Value) -> Result<(), AuditError> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let failed = |cause| AuditError::Create { name: name.clone(), cause };
    let request = http::Request::post("/api/v1/persistentvolumes")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(object.to_string().into_bytes());
    let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
    client.request::<Value>(request).await.map_err(failed)?;
    eprintln!("persistentvolume/{name} created");
    Ok(())
}

async fn delete(driver: &Driver, entry: &Entry, handle: &str) -> Result<(), AuditError> {
    let nodes = entry.status.as_ref().map(|status| status.published_node_ids.join(", ")).unwrap_or_default();
    if !nodes.is_empty() {
        let why = format!("it is published to {nodes}, so it may be in use");
        return Err(AuditError::NotUnknown { handle: report::plain(handle), why });
    }
    let request = DeleteVolumeRequest { volume_id: handle.to_owned(), secrets: Default::default() };
    driver.delete_volume(request).await.map_err(|cause| failed(driver.name(), cause))?;
    eprintln!("{} of driver {} deleted", report::plain(handle), driver.name());
    Ok(())
}

fn failed(driver: &str, cause: CallError) -> AuditError {
    AuditError::Driver { driver: driver.to_owned(), cause }
}

/// The result of one comparison.
struct Comparison {
    rows: Vec<Row>,
    /// Volumes as listed by their drivers, by driver and handle.
    entries: BTreeMap<(String, String), Entry>,
}

/// Reads the API, the drivers, and the API again.
async fn look(client: &Client, drivers: &[Driver]) -> Result<Comparison, AuditError> {
    let names: Vec<&str> = drivers.iter().map(Driver::name).collect();
    let before = inventory::look(client, &names).await?;
    let mut entries = BTreeMap::new();
    let mut lists = Vec::new();
    for driver in drivers {
        let own = |cause| failed(driver.name(), cause);
        let volumes = driver.all_volumes().await.map_err(own)?;
        let snapshots = match driver.can().can(Rpc::ListSnapshots) {
            true => Some(driver.all_snapshots().await.map_err(own)?),
            false => None,
        };
        let snapshots = snapshots.map(|all| {
            let all = all.into_iter().filter_map(|entry| entry.snapshot);
            all.map(|it| Listed { handle: it.snapshot_id, bytes: it.size_bytes }).collect()
        });
        let shown = |entry: &Entry| {
            let volume = entry.volume.as_ref()?;
            Some(Listed { handle: volume.volume_id.clone(), bytes: volume.capacity_bytes })
        };
        lists.push(Lists { volumes: volumes.iter().filter_map(shown).collect(), snapshots });
        for entry in volumes {
            let handle = entry.volume.as_ref().map(|volume| volume.volume_id.clone()).unwrap_or_default();
            entries.insert((driver.name().to_owned(), handle), entry);
        }
    }
    let after = inventory::look(client, &names).await?;
    let mut rows = Vec::new();
    for (name, list) in names.iter().zip(&lists) {
        if let (Some(before), Some(after)) = (before.get(*name), after.get(*name)) {
            rows.extend(compare(name, before, list, after));
        }
    }
    Ok(Comparison { rows, entries })
}
