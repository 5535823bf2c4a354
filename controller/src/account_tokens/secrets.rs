//! `serviceaccount-token-controller`: writes the token, the namespace and the CA certificates into each Secret, deletes the
//! Secrets of deleted accounts, and removes deleted Secrets from the list of their account.
//!
//! The cache of accounts is filled when the first Secret is synced. Until then, it costs nothing.

use std::fmt;
use std::sync::{Arc, OnceLock};

use futures::future::{BoxFuture, join};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::Client;
use kube::api::{DeleteParams, PostParams, Preconditions};
use orlop_client::api::Api;
use orlop_client::client::is_not_found;
use orlop_client::informer::{Change, Informer, Registration, key_of, split_key};
use orlop_client::informers::Informers;
use orlop_client::meta::annotation;
use orlop_client::names::controller;
use orlop_client::queue::WorkQueue;
use orlop_client::worker;
use tokio_util::task::AbortOnDropHandle;

use super::signer::{TokenSigner, TokenSubject};
use super::{ANN_ACCOUNT, ANN_UID, account_name, is_account_of, token_secrets};
use crate::context::{Context, ControllerError};

/// Upstream: `SAController.ConcurrentSATokenSyncs`.
const WORKERS: usize = 5;
/// Name of the index of Secrets by their accounts.
const INDEX_ACCOUNT: &str = "account";

const TOKEN: &str = "token";
const NAMESPACE: &str = "namespace";
const ROOT_CA: &str = "ca.crt";

/// A sync failed; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum AccountTokenError {
    /// The server rejected a request.
    #[error("cannot {what} {key}: {cause}")]
    Api {
        /// The action.
        what: &'static str,
        /// The object.
        key: String,
        /// Why.
        cause: kube::Error,
    },
    /// The token could not be signed.
    #[error("cannot sign a token for Secret {0}: the system returned no random numbers")]
    Sign(String),
}

/// A Secret that was deleted, and the account that may list it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DeletedSecret {
    namespace: String,
    name: String,
    account: String,
    uid: String,
}

impl fmt::Display for DeletedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl DeletedSecret {
    fn of(secret: &Secret) -> Option<Self> {
        Some(Self {
            namespace: secret.metadata.namespace.clone()?,
            name: secret.metadata.name.clone()?,
            account: account_name(secret)?.to_owned(),
            uid: annotation(secret, ANN_UID).unwrap_or_default().to_owned(),
        })
    }
}

/// The parts that a Secret lacks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) token: bool,
    pub(super) namespace: bool,
    pub(super) root_ca: bool,
}

/// The parts that a Secret lacks; `None` if it is complete.
pub(super) fn missing(secret: &Secret, root_ca: Option<&str>) -> Option<Missing> {
    let value =
        |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|value| value.0.as_slice());
    let is_empty = |key: &str| value(key).is_none_or(<[u8]>::is_empty);
    let root_ca = root_ca.filter(|certificates| !certificates.is_empty());
    let missing = Missing {
        token: is_empty(TOKEN),
        namespace: is_empty(NAMESPACE),
        root_ca: root_ca.is_some_and(|certificates| value(ROOT_CA) != Some(certificates.as_bytes())),
    };
    (missing.token || missing.namespace || missing.root_ca).then_some(missing)
}

/// Runs the controller.
pub fn run(context: Context) -> BoxFuture<'static, Result<(), ControllerError>> {
    Box::pin(async move {
        let Some(signer) = context.options.token_signer.clone() else {
            // As upstream without --service-account-private-key-file.
            tracing::info!("no tokens are written into Secrets: there is no signing key");
            context.shutdown.cancelled().await;
            return Ok(());
        };
        let this = Tokens {
            client: context.client.clone(),
            signer,
            root_ca: context.options.root_ca.clone(),
            secrets: Informer::new(),
            accounts: OnceLock::new(),
            informers: context.informers.clone(),
            queue: WorkQueue::new(context.options.rate_limit),
            deleted: WorkQueue::new(context.options.rate_limit),
        };
        this.secrets.add_index(INDEX_ACCOUNT, |secret| {
            let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
            account_name(secret).map(|account| format!("{namespace}/{account}")).into_iter().collect()
        });
        let _secrets = this.secrets.add_handler({
            let (queue, deleted) = (this.queue.clone(), this.deleted.clone());
            move |change: &Change<Secret>| {
                if change.gone_uid().is_some() {
                    change
                        .old()
                        .and_then(|old| DeletedSecret::of(old))
                        .into_iter()
                        .for_each(|key| deleted.add(key));
                }
                if let Some(secret) = change.new.as_deref() {
                    queue.add(key_of(secret));
                }
            }
        });
        let _following = AbortOnDropHandle::new(tokio::spawn({
            let (secrets, shutdown) = (this.secrets.clone(), context.shutdown.clone());
            let api = Api::all(context.informers.client());
            async move { secrets.run_selected(api, token_secrets(), shutdown).await }
        }));
        if !context.ready(this.secrets.synced()).await {
            return Ok(());
        }
        // The reporter of failing objects has no right to read Secrets.
        let syncs = context.other_syncs(controller::SERVICE_ACCOUNT_TOKEN);
        let deletions = context.other_syncs(controller::SERVICE_ACCOUNT_TOKEN);
        join(
            worker::run_until(&context.shutdown, &this.queue, WORKERS, syncs, |key| this.sync(key)),
            worker::run_until(&context.shutdown, &this.deleted, WORKERS, deletions, |key| this.unlist(key)),
        )
        .await;
        Ok(())
    })
}

