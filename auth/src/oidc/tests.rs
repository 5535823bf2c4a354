//! Which tokens of an issuer are valid, and which user they name.

#![allow(clippy::unwrap_used)]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::*;
use crate::service_account::key::{SigningKey, generate};

const NOW: i64 = 1_800_000_000;

fn config() -> OidcConfig {
    OidcConfig {
        issuer: "https://issuer.example".to_owned(),
        client_id: "orlop".to_owned(),
        username_claim: "sub".to_owned(),
        username_prefix: "oidc:".to_owned(),
        groups_claim: Some("groups".to_owned()),
        groups_prefix: "g:".to_owned(),
        required_claims: BTreeMap::new(),
        algorithms: vec![Algorithm::Es256],
    }
}

fn key() -> SigningKey {
    SigningKey::from_pkcs8(&generate().unwrap()).unwrap()
}

fn keys(key: &SigningKey) -> IssuerKeys {
    let document = json!({"keys": [{"kty": "oct", "k": "AQ"}, key.public().jwk()]});
    IssuerKeys::parse(document.to_string().as_bytes()).unwrap()
}

fn token(key: &SigningKey, header: &Value, claims: &Value) -> String {
    let message = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes()).unwrap()))
}

/// The claims of a valid token, with changes; a null removes a claim.
fn claims(changes: Value) -> Value {
    let mut claims = json!({
        "iss": "https://issuer.example", "aud": "orlop", "sub": "ann", "exp": NOW + 60, "jti": "1",
        "groups": ["a", "b"],
    });
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

fn verified(config: &OidcConfig, changes: Value) -> Result<String, OidcError> {
    let key = key();
    let header = json!({"alg": "ES256", "kid": key.public().id()});
    let token = token(&key, &header, &claims(changes));
    let user = verify(config, &keys(&key), &token, Timestamp::from_second(NOW).unwrap())?;
    Ok(format!("{} {}", user.username, user.groups.join(",")))
}

#[test]
fn claims_determine_the_user() {
    let ok = |text: &str| Ok(text.to_owned());
    let audience = || Err(OidcError::Audience("orlop".to_owned()));
    let claim = |name: &str| Err(OidcError::Claim(name.to_owned()));
    for (case, changes, want) in [
        ("1 valid", json!({}), ok("oidc:ann g:a,g:b,system:authenticated")),
        ("2 audiences", json!({"aud": ["x", "orlop"]}), ok("oidc:ann g:a,g:b,system:authenticated")),
        ("3 another audience", json!({"aud": ["x"]}), audience()),
        ("4 no audience", json!({"aud": null}), audience()),
        ("5 another issuer", json!({"iss": "https://issuer.example/"}), Err(OidcError::Malformed)),
        ("6 the last second", json!({"exp": NOW}), ok("oidc:ann g:a,g:b,system:authenticated")),
        ("7 expired", json!({"exp": NOW - 1}), Err(OidcError::Expired)),
        ("8 no end", json!({"exp": null}), Err(OidcError::Expired)),
        ("9 the end is a text", json!({"exp": "2030"}), Err(OidcError::Expired)),
        ("10 clocks differ", json!({"nbf": NOW + 300}), ok("oidc:ann g:a,g:b,system:authenticated")),
        ("11 not yet", json!({"nbf": NOW + 301}), Err(OidcError::NotYet)),
        ("12 the start is a text", json!({"nbf": "x"}), Err(OidcError::NotYet)),
        ("13 no name", json!({"sub": null}), claim("sub")),
        ("14 an empty name", json!({"sub": ""}), claim("sub")),
        ("15 a number as name", json!({"sub": 1}), claim("sub")),
        ("16 one group", json!({"groups": "a"}), ok("oidc:ann g:a,system:authenticated")),
        ("17 no groups", json!({"groups": null}), ok("oidc:ann system:authenticated")),
        ("18 groups of another type", json!({"groups": ["a", 1]}), claim("groups")),
        ("19 an object as groups", json!({"groups": {}}), claim("groups")),
    ] {
        assert_eq!(verified(&config(), changes), want, "{case}");
    }
}

#[test]
fn required_claims_and_addresses_are_checked() {
    let required = OidcConfig { required_claims: [("hd".to_owned(), "x".to_owned())].into(), ..config() };
    let email = OidcConfig { username_claim: "email".to_owned(), groups_claim: None, ..config() };
    for (case, config, changes, want) in [
        ("1 present", &required, json!({"hd": "x", "groups": null}), Ok("oidc:ann system:authenticated")),
        ("2 missing", &required, json!({}), Err(OidcError::RequiredMissing("hd".to_owned()))),
        ("3 different", &required, json!({"hd": "y"}), Err(OidcError::RequiredDiffers("hd".to_owned()))),
        ("4 a list", &required, json!({"hd": ["x"]}), Err(OidcError::RequiredDiffers("hd".to_owned()))),
        ("5 unknown", &email, json!({"email": "a@b"}), Ok("oidc:a@b system:authenticated")),
        (
            "6 verified",
            &email,
            json!({"email": "a@b", "email_verified": true}),
            Ok("oidc:a@b system:authenticated"),
        ),
        (
            "7 not verified",
            &email,
            json!({"email": "a@b", "email_verified": false}),
            Err(OidcError::EmailNotVerified),
        ),
        (
            "8 a text",
            &email,
            json!({"email": "a@b", "email_verified": "true"}),
            Err(OidcError::EmailNotVerified),
        ),
    ] {
        assert_eq!(verified(config, changes), want.map(str::to_owned), "{case}");
    }
}

#[test]
fn signature_must_be_of_the_issuer() {
    let (key, other) = (key(), key());
    let id = key.public().id();
    let now = Timestamp::from_second(NOW).unwrap();
    let good = token(&key, &json!({"alg": "ES256", "kid": id}), &claims(json!({})));
    let unsigned = format!("{}.", good.rsplit_once('.').unwrap().0);
    for (case, token, want) in [
        ("1 good", good, None),
        ("2 no key id", token(&key, &json!({"alg": "ES256"}), &claims(json!({}))), None),
        (
            "3 an unknown key id",
            token(&key, &json!({"alg": "ES256", "kid": "x"}), &claims(json!({}))),
            Some(OidcError::UnknownKey),
        ),
        (
            "4 another key",
            token(&other, &json!({"alg": "ES256", "kid": id}), &claims(json!({}))),
            Some(OidcError::UnknownKey),
        ),
        (
            "5 no algorithm",
            token(&key, &json!({"alg": "none"}), &claims(json!({}))),
            Some(OidcError::Algorithm),
        ),
        (
            "6 an algorithm that is not enabled",
            token(&key, &json!({"alg": "RS256", "kid": id}), &claims(json!({}))),
            Some(OidcError::Algorithm),
        ),
        ("7 no signature", unsigned, Some(OidcError::UnknownKey)),
        ("8 no token", "x".to_owned(), Some(OidcError::Malformed)),
    ] {
        assert_eq!(verify(&config(), &keys(&key), &token, now).err(), want, "{case}");
    }
}

#[test]
fn unusable_key_sets_are_reported() {
    let many = json!({"keys": vec![json!({}); MAX_KEYS + 1]}).to_string();
    for (document, part) in [
        ("", "EOF"),
        ("[]", "no keys"),
        (r#"{"keys": []}"#, "no usable key"),
        (r#"{"keys": [{"kty": "RSA", "n": "AQ", "e": "AQAB"}]}"#, "no usable key"),
        (&many, "more than"),
    ] {
        let error = IssuerKeys::parse(document.as_bytes()).unwrap_err();
        assert!(error.contains(part), "{document}: {error}");
    }
}

/// What is left of a token after its verification depends on the time and on the keys, as the token itself.
#[test]
fn verified_claims_end_with_the_token_and_its_key() {
    let (signer, other) = (key(), key());
    let header = json!({"alg": "ES256", "kid": signer.public().id()});
    let token = token(&signer, &header, &claims(json!({})));
    let verified = verify_signature(&config(), &keys(&signer), &token).unwrap();
    assert_eq!(verified.expires(), Timestamp::from_second(NOW + 60).ok());
    for (case, keys, second, want) in [
        ("1 valid", keys(&signer), NOW, None),
        ("2 in its last second", keys(&signer), NOW + 60, None),
        ("3 expired", keys(&signer), NOW + 61, Some(OidcError::Expired)),
        ("4 its key is withdrawn", keys(&other), NOW, Some(OidcError::UnknownKey)),
    ] {
        let now = Timestamp::from_second(second).unwrap();
        assert_eq!(verified.user(&config(), &keys, now).err(), want, "{case}");
        assert_eq!(verify(&config(), &keys, &token, now).err(), want, "{case}: the token itself");
    }
}
