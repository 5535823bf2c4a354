//! Reads values that other implementations of the algorithms have encrypted (Python's `cryptography`, and libsodium), in the layout of
//! upstream's storage.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use orlop_encryption::Encryption;
use orlop_store::{Key, Transformer as _};

/// The value that the vectors contain, and the key of its record, which AES-GCM authenticates.
const VALUE: &str = r#"{"metadata":{"name":"a","namespace":"default"},"data":{"k":"dmFsdWU="}}"#;
const KEY: &str = "/registry/secrets/default/a";

/// The bytes 0 to 15, 23 and 31, in base64.
const KEY_16: &str = "AAECAwQFBgcICQoLDA0ODw==";
const KEY_24: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
const KEY_32: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

const VECTORS: [(&str, &str, &str); 7] = [
    (
        "aescbc",
        KEY_16,
        "6465666768696a6b6c6d6e6f70717273e3723987d9b8df63bc4d1fdcb83828fb9dec7fbceb6ee8cf9e852500f04056fd11a6e86d49a5f618ba2ab10f148400c43368ae4c075c1caba5f14fa8ece481cee166ed795bca9de929aa83abc2271d20",
    ),
    (
        "aescbc",
        KEY_24,
        "6465666768696a6b6c6d6e6f707172734248c9407fcb94b7c707412c05ce55695afa84a3c73752ba1c54766df71df869da51a97a9e053fd0577bafb331d861f41eae77f2364630b6b4a786e024dc86c8a7a85e21a41f316560c7840df420dccf",
    ),
    (
        "aescbc",
        KEY_32,
        "6465666768696a6b6c6d6e6f7071727305527e6b7c275f049fe9468abbfa16f907fd4d7eb8ac5dfab1d7f3fcdc1c16b400f355f41df7367b7ff7018d426abf01484b0d10d393b0ace22c29832dadc85691c8dc65fe9e7366672c1e5192e104ca",
    ),
    (
        "aesgcm",
        KEY_16,
        "32333435363738393a3b3c3dca1c62afc893260b5d6db330b3257219ad669c295688f0d2e26ab9c3f1ea4694f9dd6d4c66492cf0a16a96aeca8f900f597bddd0d0324c5666e82debac51925ceb49eea68655d9ac976d6e3951ba89d2827b88f1b41b3d",
    ),
    (
        "aesgcm",
        KEY_24,
        "32333435363738393a3b3c3d1d2b8a49a88209faa7f8499ea9adb0c892e861c5c935bde2c3540d749537e335dcf74b8723be1820ab5ce3772a768b3811621816bbed37f35f51aa699944fdda533af3ecbb2f9fca2f69897ee089817608d0363d9da5c2",
    ),
    (
        "aesgcm",
        KEY_32,
        "32333435363738393a3b3c3dbd7982a5b15de5821966c8bc20cf91990bd639bbab2c85c7f3746af5d240eb134065e871358762c8f07916ab861bcfcf9b95938cf0f62b17f1798b702b49c852aee38fc3041681f72abe275b00f4928420dc8d8f33fe55",
    ),
    (
        "secretbox",
        KEY_32,
        "0a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20214adca4f551f2d46e5827b9e10346d2b7555c8d23305682d82e00b586d18f1e4d0d06eb99d3dd9d4d5bad31420491a8e79a9ea899cb28a2c9f1159ad204df642ac2978333470aba3b87542e9556354a38e1be6d882afa84",
    ),
];

fn encryption(provider: &str, secret: &str) -> Encryption {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  \
         - {provider}: {{keys: [{{name: key1, secret: {secret}}}]}}\n"
    );
    std::fs::write(file.path(), text).unwrap();
    Encryption::load(file.path()).unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn values_of_other_implementations_are_read() {
    let key = Key::from(KEY);
    for (provider, secret, hex) in VECTORS {
        let encryption = encryption(provider, secret);
        let prefix = format!("k8s:enc:{provider}:v1:key1:");
        let stored = Bytes::from([prefix.as_bytes(), &bytes(hex)].concat());
        let decoded = encryption.decode(&key, &stored).unwrap();
        assert_eq!(decoded.value.as_deref(), Some(VALUE.as_bytes()), "{provider}");
        assert!(!decoded.is_stale, "{provider}");
        // Only AES-GCM binds a value to the key of its record.
        let moved = encryption.decode(&Key::from("/registry/secrets/default/b"), &stored);
        assert_eq!(moved.is_err(), provider == "aesgcm", "{provider}");

        let written = encryption.encode(&key, &Bytes::from_static(VALUE.as_bytes())).unwrap().unwrap();
        assert!(written.starts_with(prefix.as_bytes()) && written.len() == stored.len(), "{provider}");
        assert_ne!(written, stored, "{provider}: the nonce is random");
    }
}
