//! Assigns chains of providers to resources: an exact rule wins over `*.GROUP`, which wins over `*.*`.
//!
//! Upstream: apiserver `pkg/server/options/encryptionconfig/config.go`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use orlop_store::Key;

use crate::chain::{Chain, Keys, Kms, Link};
use crate::config::{
    EncryptionConfiguration, KeyConfiguration, KeySecret, KmsConfiguration, ProviderConfiguration,
};
use crate::kms::KmsProvider;
use crate::provider::{AesCbc, AesGcmKey, Provider, Secretbox};
use crate::resource::{GroupResource, of_key};

const NO_AES_KEY: &str = "no matching key was found for the provided AES transformer";
const NO_SECRETBOX_KEY: &str = "no matching key was found for the provided Secretbox transformer";

static IDENTITY: LazyLock<Chain> = LazyLock::new(Chain::identity);

/// The chains of all resources.
#[derive(Default)]
pub(crate) struct Rules {
    chains: HashMap<GroupResource, Chain>,
    /// The KMS providers, in the order of the file.
    kms: Vec<Arc<KmsProvider>>,
}

impl Rules {
    /// The rules of a validated configuration. KMS providers of `previous` with the same configuration stay in use, with their seeds.
    pub(crate) fn new(configuration: &EncryptionConfiguration, previous: &Rules) -> Result<Self, String> {
        let mut kms = Vec::new();
        let mut rules: HashMap<GroupResource, Chain> = HashMap::new();
        for configured in &configuration.resources {
            // The resources share the providers.
            let plugins = configured.providers.iter().map(|provider| match &provider.kms {
                Some(plugin) => kms_provider(plugin, previous).map(Some),
                None => Ok(None),
            });
            let plugins = plugins.collect::<Result<Vec<_>, _>>()?;
            kms.extend(plugins.iter().flatten().cloned());
            for name in &configured.resources {
                let resource = GroupResource::parse(name);
                for wider in [resource.whole_group(), GroupResource::all()] {
                    if wider != resource && rules.contains_key(&wider) {
                        return Err(format!(
                            "resource {:?} is masked by earlier rule {:?}",
                            resource.to_string(),
                            wider.to_string()
                        ));
                    }
                }
                // Each resource has its own ciphers.
                let links =
                    configured.providers.iter().zip(&plugins).map(|(provider, plugin)| match plugin {
                        Some(plugin) => Ok(Link::Kms(Kms::new(plugin.clone()))),
                        None => link(provider),
                    });
                let links = links.collect::<Result<Vec<_>, _>>()?;
                rules.entry(resource).or_insert_with(|| Chain(Vec::new())).0.extend(links);
            }
        }
        Ok(Rules { chains: rules, kms })
    }

    /// The KMS providers, in the order of the file.
    pub(crate) fn kms(&self) -> &[Arc<KmsProvider>] {
        &self.kms
    }

    /// The resources of the rules that match no object.
    pub(crate) fn without_effect(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.chains.keys().filter(|resource| !resource.can_exist()).map(ToString::to_string).collect();
        names.sort();
        names
    }

    /// The providers for a key.
    pub(crate) fn chain(&self, key: &Key) -> &Chain {
        if self.chains.is_empty() {
            return &IDENTITY;
        }
        let Some(resource) = of_key(key) else { return &IDENTITY };
        let find = |pattern: &GroupResource| self.chains.get(pattern);
        find(&resource)
            .or_else(|| find(&resource.whole_group()))
            .or_else(|| find(&GroupResource::all()))
            .unwrap_or(&IDENTITY)
    }
}

fn kms_provider(configuration: &KmsConfiguration, previous: &Rules) -> Result<Arc<KmsProvider>, String> {
    if configuration.api_version == "v1" {
        return Err(format!(
            "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead: set apiVersion: v2 in the KMS \
             provider {:?} (the default is v1)",
            configuration.name
        ));
    }
    match previous.kms.iter().find(|provider| provider.configuration() == configuration) {
        Some(provider) => Ok(provider.clone()),
        None => KmsProvider::start(configuration).map(Arc::new),
    }
}

fn link(provider: &ProviderConfiguration) -> Result<Link, String> {
    let ProviderConfiguration { aesgcm, aescbc, secretbox, .. } = provider;
    let (prefix, no_key, configured, create): (_, _, _, Create) = match (aesgcm, aescbc, secretbox) {
        (Some(keys), _, _) => ("k8s:enc:aesgcm:v1:", NO_AES_KEY, keys, |key| boxed(AesGcmKey::new(key))),
        (_, Some(keys), _) => ("k8s:enc:aescbc:v1:", NO_AES_KEY, keys, |key| boxed(AesCbc::new(key))),
        (_, _, Some(keys)) => {
            ("k8s:enc:secretbox:v1:", NO_SECRETBOX_KEY, keys, |key| boxed(Secretbox::new(key)))
        }
        (None, None, None) => return Ok(Link::Identity),
    };
    let mut keys = Vec::new();
    for KeyConfiguration { name, secret } in configured {
        let provider = match secret {
            KeySecret::Bytes(key) => create(key),
            KeySecret::Missing | KeySecret::Malformed => None,
        };
        keys.push((name.clone(), provider.ok_or_else(|| format!("the secret of key {name} is not valid"))?));
    }
    Ok(Link::Keys(Keys { prefix, no_key, keys }))
}

