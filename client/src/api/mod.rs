//! Sends requests for objects of one kind. The methods are those of [`kube::Api`], with these differences: objects
//! are returned without their `managedFields`, and only the conversion of objects is compiled for each kind (see
//! [`Object`]). A request whose name or namespace is not one segment of a path fails before it is sent, as in client-go.

mod object;
mod path;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use http::Request as HttpRequest;
use kube::api::{DeleteParams, EvictParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::request::Error as BuildError;
use kube::core::{
    DynamicObject, DynamicResourceScope, ListMeta, NamespaceResourceScope, ObjectList, PartialObjectMeta,
    Request, TypeMeta,
};
use kube::{Client, Error, Resource, Result};
use orlop_apimachinery::times::{self, Mend};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub use object::{Json, Object};
pub(crate) use path::encoded;
pub use path::is_possible_name;

/// The objects of one kind, in one namespace or in all.
pub struct Api<K> {
    client: Client,
    request: Request,
    namespace: Option<String>,
    /// Whether to request only the metadata of objects.
    metadata_only: bool,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            request: self.request.clone(),
            namespace: self.namespace.clone(),
            metadata_only: self.metadata_only,
            kind: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Api<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("url", &self.request.url_path).finish_non_exhaustive()
    }
}

impl<K: Resource> Api<K> {
    fn new(client: Client, namespace: Option<&str>, kind: &K::DynamicType) -> Self {
        Self {
            client,
            request: Request::new(K::url_path(kind, namespace.map(encoded).as_deref())),
            namespace: namespace.map(str::to_owned),
            metadata_only: K::metadata_api(),
            kind: PhantomData,
        }
    }

    /// The objects of all namespaces, or of a cluster-scoped kind.
    pub fn all(client: Client) -> Self
    where
        K::DynamicType: Default,
    {
        Self::all_with(client, &K::DynamicType::default())
    }

    /// Like [`all`](Self::all), for a kind that is known only at run time.
    pub fn all_with(client: Client, kind: &K::DynamicType) -> Self {
        Self::new(client, None, kind)
    }

    /// The objects of one namespace.
    pub fn namespaced(client: Client, namespace: &str) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Self::new(client, Some(namespace), &K::DynamicType::default())
    }

    /// Like [`namespaced`](Self::namespaced), for a kind that is known only at run time.
    pub fn namespaced_with(client: Client, namespace: &str, kind: &K::DynamicType) -> Self
    where
        K: Resource<Scope = DynamicResourceScope>,
    {
        Self::new(client, Some(namespace), kind)
    }
}

impl<K> Api<K> {
    /// The path of the collection.
    pub fn resource_url(&self) -> &str {
        &self.request.url_path
    }

    /// The namespace of the objects; `None` for all namespaces.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    pub(crate) fn is_metadata_only(&self) -> bool {
        self.metadata_only
    }

    /// The request builder, if the namespace is valid.
    fn checked(&self) -> Result<&Request> {
        self.namespace.as_deref().map_or(Ok(()), |namespace| path::namespace(namespace).map(drop))?;
        Ok(&self.request)
    }
}

/// Methods with the same names as those of [`kube::Api`]. They return the errors of kube: [`Error::Api`] with the
/// server's Status, or [`Error::SerdeError`] if the response is not an object of the kind.
#[allow(missing_docs, clippy::missing_errors_doc)]
impl<K: Object> Api<K> {
    pub async fn get(&self, name: &str) -> Result<K> {
        let parameters = GetParams::default();
        let request = match self.metadata_only {
            true => self.checked()?.get_metadata(&path::name(name)?, &parameters),
            false => self.checked()?.get(&path::name(name)?, &parameters),
        };
        decoded(&send(&self.client, request).await?)
    }

