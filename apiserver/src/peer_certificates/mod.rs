//! The client certificates of connections, verified for each request.
//!
//! The handshake only proves that the client owns the key. Authentication verifies the chain with the authorities that are configured
//! at the time of the request, so that neither an open connection nor a resumed TLS session outlives the certificate or its
//! authority. A result is reused until the certificate ends or the authorities change.

mod authority_set;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use orlop_auth::UserInfo;
use orlop_auth::certificate::{self, ClientCertificate};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;

use self::authority_set::AuthoritySet;
pub use self::authority_set::{AuthorityError, check_authority};
use crate::clock::Clock;

/// Maximum time between two checks of an open connection.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The authorities of client certificates: those of users, and those of front proxies.
pub struct ClientAuthorities {
    current: ArcSwap<Authorities>,
    generation: watch::Sender<u64>,
}

#[derive(Default)]
struct Authorities {
    generation: u64,
    users: AuthoritySet,
    proxies: AuthoritySet,
}

impl Default for ClientAuthorities {
    /// Without authorities: no certificate is valid.
    fn default() -> Self {
        ClientAuthorities { current: ArcSwap::default(), generation: watch::Sender::new(0) }
    }
}

impl std::fmt::Debug for ClientAuthorities {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let current = self.current.load();
        let counts = (current.users.certificates().len(), current.proxies.certificates().len());
        formatter.debug_tuple("ClientAuthorities").field(&counts).finish()
    }
}

impl ClientAuthorities {
    /// Replaces all authorities. Certificates of removed ones are not valid from now on.
    ///
    /// # Errors
    /// One of them cannot be used; then nothing changes.
    pub fn replace(
        &self,
        users: Vec<CertificateDer<'static>>,
        proxies: Vec<CertificateDer<'static>>,
    ) -> Result<(), AuthorityError> {
        let (users, proxies) = (AuthoritySet::new(users)?, AuthoritySet::new(proxies)?);
        self.generation.send_modify(|generation| {
            *generation += 1;
            self.current.store(Arc::new(Authorities { generation: *generation, users, proxies }));
        });
        Ok(())
    }

    /// The authorities of users, and those of front proxies.
    pub(crate) fn certificates(&self) -> [Vec<CertificateDer<'static>>; 2] {
        let current = self.current.load();
        [current.users.certificates(), current.proxies.certificates()]
    }

    /// Counts the replacements.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }
}

/// The certificate of a connection's client, with its chain. The listener adds it to each request of the connection.
#[derive(Clone)]
pub struct PeerCertificates(Arc<Peer>);

struct Peer {
    chain: Vec<CertificateDer<'static>>,
    authorities: Arc<ClientAuthorities>,
    checked: Mutex<Option<Arc<CheckedCertificate>>>,
}

/// The result of the verification of a certificate. Each part is `None` if no such authorities are configured.
#[derive(Debug)]
pub(crate) struct CheckedCertificate {
    generation: u64,
    at: Timestamp,
    /// The result may change at this time.
    until: Timestamp,
    /// The user, if an authority of users has signed the certificate.
    pub(crate) user: Option<Result<UserInfo, String>>,
    /// The common name, if an authority of front proxies has signed the certificate.
    pub(crate) proxy: Option<Result<Option<String>, String>>,
}

impl CheckedCertificate {
    fn validity(&self) -> (bool, bool) {
        (matches!(self.user, Some(Ok(_))), matches!(self.proxy, Some(Ok(_))))
    }
}

impl PeerCertificates {
    /// The certificate that a client has proved to own, followed by its chain.
    pub fn new(chain: Vec<CertificateDer<'static>>, authorities: Arc<ClientAuthorities>) -> Self {
        PeerCertificates(Arc::new(Peer { chain, authorities, checked: Mutex::default() }))
    }

    /// Verifies the certificate, or returns the last result if it cannot have changed.
    pub(crate) fn check(&self, now: Timestamp) -> Arc<CheckedCertificate> {
        let current = self.0.authorities.current.load();
        let mut checked = self.0.checked.lock();
        if let Some(known) = &*checked
            && known.generation == current.generation
            && (known.at..known.until).contains(&now)
        {
            return known.clone();
        }
        let result = Arc::new(verify(&self.0.chain, &current, now));
        *checked = Some(result.clone());
        result
    }

    /// When the client's own certificate expires. An authority may end earlier.
    pub(crate) fn expires(&self) -> Option<Timestamp> {
        self.0.chain.first().and_then(|leaf| certificate::not_after(leaf))
    }

