use super::*;

fn error(text: &[u8]) -> Option<String> {
    let mut reader = Reader::new(text);
    let result = reader.value().and_then(|token| reader.skip(&token)).and_then(|()| reader.end());
    result.err().map(|error| error.0)
}

#[test]
fn syntax_errors_match_go() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "unexpected end of JSON input"),
        (b"  ", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b"{b", "invalid character 'b' looking for beginning of object key string"),
        (b"{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        (b"{\"a\"1", "invalid character '1' after object key"),
        (b"{\"a\":}", "invalid character '}' looking for beginning of value"),
        (b"{\"a\":1 \"b\"", "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"{} t", "invalid character 't' after top-level value"),
        (b"nope", "invalid character 'o' in literal null (expecting 'u')"),
        (b"+5", "invalid character '+' looking for beginning of value"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1ex", "invalid character 'x' in exponent of numeric literal"),
        (b"\"a\nb\"", r"invalid character '\n' in string literal"),
        (b"\"\\x\"", "invalid character 'x' in string escape code"),
        (b"\"\\u12x4\"", r"invalid character 'x' in \u hexadecimal character escape"),
        (b"\"abc", "unexpected end of JSON input"),
        (b"\x9e", r"invalid character '\u009e' looking for beginning of value"),
        (b"\x01", r"invalid character '\x01' looking for beginning of value"),
        (b"'a'", r"invalid character '\'' looking for beginning of value"),
    ];
    for (text, want) in cases {
        assert_eq!(error(text).as_deref(), Some(*want), "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn valid_json_is_accepted() {
    for text in ["{}", "[]", " [ ] ", "[1,-0.5e+3,true,null,{\"a\":[[]]}]", "{\"a\":{},\"b\":1}", "0", "1E5"]
    {
        assert_eq!(error(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn nesting_beyond_10000_levels_is_rejected() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(error(nested(10_000).as_bytes()), None);
    let too_deep = error(nested(10_001).as_bytes());
    assert_eq!(too_deep.as_deref(), Some("invalid character '[' exceeded max depth"));
}

#[test]
fn escape_sequences_are_decoded() {
    let cases: &[(&[u8], &str)] = &[
        (br#""plain""#, "plain"),
        (br#""a\tb\"\\\/""#, "a\tb\"\\/"),
        (br#""\u00e4\ud83d\ude00""#, "ä😀"),
        (br#""\ud800""#, "\u{fffd}"),
        (br#""\ud800\u0041""#, "\u{fffd}A"),
        (br#""\udc00""#, "\u{fffd}"),
        (b"\"\xff\"", "\u{fffd}"),
        ("\"\u{2028}ü\"".as_bytes(), "\u{2028}ü"),
    ];
    for (text, want) in cases {
        match Reader::new(text).value() {
            Ok(Token::String(found)) => assert_eq!(found, *want),
            other => panic!("{other:?}"),
        }
    }
}
