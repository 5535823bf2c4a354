//! Maintains the ConfigMap `kube-system/extension-apiserver-authentication`. Aggregated API servers read in it how to authenticate the
//! clients of this server.
//!
//! Entries of other servers stay, because several servers may share a store.
//!
//! Upstream: `pkg/controlplane/controller/clusterauthenticationtrust`.

use jiff::{SignedDuration, Timestamp};
use orlop_auth::certificate::not_after;
use orlop_auth::front_proxy::FrontProxyConfig;
use orlop_auth::pem;
use orlop_store::CommitError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Map, Value, json};

use crate::state::Inner;
use crate::system_config_map::SystemConfigMap;

const NAME: &str = "extension-apiserver-authentication";
const CLIENT_CA: &str = "client-ca-file";
const PROXY_CA: &str = "requestheader-client-ca-file";
/// For how long an expired authority stays, because clocks differ.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Creates or corrects the ConfigMap.
///
/// # Errors
/// A message for the log if it cannot be written.
pub(crate) async fn keep(server: &Inner) -> Result<(), String> {
    let Some(authorities) = &server.config.auth.client_authorities else { return Ok(()) };
    // On a full disk the remaining space is reserved for deletes; the next round tries again.
    if server.store.usage().full {
        return Ok(());
    }
    let Some(map) = SystemConfigMap::read(server, NAME)? else { return Ok(()) };
    let old = map.existing().and_then(|map| map.at(&["data"])?.as_object().cloned()).unwrap_or_default();
    let [users, proxies] = authorities.certificates();
    let data = combined(&old, &users, &proxies, server.config.auth.front_proxy.as_ref(), server.now());
    if data == old {
        return Ok(());
    }
    let write = map.write(server, &["data"], Value::Object(data));
    match server.store.commit(vec![write]).await {
        // On a conflict, another writer was faster; the next round checks again.
        Ok(_) | Err(CommitError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// The data of the ConfigMap: those that exist, and those of this server.
fn combined(
    old: &Map<String, Value>,
    users: &[CertificateDer<'_>],
    proxies: &[CertificateDer<'_>],
    front_proxy: Option<&FrontProxyConfig>,
    now: Timestamp,
) -> Map<String, Value> {
    let text = |name: &str| old.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut data = Map::new();
    let users = bundle(text(CLIENT_CA), users, now);
    if !users.is_empty() {
        data.insert(CLIENT_CA.to_owned(), users.into());
    }
    let proxies = bundle(text(PROXY_CA), proxies, now);
    if proxies.is_empty() {
        return data;
    }
    data.insert(PROXY_CA.to_owned(), proxies.into());
    let none = FrontProxyConfig::default();
    let own = front_proxy.unwrap_or(&none);
    for (name, items) in [
        ("requestheader-allowed-names", &own.allowed_names),
        ("requestheader-extra-headers-prefix", &own.extra_prefixes),
        ("requestheader-group-headers", &own.group_headers),
        ("requestheader-uid-headers", &own.uid_headers),
        ("requestheader-username-headers", &own.username_headers),
    ] {
        let mut all: Vec<String> = serde_json::from_str(text(name)).unwrap_or_default();
        for item in items {
            if !all.contains(item) {
                all.push(item.clone());
            }
        }
        data.insert(name.to_owned(), json!(all).to_string().into());
    }
    data
}

/// The existing and the own certificates in PEM, without duplicates and without expired ones.
fn bundle(existing: &str, own: &[CertificateDer<'_>], now: Timestamp) -> String {
    let mut all: Vec<Vec<u8>> = CertificateDer::pem_slice_iter(existing.as_bytes())
        .filter_map(|read| read.ok().map(|found| found.to_vec()))
        .collect();
    all.extend(own.iter().map(|certificate| certificate.to_vec()));
    let since = now.checked_sub(CLOCK_SKEW).unwrap_or(Timestamp::MIN);
    all.retain(|certificate| not_after(certificate).is_some_and(|end| end > since));
    let mut seen = std::collections::HashSet::new();
    all.retain(|certificate| seen.insert(certificate.clone()));
    all.iter().map(|certificate| pem::encode("CERTIFICATE", certificate)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use orlop_pki::authority::Authority;

    use super::*;

    const NOW: &str = "2026-11-26T12:00:00Z";

    fn certificate(now: &str) -> CertificateDer<'static> {
        let pair = Authority::create(now.parse().unwrap()).unwrap();
        CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()
    }

    fn count(data: &Map<String, Value>, name: &str) -> usize {
        data.get(name).map_or(0, |text| text.as_str().unwrap().matches("BEGIN").count())
    }

    #[test]
    fn entries_of_other_servers_are_retained_and_expired_authorities_removed() {
        let now: Timestamp = NOW.parse().unwrap();
        let (one, other, expired) = (certificate(NOW), certificate(NOW), certificate("2010-01-01T00:00:00Z"));
        let names = |names: &[&str]| FrontProxyConfig {
            allowed_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..FrontProxyConfig::default()
        };
        let none = Map::new();
        assert_eq!(combined(&none, &[], &[], None, now), none, "no authorities, no ConfigMap");
        let users = [one.clone(), one.clone(), expired];
        let data = combined(&none, &users, &[], Some(&names(&["a"])), now);
        assert_eq!(data.keys().collect::<Vec<_>>(), [CLIENT_CA], "no proxies");
        assert_eq!(count(&data, CLIENT_CA), 1);

        let first = combined(&none, &[one], std::slice::from_ref(&other), Some(&names(&["a", "b"])), now);
        assert_eq!(first["requestheader-allowed-names"], r#"["a","b"]"#);
        assert_eq!(first["requestheader-uid-headers"], "[]");
        let again = combined(&first, &[], &[other], Some(&names(&["c", "a"])), now);
        assert_eq!(again["requestheader-allowed-names"], r#"["a","b","c"]"#);
        assert_eq!((count(&again, CLIENT_CA), count(&again, PROXY_CA)), (1, 1));
        let later = "2040-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(combined(&again, &[], &[], None, later), none);
    }

    #[test]
    fn damaged_entries_are_replaced() {
        let old = json!({CLIENT_CA: "-----BEGIN", PROXY_CA: 1, "requestheader-uid-headers": "x"});
        let proxies = [certificate(NOW)];
        let data = combined(old.as_object().unwrap(), &[], &proxies, None, NOW.parse().unwrap());
        assert_eq!((count(&data, CLIENT_CA), count(&data, PROXY_CA)), (0, 1));
        assert_eq!(data["requestheader-uid-headers"], "[]");
    }
}