    /// Completes when a certificate that was valid is not valid any more. Never completes for other certificates, because their
    /// clients may use tokens.
    pub async fn ended(self, clock: Clock) {
        let mut changes = self.0.authorities.changes();
        let (was_user, was_proxy) = self.check(clock()).validity();
        if !was_user && !was_proxy {
            return std::future::pending().await;
        }
        loop {
            let now = clock();
            let checked = self.check(now);
            let (is_user, is_proxy) = checked.validity();
            if (was_user && !is_user) || (was_proxy && !is_proxy) {
                return;
            }
            let left = checked.until.duration_since(now);
            let wait =
                Duration::try_from(left).unwrap_or_default().clamp(Duration::from_secs(1), LONGEST_WAIT);
            tokio::select! {
                // The sender lives as long as these certificates.
                _ = changes.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

fn verify(chain: &[CertificateDer<'_>], current: &Authorities, now: Timestamp) -> CheckedCertificate {
    let leaf = chain.first().map(|leaf| leaf.as_ref()).unwrap_or_default();
    let words = |error: certificate::CertificateError| error.to_string();
    let user = current.users.verify(chain, now).map(|verified| {
        verified.and_then(|()| ClientCertificate::from_der(leaf).map(|found| found.user).map_err(words))
    });
    let proxy = current
        .proxies
        .verify(chain, now)
        .map(|verified| verified.and_then(|()| certificate::common_name(leaf).map_err(words)));
    let second = jiff::SignedDuration::from_secs(1);
    let next = now.checked_add(second).unwrap_or(Timestamp::MAX);
    let is_valid = matches!(user, Some(Ok(_))) || matches!(proxy, Some(Ok(_)));
    let until = if is_valid {
        // A certificate is valid through the second in which it ends.
        let ends = chain.iter().filter_map(|one| certificate::not_after(one));
        let ends = ends.chain(current.users.ends()).chain(current.proxies.ends());
        let ends = ends.filter_map(|end| end.checked_add(second).ok());
        // The certificate may become that of a user and of a front proxy.
        let starts = current.users.starts().chain(current.proxies.starts());
        ends.chain(starts).filter(|change| *change > now).min().unwrap_or(next)
    } else {
        // The certificate may become valid.
        next
    };
    CheckedCertificate { generation: current.generation, at: now, until, user, proxy }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::FutureExt as _;
    use orlop_pki::authority::Authority;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    const NOW: &str = "2026-11-26T12:00:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    fn authority() -> Authority {
        Authority::read(&Authority::create(at(NOW)).unwrap()).unwrap()
    }

    fn certificate(of: &Authority, name: &str) -> CertificateDer<'static> {
        der(&of.client(name, &["g".to_owned()], at(NOW)).unwrap().certificate)
    }

    fn shown(checked: &CheckedCertificate) -> (Option<&str>, Option<&str>) {
        let user = checked.user.as_ref().map(|user| user.as_ref().map_or("refused", |user| &user.username));
        let name = |name: &'_ Option<String>| name.clone().unwrap_or_default();
        let proxy = checked.proxy.as_ref().map(|proxy| match proxy {
            Ok(found) if name(found) == "proxy" => "proxy",
            Ok(_) => "another name",
            Err(_) => "refused",
        });
        (user, proxy)
    }

    #[test]
    fn each_kind_of_authority_accepts_its_own_certificates() {
        let (users, proxies, strangers) = (authority(), authority(), authority());
        let set = |of: &Authority| vec![der(of.certificate())];
        for (case, authorities, signer, want) in [
            ("1 a user", (set(&users), set(&proxies)), &users, (Some("proxy"), Some("refused"))),
            ("2 a proxy", (set(&users), set(&proxies)), &proxies, (Some("refused"), Some("proxy"))),
            ("3 a stranger", (set(&users), set(&proxies)), &strangers, (Some("refused"), Some("refused"))),
            ("4 no proxies", (set(&users), Vec::new()), &users, (Some("proxy"), None)),
            ("5 no users", (Vec::new(), set(&proxies)), &users, (None, Some("refused"))),
            ("6 none", (Vec::new(), Vec::new()), &users, (None, None)),
            ("7 one authority for both", (set(&users), set(&users)), &users, (Some("proxy"), Some("proxy"))),
        ] {
            let current = Arc::new(ClientAuthorities::default());
            current.replace(authorities.0, authorities.1).unwrap();
            let peer = PeerCertificates::new(vec![certificate(signer, "proxy")], current);
            assert_eq!(shown(&peer.check(at(NOW))), want, "{case}");
        }
    }

    #[test]
    fn certificate_is_valid_only_in_its_time() {
        let users = authority();
        let current = Arc::new(ClientAuthorities::default());
        current.replace(vec![der(users.certificate())], Vec::new()).unwrap();
        let peer = PeerCertificates::new(vec![certificate(&users, "ann")], current);
        for (case, now, want) in [
            ("1 before", "2026-11-26T11:54:59Z", "refused"),
            ("2 from the start", "2026-11-26T11:55:00Z", "ann"),
            ("3 now", NOW, "ann"),
            ("4 to the end", "2027-11-26T12:00:00Z", "ann"),
            ("5 after", "2027-11-26T12:00:01Z", "refused"),
            ("6 the clock is set back", NOW, "ann"),
        ] {
            assert_eq!(shown(&peer.check(at(now))).0, Some(want), "{case}");
        }
    }

    #[test]
    fn damaged_chains_are_refused() {
        let users = authority();
        let current = Arc::new(ClientAuthorities::default());
        current.replace(vec![der(users.certificate())], Vec::new()).unwrap();
        let good = certificate(&users, "ann");
        let check = |chain: Vec<CertificateDer<'static>>| {
            let peer = PeerCertificates::new(chain, current.clone());
            peer.check(at(NOW)).validity()
        };
        assert_eq!(check(vec![good.clone()]), (true, false));
        assert_eq!(check(Vec::new()), (false, false), "an empty chain");
        for length in 0..good.len() {
            assert_eq!(check(vec![good[..length].to_vec().into()]), (false, false), "cut at {length}");
        }
        for position in 0..good.len() {
            let mut bad = good.to_vec();
            bad[position] ^= 1;
            assert_eq!(check(vec![bad.into()]), (false, false), "a bit at {position}");
        }
        let server = users.server(&["localhost".to_owned()], at(NOW)).unwrap().certificate;
        assert_eq!(check(vec![der(&server)]), (false, false), "the certificate of a server");
        let other = authority();
        let chain = vec![certificate(&other, "ann"), der(other.certificate())];
        assert_eq!(check(chain), (false, false), "a chain to another authority");
    }

    /// An authority in a file, followed by the chain of a client.
    fn file(name: &str) -> (CertificateDer<'static>, Vec<CertificateDer<'static>>) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/peer_certificates/testdata");
        let all = CertificateDer::pem_file_iter(format!("{path}/{name}.pem")).unwrap();
        let mut all = all.collect::<Result<Vec<_>, _>>().unwrap();
        (all.remove(0), all)
    }

    /// A table of Go's decisions, except that Go reads every certificate.
    #[test]
    fn limits_of_authorities_apply() {
        for (name, want) in [
            ("good", Ok(true)),
            ("client_usage", Ok(true)),
            ("any_usage", Ok(true)),
            ("path_length", Ok(true)),
            ("intermediate", Ok(true)),
            ("expired", Ok(false)),
            ("future", Ok(false)),
            ("path_length_exceeded", Ok(false)),
            ("any_usage_chain", Ok(true)),
            ("server_usage_chain", Ok(false)),
            ("intermediate_no_signing", Ok(false)),
            ("no_authority", Err("lack CA:TRUE")),
            ("no_constraints", Err("lack CA:TRUE")),
            ("no_signing", Err("lacks keyCertSign")),
            ("server_usage", Err("lacks clientAuth")),
            ("authority_rsa_2048", Ok(true)),
            ("authority_p384", Ok(true)),
            ("authority_ed25519", Ok(true)),
            ("authority_rsa_1024", Err("RSA key of 2048 to 8192 bits")),
            ("authority_p521", Err("ECDSA key on P-256 or P-384")),
        ] {
            let (authority, chain) = file(name);
            let current = Arc::new(ClientAuthorities::default());
            let replaced = current.replace(vec![authority.clone()], vec![authority]);
            let peer = PeerCertificates::new(chain, current);
            match (want, replaced) {
                (Ok(is_valid), Ok(())) => {
                    assert_eq!(peer.check(at(NOW)).validity(), (is_valid, is_valid), "{name}")
                }
                (Err(part), Err(error)) => assert!(error.to_string().contains(part), "{name}: {error}"),
                (want, got) => panic!("{name}: {got:?}, not {want:?}"),
            }
        }
    }

    /// Two certificates of one authority: the first one permits only other names, and the second one no intermediate certificate.
    #[test]
    fn limits_of_several_authorities_do_not_add_up() {
        let (first, mut chain) = file("two_limits");
        let second = chain.remove(0);
        for (case, authorities) in [
            ("1 names", vec![first.clone()]),
            ("2 length", vec![second.clone()]),
            ("3 both", vec![first.clone(), second.clone()]),
            ("4 both, in another order", vec![second, first]),
        ] {
            let current = Arc::new(ClientAuthorities::default());
            current.replace(authorities, Vec::new()).unwrap();
            let peer = PeerCertificates::new(chain.clone(), current);
            assert_eq!(peer.check(at(NOW)).validity(), (false, false), "{case}");
        }
    }

    #[test]
    fn result_ends_when_another_authority_begins() {
        let (users, proxies) = (file("good"), file("future").0);
        let current = Arc::new(ClientAuthorities::default());
        current.replace(vec![users.0], vec![proxies.clone()]).unwrap();
        let checked = PeerCertificates::new(users.1, current).check(at(NOW));
        assert_eq!(checked.validity(), (true, false));
        let begin = orlop_pki::trust_anchor::client_anchor(&proxies).unwrap().not_before;
        assert_eq!(checked.until, begin);
    }

    /// The reasons are for the log; the client learns none. Unlike here, Go accepts an authority as the certificate of a user, and
    /// certificates of version 1.
    #[test]
    fn certificate_of_a_user_must_meet_all_conditions() {
        for (name, want) in [
            ("leaf_both_usages", Ok("ann")),
            ("leaf_no_usage", Ok("ann")),
            ("leaf_other_extension", Ok("ann")),
            ("leaf_in_name_constraints", Ok("ann")),
            ("leaf_expired", Err("CertExpired")),
            ("leaf_future", Err("CertNotValidYet")),
            ("leaf_of_another_authority", Err("InvalidSignature")),
            ("leaf_server_usage", Err("RequiredEkuNotFound")),
            ("leaf_no_name", Err("no common name")),
            ("leaf_no_subject", Err("no common name")),
            ("leaf_authority", Err("CaUsedAsEndEntity")),
            ("leaf_signs", Err("CaUsedAsEndEntity")),
            ("leaf_critical_extension", Err("UnsupportedCriticalExtension")),
            ("leaf_outside_name_constraints", Err("NameConstraintViolation")),
            ("leaf_sha1", Err("UnsupportedSignatureAlgorithm")),
            ("leaf_version_1", Err("UnsupportedCertVersion")),
        ] {
            let (authority, chain) = file(name);
            let current = Arc::new(ClientAuthorities::default());
            current.replace(vec![authority], Vec::new()).unwrap();
            let checked = PeerCertificates::new(chain, current).check(at(NOW));
            match (want, checked.user.as_ref().unwrap()) {
                (Ok(want), Ok(user)) => assert_eq!(user.username, want, "{name}"),
                (Err(part), Err(why)) => assert!(why.contains(part), "{name}: {why}"),
                (want, got) => panic!("{name}: {got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn result_ends_with_the_authority() {
        let (authority, chain) = file("good");
        let current = Arc::new(ClientAuthorities::default());
        current.replace(vec![authority], Vec::new()).unwrap();
        let short = self::authority();
        let end = short.not_after();
        current.replace(vec![file("good").0, der(short.certificate())], Vec::new()).unwrap();
        let checked = PeerCertificates::new(chain, current).check(at(NOW));
        assert_eq!(checked.until, end + jiff::SignedDuration::from_secs(1), "the next end of any authority");
    }

    #[test]
    fn unusable_authority_changes_nothing() {
        let users = authority();
        let current = Arc::new(ClientAuthorities::default());
        current.replace(vec![der(users.certificate())], Vec::new()).unwrap();
        assert!(current.replace(vec![CertificateDer::from(vec![1])], Vec::new()).is_err());
        let peer = PeerCertificates::new(vec![certificate(&users, "ann")], current);
        assert_eq!(peer.check(at(NOW)).validity(), (true, false));
    }

    #[tokio::test(start_paused = true)]
    async fn connection_ends_with_its_certificate_or_authority() {
        let users = authority();
        let clock = |now: &'static str| -> Clock {
            let begin = tokio::time::Instant::now();
            Arc::new(move || at(now) + begin.elapsed())
        };
        let current = Arc::new(ClientAuthorities::default());
        current.replace(vec![der(users.certificate())], Vec::new()).unwrap();
        let peer = || PeerCertificates::new(vec![certificate(&users, "ann")], current.clone());
        // The clock of the test advances beyond the end of the certificate.
        peer().ended(clock("2027-11-26T11:00:00Z")).await;

        let mut open = std::pin::pin!(peer().ended(clock(NOW)));
        assert!(open.as_mut().now_or_never().is_none(), "valid");
        current.replace(vec![der(users.certificate())], vec![der(users.certificate())]).unwrap();
        assert!(open.as_mut().now_or_never().is_none(), "still valid");
        current.replace(vec![der(authority().certificate())], Vec::new()).unwrap();
        open.await;
        let never = peer().ended(clock(NOW));
        assert!(never.now_or_never().is_none(), "a certificate that was never valid ends nothing");
    }
}