struct Tokens {
    client: Client,
    signer: TokenSigner,
    root_ca: Option<String>,
    secrets: Informer<Secret>,
    accounts: OnceLock<(Informer<ServiceAccount>, Registration)>,
    informers: Informers,
    queue: WorkQueue<String>,
    deleted: WorkQueue<DeletedSecret>,
}

impl Tokens {
    /// The accounts. The first call starts their cache. A deleted account queues its Secrets.
    async fn accounts(&self) -> &Informer<ServiceAccount> {
        let (accounts, _) = self.accounts.get_or_init(|| {
            let accounts: Informer<ServiceAccount> = self.informers.of();
            let registration = accounts.add_handler({
                let (secrets, queue) = (self.secrets.clone(), self.queue.clone());
                move |change: &Change<ServiceAccount>| {
                    if change.gone_uid().is_some() {
                        let left = secrets.indexed_keys(INDEX_ACCOUNT, change.key(), "");
                        left.into_iter().for_each(|key| queue.add(key.to_string()));
                    }
                }
            });
            (accounts, registration)
        });
        accounts.synced().await;
        accounts
    }

    async fn sync(&self, key: String) -> Result<(), AccountTokenError> {
        let Some(secret) = self.secrets.get(&key) else { return Ok(()) };
        let Some(name) = account_name(&secret) else { return Ok(()) };
        let account = self.account(&secret, name).await;
        match account.map_err(|cause| failed("get the account of Secret", &key, cause))? {
            None => self.delete(&key, &secret).await,
            Some(account) => self.fill(&key, &secret, &account).await,
        }
    }

    /// The account of a Secret. The server is asked before the Secret is deleted: the cache may be behind.
    async fn account(&self, secret: &Secret, name: &str) -> kube::Result<Option<Arc<ServiceAccount>>> {
        let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
        let cached = self.accounts().await.get(&format!("{namespace}/{name}"));
        if let Some(account) = cached.filter(|account| is_account_of(secret, account)) {
            return Ok(Some(account));
        }
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let account = api.get_opt(name).await?.filter(|account| is_account_of(secret, account));
        Ok(account.map(Arc::new))
    }

    /// One write, conditional on the cached version. If it fails, the token is discarded.
    async fn fill(
        &self,
        key: &str,
        secret: &Secret,
        account: &ServiceAccount,
    ) -> Result<(), AccountTokenError> {
        let Some(missing) = missing(secret, self.root_ca.as_deref()) else { return Ok(()) };
        let (namespace, name) = split_key(key);
        let account_name = account.metadata.name.clone().unwrap_or_default();
        let uid = account.metadata.uid.clone().unwrap_or_default();
        let mut filled = secret.clone();
        let data = filled.data.get_or_insert_default();
        if let Some(certificates) = self.root_ca.as_deref().filter(|_| missing.root_ca) {
            data.insert(ROOT_CA.to_owned(), ByteString(certificates.as_bytes().to_vec()));
        }
        if missing.namespace {
            data.insert(NAMESPACE.to_owned(), ByteString(namespace.as_bytes().to_vec()));
        }
        if missing.token {
            let subject = TokenSubject {
                namespace: namespace.to_owned(),
                secret: name.to_owned(),
                account: account_name.clone(),
                uid: uid.clone(),
            };
            let token = self.signer.sign(&subject).ok_or_else(|| AccountTokenError::Sign(key.to_owned()))?;
            data.insert(TOKEN.to_owned(), ByteString(token.into_bytes()));
        }
        let annotations = filled.metadata.annotations.get_or_insert_default();
        annotations.insert(ANN_ACCOUNT.to_owned(), account_name);
        annotations.insert(ANN_UID.to_owned(), uid);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match api.replace(name, &PostParams::default(), &filled).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(failed("write the token of Secret", key, cause)),
        }
    }

    async fn delete(&self, key: &str, secret: &Secret) -> Result<(), AccountTokenError> {
        let (namespace, name) = split_key(key);
        let exactly = Preconditions { uid: secret.metadata.uid.clone(), resource_version: None };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match api.delete(name, &DeleteParams::default().preconditions(exactly)).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(failed("delete Secret", key, cause)),
        }
    }

    /// Removes a deleted Secret from the list of its account. One conditional write; if it fails, the next sync reads the
    /// account again.
    async fn unlist(&self, secret: DeletedSecret) -> Result<(), AccountTokenError> {
        let key = format!("{}/{}", secret.namespace, secret.account);
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &secret.namespace);
        let account = api.get_opt(&secret.account).await;
        let account = account.map_err(|cause| failed("get ServiceAccount", &key, cause))?;
        let Some(changed) = account.and_then(|account| without(account, &secret.name, &secret.uid)) else {
            return Ok(());
        };
        match api.replace(&secret.account, &PostParams::default(), &changed).await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(cause) => Err(failed("remove a Secret from ServiceAccount", &key, cause)),
        }
    }
}

/// The account without a Secret in its list; `None` if it does not list the Secret, or has another UID.
pub(super) fn without(mut account: ServiceAccount, secret: &str, uid: &str) -> Option<ServiceAccount> {
    let is_same = uid.is_empty() || account.metadata.uid.as_deref() == Some(uid);
    let listed = account.secrets.as_mut().filter(|_| is_same)?;
    let before = listed.len();
    listed.retain(|one| one.name.as_deref() != Some(secret));
    (listed.len() < before).then_some(account)
}

fn failed(what: &'static str, key: &str, cause: kube::Error) -> AccountTokenError {
    AccountTokenError::Api { what, key: key.to_owned(), cause }
}