    pub async fn get_opt(&self, name: &str) -> Result<Option<K>> {
        match self.get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn get_metadata_opt(&self, name: &str) -> Result<Option<PartialObjectMeta<DynamicObject>>> {
        let request = self.checked()?.get_metadata(&path::name(name)?, &GetParams::default());
        match send(&self.client, request).await {
            Ok(text) => decoded(&text).map(Some),
            Err(Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn list(&self, parameters: &ListParams) -> Result<ObjectList<K>> {
        objects(page(&self.client, self.checked()?, self.metadata_only, parameters).await?)
    }

    /// As [`list`](Self::list), but decodes each object only when the iterator reaches it. Returns the metadata of the page, too.
    pub async fn list_lazily(
        &self,
        parameters: &ListParams,
    ) -> Result<(ListMeta, impl Iterator<Item = Result<K>> + use<K>)> {
        let page = page(&self.client, self.checked()?, self.metadata_only, parameters).await?;
        let items = page.items.into_iter().flatten();
        let objects = items.map(|item| K::decode(item.get().as_bytes()).map_err(Error::SerdeError));
        Ok((page.metadata, objects))
    }

    pub async fn list_metadata(
        &self,
        parameters: &ListParams,
    ) -> Result<ObjectList<PartialObjectMeta<DynamicObject>>> {
        objects(page(&self.client, self.checked()?, true, parameters).await?)
    }

    pub async fn create(&self, parameters: &PostParams, object: &K) -> Result<K> {
        let body = object.encode().map_err(Error::SerdeError)?;
        decoded(&send(&self.client, self.checked()?.create(parameters, body)).await?)
    }

    pub async fn create_subresource<B: Serialize, T: DeserializeOwned>(
        &self,
        subresource: &str,
        name: &str,
        parameters: &PostParams,
        body: &B,
    ) -> Result<T> {
        let body = serde_json::to_vec(body).map_err(Error::SerdeError)?;
        let request = self.checked()?.create_subresource(subresource, &path::name(name)?, parameters, body);
        serde_json::from_str(&send(&self.client, request).await?).map_err(Error::SerdeError)
    }

    pub async fn evict(&self, name: &str, parameters: &EvictParams) -> Result<()> {
        send(&self.client, self.checked()?.evict(&path::name(name)?, parameters)).await.map(drop)
    }

    pub async fn replace(&self, name: &str, parameters: &PostParams, object: &K) -> Result<K> {
        let body = object.encode().map_err(Error::SerdeError)?;
        decoded(&send(&self.client, self.checked()?.replace(&path::name(name)?, parameters, body)).await?)
    }

    pub async fn replace_subresource(
        &self,
        subresource: &str,
        name: &str,
        parameters: &PostParams,
        object: &K,
    ) -> Result<K> {
        let body = object.encode().map_err(Error::SerdeError)?;
        let request = self.checked()?.replace_subresource(subresource, &path::name(name)?, parameters, body);
        decoded(&send(&self.client, request).await?)
    }

    pub async fn replace_status(&self, name: &str, parameters: &PostParams, object: &K) -> Result<K> {
        self.replace_subresource("status", name, parameters, object).await
    }

    pub async fn patch<P: Serialize>(
        &self,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        let patch = raw(patch).map_err(Error::SerdeError)?;
        let request = match self.metadata_only {
            true => self.checked()?.patch_metadata(&path::name(name)?, parameters, &patch),
            false => self.checked()?.patch(&path::name(name)?, parameters, &patch),
        };
        decoded(&send(&self.client, request).await?)
    }

    pub async fn patch_subresource<P: Serialize>(
        &self,
        subresource: &str,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        let patch = raw(patch).map_err(Error::SerdeError)?;
        let request = self.checked()?.patch_subresource(subresource, &path::name(name)?, parameters, &patch);
        decoded(&send(&self.client, request).await?)
    }

    pub async fn patch_status<P: Serialize>(
        &self,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        self.patch_subresource("status", name, parameters, patch).await
    }

    /// Deletes an object. Returns it if it still exists, for example because of a finalizer. When the deletion is
    /// complete, the server responds, depending on the kind, with the last state of the object or with a Status; for
    /// a Status this returns `None`.
    pub async fn delete(&self, name: &str, parameters: &DeleteParams) -> Result<Option<K>> {
        let text = send(&self.client, self.checked()?.delete(&path::name(name)?, parameters)).await?;
        match is_status(&text)? {
            true => Ok(None),
            false => decoded(&text).map(Some),
        }
    }

    /// Unlike kube's method, does not decode the response.
    pub async fn delete_collection(&self, parameters: &DeleteParams, selected: &ListParams) -> Result<()> {
        send(&self.client, self.checked()?.delete_collection(parameters, selected)).await.map(drop)
    }
}

/// A page of a list, with its items as the server sent them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    pub(crate) metadata: ListMeta,
    /// Go encodes an empty list as null in some versions.
    items: Option<Vec<Box<RawValue>>>,
}

impl Page {
    pub(crate) fn into_items(self) -> Vec<Box<RawValue>> {
        self.items.unwrap_or_default()
    }
}

/// Requests one page of a list.
pub(crate) async fn page(
    client: &Client,
    request: &Request,
    metadata_only: bool,
    parameters: &ListParams,
) -> Result<Page> {
    let request = match metadata_only {
        true => request.list_metadata(parameters),
        false => request.list(parameters),
    };
    serde_json::from_str(&send(client, request).await?).map_err(Error::SerdeError)
}

fn objects<K: Object>(page: Page) -> Result<ObjectList<K>> {
    let items = page.items.iter().flatten().map(|item| K::decode(item.get().as_bytes()));
    Ok(ObjectList {
        items: items.collect::<serde_json::Result<_>>().map_err(Error::SerdeError)?,
        types: TypeMeta { api_version: page.api_version, kind: page.kind },
        metadata: page.metadata,
    })
}

async fn send(client: &Client, request: Result<HttpRequest<Vec<u8>>, BuildError>) -> Result<String> {
    client.request_text(request.map_err(Error::BuildRequest)?).await
}

/// Decodes JSON. If that fails because of times that the type cannot represent, decodes it with other times in their place
/// (see [`times`]).
///
/// # Errors
/// The JSON has another shape.
pub fn decode_with<K>(json: &[u8], decode: fn(&[u8]) -> serde_json::Result<K>) -> serde_json::Result<K> {
    decode(json).or_else(|error| mended(json).find_map(|json| decode(&json).ok()).ok_or(error))
}

/// The same JSON with other times, in the order in which to decode it.
fn mended(json: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut object: Option<Value> = serde_json::from_slice(json).ok();
    [Mend::Range, Mend::Required].into_iter().filter_map(move |mend| {
        let object = object.as_mut()?;
        times::mend(object, mend).then(|| serde_json::to_vec(object).ok()).flatten()
    })
}

fn decoded<K: Object>(text: &str) -> Result<K> {
    K::decode(text.as_bytes()).map_err(Error::SerdeError)
}

/// Whether the response is a Status instead of an object.
fn is_status(text: &str) -> Result<bool> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, default)]
        kind: Cow<'a, str>,
    }
    let found: Kind<'_> = serde_json::from_str(text).map_err(Error::SerdeError)?;
    Ok(found.kind == "Status")
}

/// Converts the content of the patch to JSON text.
fn raw<P: Serialize>(patch: &Patch<P>) -> serde_json::Result<Patch<Box<RawValue>>> {
    use serde_json::value::to_raw_value;
    Ok(match patch {
        Patch::Apply(content) => Patch::Apply(to_raw_value(content)?),
        Patch::Merge(content) => Patch::Merge(to_raw_value(content)?),
        Patch::Strategic(content) => Patch::Strategic(to_raw_value(content)?),
        // kube may add other patch types.
        _ => return Err(serde::ser::Error::custom("a patch of this type cannot be encoded")),
    })
}
