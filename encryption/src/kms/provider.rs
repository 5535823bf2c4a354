//! A provider: encrypts with the seed of new values, and decrypts with the seeds of stored values.
//!
//! The store transforms values in threads without a runtime, so the calls to the plugin run in a thread of the provider. Encryption and
//! almost all decryptions need no call. A decryption whose seed is not in the cache calls the plugin, and blocks no longer than
//! the plugin's timeout.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use orlop_store::TransformError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::client::{CallError, Client};
use super::data_key::DataKey;
use super::endpoint::{self, EndpointError};
use super::health::Health;
use super::metrics::Metrics;
use super::object::{SeedId, decode, seed_id};
use super::proto::{EncryptedDekSourceType, EncryptedObject};
use super::shared::Shared;
use super::write_seed::{Current, Moment};
use crate::config::KmsConfiguration;

/// The time that a caller waits beyond the timeout of a call, for the thread of the provider.
const SCHEDULING: Duration = Duration::from_secs(1);

/// Receives the result of a health check.
pub(crate) type HealthReply = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Work for the thread of a provider.
enum Command {
    Decrypt { object: EncryptedObject, reply: Box<dyn FnOnce(Result<Vec<u8>, CallError>) + Send> },
    Check { is_forced: bool, reply: HealthReply },
}

/// A provider.
pub(crate) struct KmsProvider {
    configuration: KmsConfiguration,
    shared: Arc<Shared>,
    /// The thread ends when the last sender is dropped.
    commands: UnboundedSender<Command>,
}

impl KmsProvider {
    /// Starts the thread of a provider. It calls the plugin with the first check.
    pub(crate) fn start(configuration: &KmsConfiguration) -> Result<Self, String> {
        let KmsConfiguration { name, endpoint, timeout, .. } = configuration;
        let failed = |why: &str| format!("could not configure KMSv2-Plugin's probe {name:?}, error: {why}");
        let socket = endpoint::parse(endpoint).map_err(|error| match error {
            EndpointError::Malformed(why) => failed(&why),
            EndpointError::Scheme(scheme) => {
                failed(&format!("unsupported scheme {scheme:?} for remote KMS provider"))
            }
        })?;
        let no_thread = |error: std::io::Error| failed(&format!("cannot start a thread: {error}"));
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let shared = Arc::new(Shared::default());
        let (commands, receiver) = unbounded_channel();
        let (name, timeout, health_of) = (name.clone(), timeout.duration, shared.clone());
        let run = move || {
            runtime.block_on(async {
                let client = Client::new(socket, timeout, health_of.metrics.clone());
                serve(Arc::new(Health::new(name, health_of, client)), receiver).await;
            });
        };
        std::thread::Builder::new().name("kms".to_owned()).spawn(run).map_err(no_thread)?;
        Ok(KmsProvider { configuration: configuration.clone(), shared, commands })
    }

    /// The configuration of the provider.
    pub(crate) fn configuration(&self) -> &KmsConfiguration {
        &self.configuration
    }

    /// The name of the provider.
    pub(crate) fn name(&self) -> &str {
        &self.configuration.name
    }

    /// The metrics of the provider, and the number of its cached seeds.
    pub(crate) fn metrics(&self) -> (&Metrics, usize) {
        (&self.shared.metrics, self.shared.cache.len())
    }

    /// The longest time that a health check takes: it makes two calls, after one that may be in progress.
    pub(crate) fn longest_check(&self) -> Duration {
        self.configuration.timeout.duration.saturating_mul(4) + SCHEDULING
    }

    /// Checks the health of the plugin.
    pub(crate) fn check(&self, is_forced: bool, reply: HealthReply) {
        if let Err(unsent) = self.commands.send(Command::Check { is_forced, reply })
            && let Command::Check { reply, .. } = unsent.0
        {
            reply(Err("the thread of the KMS provider has ended".to_owned()));
        }
    }

