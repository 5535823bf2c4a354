use super::*;

#[test]
fn times_are_converted_to_utc_with_whole_seconds() {
    let cases = [
        ("2024-05-06T07:08:09Z", "2024-05-06T07:08:09Z"),
        ("2024-05-06T07:08:09.987654321Z", "2024-05-06T07:08:09Z"),
        ("2024-05-06T07:08:09+02:00", "2024-05-06T05:08:09Z"),
        ("2024-12-31T23:30:00-01:00", "2025-01-01T00:30:00Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
        ("2024-05-06T7:08:09Z", "2024-05-06T07:08:09Z"),
        ("2024-05-06T7:08:09.1Z", "2024-05-06T07:08:09Z"),
        ("2024-05-06T07:08:09+24:00", "2024-05-05T07:08:09Z"),
    ];
    for (text, want) in cases {
        assert_eq!(seconds(text.to_owned()), Ok(want.into()), "{text}");
    }
    assert_eq!(seconds("0001-01-01T00:00:00Z".to_owned()), Ok(Value::Null));
}

#[test]
fn micro_times_require_six_decimals() {
    let cases = [
        ("2024-05-06T07:08:09.123456Z", "2024-05-06T07:08:09.123456Z"),
        ("2024-05-06T07:08:09.000000+02:00", "2024-05-06T05:08:09.000000Z"),
        ("2024-05-06T07:08:09.120000-01:30", "2024-05-06T08:38:09.120000Z"),
    ];
    for (text, want) in cases {
        assert_eq!(micros(text.to_owned()), Ok(want.into()), "{text}");
    }
}

#[test]
fn invalid_times_are_rejected_with_go_messages() {
    let as_layout = |text: &str, layout: &str, rest: &str, element: &str| {
        format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}")
    };
    let cases = [
        ("x", "x", "2006"),
        ("", "", "2006"),
        ("2024-05-06", "", "T"),
        ("2024-05-06 07:08:09Z", " 07:08:09Z", "T"),
        ("2024-05-06T07:08:09", "", "Z07:00"),
        ("2024-05-06T07:08:09+2", "+2", "Z07:00"),
    ];
    for (text, rest, element) in cases {
        assert_eq!(seconds(text.to_owned()), Err(as_layout(text, SECONDS, rest, element)));
    }
    for text in ["2024-05-06T07:08:09Z", "2024-05-06T07:08:09.12345Z"] {
        let rest = &text[19..];
        assert_eq!(micros(text.to_owned()), Err(as_layout(text, MICROS, rest, ".000000")));
    }
    let seven = "2024-05-06T07:08:09.1234567Z";
    assert_eq!(micros(seven.to_owned()), Err(as_layout(seven, MICROS, "7Z", "Z07:00")));
    for (text, why) in [
        ("2024-13-01T00:00:00Z", "month out of range"),
        ("2023-02-29T00:00:00Z", "day out of range"),
        ("2024-05-06T24:00:00Z", "hour out of range"),
        ("2024-05-06T07:08:09+25:00", "time zone offset hour out of range"),
        ("2024-05-06T07:08:09-01:61", "time zone offset minute out of range"),
        ("2024-05-06T07:08:09Zx", "extra text: \"x\""),
    ] {
        assert_eq!(seconds(text.to_owned()), Err(format!("parsing time {text:?}: {why}")));
    }
}

#[test]
fn unix_times_are_formatted_as_rfc3339() {
    assert_eq!(from_unix_seconds(1_714_979_289).as_deref(), Some("2024-05-06T07:08:09Z"));
    assert_eq!(from_unix_micros(1_714_979_289_000_001).as_deref(), Some("2024-05-06T07:08:09.000001Z"));
    assert_eq!(from_unix_seconds(i64::MAX), None);
}
