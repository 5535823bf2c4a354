use super::*;

const CORE: &str = "io.k8s.api.core.v1.";

fn varint_of(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
    out
}

/// A field of wire type 2.
fn bytes(number: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [varint_of(number << 3 | 2), varint_of(content.len() as u64), content.to_vec()].concat()
}

/// A field of wire type 0.
fn number(number: u64, value: u64) -> Vec<u8> {
    [varint_of(number << 3), varint_of(value)].concat()
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [bytes(1, api_version), bytes(2, kind)].concat();
    [MAGIC.to_vec(), bytes(1, type_meta), bytes(2, raw), bytes(3, ""), bytes(4, "")].concat()
}

fn message(schema: &str, raw: &[u8]) -> Value {
    let ty = types().named(&format!("{CORE}{schema}")).expect("a known type");
    read(&envelope("v1", schema, raw), ty).map(|message| message.value).expect("sound")
}

#[test]
fn maps_bytes_and_metadata_are_decoded() {
    let entry = |key: &str, value: &str| [bytes(1, key), bytes(2, value)].concat();
    let raw = [
        bytes(1, [bytes(1, "a"), bytes(3, "ns"), bytes(8, ""), bytes(14, "f1"), bytes(14, "f2")].concat()),
        bytes(2, entry("k", "v")),
        bytes(2, bytes(1, "empty")),
        bytes(3, entry("b", "\u{1}\u{2}")),
        number(4, 1),
        // A field number that does not exist in any version of the type.
        number(15, 7),
    ]
    .concat();
    let want = json!({
        "metadata": {"name": "a", "namespace": "ns", "creationTimestamp": null, "finalizers": ["f1", "f2"]},
        "data": {"k": "v", "empty": null},
        "binaryData": {"b": "AQI="},
        "immutable": true,
    });
    assert_eq!(message("ConfigMap", &raw), want);
}

#[test]
fn inline_json_members_are_decoded_from_nested_messages() {
    let source = bytes(19, [bytes(1, bytes(1, "cm")), number(4, 0)].concat());
    let raw = bytes(2, bytes(1, [bytes(1, "vol"), bytes(2, source)].concat()));
    let want =
        json!({"spec": {"volumes": [{"name": "vol", "configMap": {"name": "cm", "optional": false}}]}});
    assert_eq!(message("Pod", &raw), want);
}

#[test]
fn scalars_are_decoded_from_their_own_messages() {
    let quantity = [bytes(1, "storage"), bytes(2, bytes(1, "1Gi"))].concat();
    let raw = bytes(2, [bytes(1, &quantity), bytes(1, [bytes(1, "cpu"), bytes(2, "")].concat())].concat());
    assert_eq!(
        message("PersistentVolume", &raw),
        json!({"spec": {"capacity": {"storage": "1Gi", "cpu": "0"}}})
    );

    let port = |content: Vec<u8>| bytes(2, content);
    assert_eq!(message("HTTPGetAction", &port([number(1, 0), number(2, 80)].concat())), json!({"port": 80}));
    let named = [number(1, 1), number(2, 0), bytes(3, "web")].concat();
    assert_eq!(message("HTTPGetAction", &port(named)), json!({"port": "web"}));

    // 1714979289 seconds, 1 500 000 ns; MicroTime preserves microseconds, Time drops them.
    let moment = [number(1, 1_714_979_289), number(2, 1_500_000)].concat();
    let raw = [bytes(6, &moment), bytes(7, ""), bytes(10, &moment)].concat();
    let want = json!({
        "firstTimestamp": "2024-05-06T07:08:09Z", "lastTimestamp": null,
        "eventTime": "2024-05-06T07:08:09.001500Z",
    });
    assert_eq!(message("Event", &raw), want);

    // -1, encoded in ten bytes.
    let minus_one = number(1, u64::MAX);
    assert_eq!(message("ContainerStateTerminated", &minus_one), json!({"exitCode": -1}));
}

#[test]
fn packed_and_unpacked_numbers_decode_to_the_same_list() {
    let plain = [number(3, 1), number(3, 2)].concat();
    let packed = bytes(3, [1, 2]);
    for raw in [plain, packed] {
        assert_eq!(message("LinuxContainerUser", &raw), json!({"supplementalGroups": [1, 2]}));
    }
}

#[test]
fn lists_within_maps_are_unwrapped() {
    let ty = types().named("io.k8s.api.authentication.v1.UserInfo").expect("a known type");
    let entry = [bytes(1, "k"), bytes(2, [bytes(1, "a"), bytes(1, "b")].concat())].concat();
    let message = read(&envelope("v1", "UserInfo", &bytes(4, entry)), ty).expect("sound");
    assert_eq!(message.value, json!({"extra": {"k": ["a", "b"]}}));
}

#[test]
fn envelope_provides_kind_and_version() {
    let ty = types().named(&format!("{CORE}Pod")).expect("a known type");
    let message = read(&envelope("v1", "Pod", b""), ty).expect("sound");
    assert_eq!(message.type_meta, ("v1".to_owned(), "Pod".to_owned()));
    assert_eq!(message.value, json!({}));
}

#[test]
fn malformed_messages_are_rejected() {
    let ty = types().named(&format!("{CORE}ConfigMap")).expect("a known type");
    let cases: &[(&[u8], &str)] = &[
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s\0\x12\x05ab", EOF),
        (b"k8s\0\x12\x02\x0a\x05", EOF),
        (b"k8s\0\x13", "proto: illegal wireType 3"),
        (b"k8s\0\x02", "proto: illegal tag 0 (wire type 2)"),
        (b"k8s\0\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "proto: integer overflow"),
        (b"k8s\0\x12\x02\x08\x01", ""),
    ];
    for (body, want) in cases {
        let result = read(body, ty).map(|message| message.value);
        match result {
            // A number where a message is expected decodes to null.
            Ok(value) => assert_eq!((value, *want), (json!({"metadata": null}), "")),
            Err(error) => assert_eq!(error, *want),
        }
    }
}