    /// The stored form of a value, without its prefix.
    pub(crate) fn encrypt(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, TransformError> {
        let current = self.current()?;
        current.may_encrypt(Moment::now()).map_err(TransformError::temporary)?;
        let stored = current.seed.encrypt(key, value)?;
        self.shared.metrics.note_write(current.seed.key_id());
        Ok(stored)
    }

    /// The value of a stored form, and whether it should be written again.
    pub(crate) fn decrypt(&self, key: &str, stored: &[u8]) -> Result<(Vec<u8>, bool), TransformError> {
        let object = decode(stored)?;
        let current = self.current()?;
        let value = self.data_key(&object, &current)?.decrypt(key, &object.encrypted_data)?;
        self.shared.metrics.note_read(&object.key_id);
        Ok((value, current.seed.is_stale(&object)))
    }

    /// Whether a stored form should be written again. Never calls the plugin.
    pub(crate) fn is_stale(&self, stored: &[u8]) -> Result<bool, String> {
        let object = decode(stored)?;
        Ok(self.shared.current()?.seed.is_stale(&object))
    }

    /// The seed of new values. There is one after the plugin was healthy once.
    fn current(&self) -> Result<Arc<Current>, TransformError> {
        self.shared.current().map_err(TransformError::temporary)
    }

    /// The seed or key of an object.
    fn data_key(&self, object: &EncryptedObject, current: &Current) -> Result<Arc<DataKey>, TransformError> {
        let id = seed_id(object);
        if id == current.seed.id {
            return Ok(current.seed.data_key.clone());
        }
        if let Some(key) = self.shared.cache.get(&id) {
            return Ok(key);
        }
        if let Some(error) = self.shared.failures.find(&id, Instant::now()) {
            return Err(error);
        }
        let key = Arc::new(self.decrypt_source(id, object)?);
        self.shared.cache.insert(id, key.clone());
        Ok(key)
    }

    /// Calls the plugin to decrypt the source of an object.
    fn decrypt_source(&self, id: SeedId, object: &EncryptedObject) -> Result<DataKey, TransformError> {
        let (sender, receiver) = sync_channel(1);
        // An error means that the caller has stopped waiting.
        let reply = Box::new(move |result| drop(sender.send(result)));
        let object_copy = EncryptedObject { encrypted_data: Vec::new(), ..object.clone() };
        let sent = self.commands.send(Command::Decrypt { object: object_copy, reply });
        let ended = "the thread of the KMS provider has ended";
        sent.map_err(|_| TransformError::temporary(ended))?;
        let longest = self.configuration.timeout.duration.saturating_add(SCHEDULING);
        let result = receiver.recv_timeout(longest).unwrap_or_else(|error| match error {
            RecvTimeoutError::Timeout => Err(CallError::timeout("")),
            RecvTimeoutError::Disconnected => Err(CallError::timeout(": the call was aborted")),
        });
        let refused = |error: TransformError| {
            self.shared.failures.note(id, error.clone(), Instant::now());
            error
        };
        let source = result.map_err(|error| {
            let text = format!("failed to decrypt DEK, error: {error}");
            let failure = if error.is_temporary() { TransformError::temporary(text) } else { text.into() };
            if error.is_outage() {
                self.shared.failures.note_outage(failure.clone(), Instant::now());
                return failure;
            }
            refused(failure)
        })?;
        // `decode` accepts no other types.
        let kind = EncryptedDekSourceType::try_from(object.encrypted_dek_source_type).unwrap_or_default();
        DataKey::new(kind, &source).map_err(|error| refused(error.into()))
    }
}

/// Polls the plugin and executes commands, until the provider is dropped.
async fn serve(health: Arc<Health>, mut commands: UnboundedReceiver<Command>) {
    let polled = health.clone();
    tokio::spawn(async move { polled.poll().await });
    while let Some(command) = commands.recv().await {
        let health = health.clone();
        tokio::spawn(async move {
            match command {
                Command::Decrypt { object, reply } => reply(health.client.decrypt(&object).await),
                Command::Check { is_forced, reply } => reply(health.check(is_forced).await),
            }
        });
    }
}
