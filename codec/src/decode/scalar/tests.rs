use super::*;

fn read_text(scalar: Scalar, text: &str) -> Result<Value, Refused> {
    read(scalar, &mut Token::String(text.into()))
}

#[test]
fn base64_is_strict_except_for_line_breaks() {
    for (text, want) in [
        ("", ""),
        ("YWJj", "YWJj"),
        ("YWI=", "YWI="),
        ("YQ==", "YQ=="),
        ("YR==", "YQ=="),
        ("YWJ=", "YWI="),
        ("YW\nJj\r\n", "YWJj"),
    ] {
        assert_eq!(read_text(Scalar::Bytes, text), Ok(want.into()), "{text:?}");
    }
    let cases =
        [("!", 0), ("YW Jj", 2), ("YWJ", 0), ("YWJjYW", 4), ("YQ=", 3), ("YQ==x", 4), ("YWJj-_-_", 4)];
    for (text, at) in cases {
        let want = format!("illegal base64 data at input byte {at}");
        assert_eq!(read_text(Scalar::Bytes, text), Err(Refused::Content(want)), "{text:?}");
    }
}

#[test]
fn integers_must_be_whole_and_in_range() {
    let read = |scalar, text: &str| read(scalar, &mut Token::Number(text.to_owned().into()));
    assert_eq!(read(Scalar::Int32, "2147483647"), Ok(2_147_483_647.into()));
    assert_eq!(read(Scalar::Int64, "-5"), Ok((-5).into()));
    assert_eq!(read(Scalar::IntOrString, "80"), Ok(80.into()));
    for (scalar, text) in [
        (Scalar::Int32, "2147483648"),
        (Scalar::Int64, "1.0"),
        (Scalar::Int64, "1e1"),
        (Scalar::IntOrString, "80.0"),
    ] {
        assert_eq!(read(scalar, text), Err(Refused::Type(format!("number {text}"))));
    }
    assert_eq!(read(Scalar::String, "1"), Err(Refused::Type("number".into())));
    assert_eq!(read(Scalar::Time, "1"), Err(Refused::Type("number".into())));
}