type Create = fn(&[u8]) -> Option<Box<dyn Provider>>;

fn boxed(provider: Option<impl Provider + 'static>) -> Option<Box<dyn Provider>> {
    provider.map(|provider| Box::new(provider) as Box<dyn Provider>)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::config::parse;

    fn rules(resources: &[(&str, &str)]) -> Result<Rules, String> {
        let mut text =
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n".to_owned();
        for (resources, provider) in resources {
            let provider = match *provider {
                "identity" => "{identity: {}}".to_owned(),
                name => format!("{{aescbc: {{keys: [{{name: {name}, secret: MDEyMzQ1Njc4OWFiY2RlZg==}}]}}}}"),
            };
            text += &format!("- {{resources: [{resources}], providers: [{provider}]}}\n");
        }
        Rules::new(&parse(text.as_bytes())?, &Rules::default())
    }

    #[test]
    fn kms_v1_is_refused() {
        let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
                    - {resources: [secrets], providers: [{kms: {name: a, endpoint: 'unix:///a'}}]}\n";
        let refused = Rules::new(&parse(text.as_bytes()).unwrap(), &Rules::default()).err().unwrap();
        assert!(
            refused.starts_with("KMSv1 is deprecated") && refused.contains("set apiVersion: v2"),
            "{refused}"
        );
    }

    #[test]
    fn resources_share_a_kms_provider_and_a_reload_preserves_it() {
        let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
                    - {resources: [secrets, configmaps], providers: [{kms: {apiVersion: v2, name: a, endpoint: 'unix:///a'}}]}\n";
        let first = Rules::new(&parse(text.as_bytes()).unwrap(), &Rules::default()).unwrap();
        let same = Rules::new(&parse(text.as_bytes()).unwrap(), &first).unwrap();
        let other = text.replace("unix:///a", "unix:///b");
        let other = Rules::new(&parse(other.as_bytes()).unwrap(), &first).unwrap();
        assert_eq!(first.kms().len(), 1);
        assert!(Arc::ptr_eq(&first.kms()[0], &same.kms()[0]));
        assert!(!Arc::ptr_eq(&first.kms()[0], &other.kms()[0]));
    }

    #[test]
    fn most_exact_rule_applies() {
        let rules =
            rules(&[("events", "identity"), ("secrets", "a"), ("'*.apps'", "b"), ("'*.*'", "c")]).unwrap();
        for (key, want) in [
            ("/registry/events/default/a", None),
            ("/registry/secrets/default/a", Some("a")),
            ("/registry/deployments/default/a", Some("b")),
            ("/registry/pods/default/a", Some("c")),
            ("/registry/example.com/widgets/a", Some("c")),
            ("/registry/unknown/a", None),
        ] {
            let stored = rules.chain(&Key::from(key)).write(key, b"{}").unwrap();
            let prefix = stored.as_deref().map(|stored| String::from_utf8_lossy(&stored[..20]).into_owned());
            assert_eq!(prefix, want.map(|name| format!("k8s:enc:aescbc:v1:{name}:")), "{key}");
        }
        let none = Rules::default();
        assert_eq!(none.chain(&Key::from("/registry/secrets/a/b")).write("k", b"{}"), Ok(None));
    }

    #[test]
    fn rules_without_effect_are_listed() {
        let rules = rules(&[("secret", "a"), ("secrets", "a"), ("gadgets.example.com", "a")]).unwrap();
        assert_eq!(rules.without_effect(), ["secret"]);
    }

    #[test]
    fn masked_rules_are_refused_and_repeated_ones_are_joined() {
        for (resources, want) in [
            (
                &[("'*.'", "a"), ("secrets", "b")][..],
                Some("resource \"secrets\" is masked by earlier rule \"*.\""),
            ),
            (&[("'*.*'", "a"), ("'*.'", "b")], Some("resource \"*.\" is masked by earlier rule \"*.*\"")),
            (&[("secrets", "a"), ("secrets", "b")], None),
            (&[("secrets", "a"), ("'*.'", "b")], None),
        ] {
            assert_eq!(rules(resources).err().as_deref(), want, "{resources:?}");
        }
        let joined = rules(&[("secrets", "a"), ("secrets", "b")]).unwrap();
        assert_eq!(joined.chain(&Key::from("/registry/secrets/a/b")).0.len(), 2);
    }
}
