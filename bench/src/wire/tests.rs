#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn head_determines_the_framing() {
    type Case<'a> = (&'a str, &'a str, Option<(u16, Framing, bool)>);
    let cases: [Case<'_>; 6] = [
        (
            "1 a length",
            "HTTP/1.1 201 Created\r\nContent-Length: 12\r\n\r\nxx",
            Some((201, Framing::Length(12), false)),
        ),
        (
            "2 chunks",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            Some((200, Framing::Chunked, false)),
        ),
        ("3 to the end", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", Some((200, Framing::ToEnd, true))),
        ("4 no body", "HTTP/1.1 204 No Content\r\n\r\n", Some((204, Framing::Length(0), false))),
        ("5 half of it", "HTTP/1.1 200 OK\r\nContent-Le", None),
        ("6 nothing yet", "", None),
    ];
    for (case, text, want) in cases {
        let got = head(text.as_bytes()).unwrap();
        assert_eq!(got.as_ref().map(|head| (head.status, head.framing, head.closes)), want, "{case}");
        if let Some(got) = got {
            assert_eq!(got.bytes, text.find("\r\n\r\n").unwrap() + 4, "{case}");
        }
    }
    assert!(head(b"SSH-2.0-OpenSSH\r\n\r\n").is_err());
    assert!(head(b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n").is_err());
}

/// Decodes a body in pieces of `size` bytes. Returns the body and whether it is complete.
fn body(wire: &[u8], size: usize) -> Result<(Vec<u8>, bool), WireError> {
    let mut chunks = Chunks::new();
    let mut body = Vec::new();
    for mut piece in wire.chunks(size) {
        while let Some(data) = chunks.next(&mut piece)? {
            body.extend_from_slice(data);
        }
    }
    Ok((body, chunks.done()))
}

#[test]
fn chunks_are_decoded_from_pieces_of_any_size() {
    let cases: [(&str, &str, &str, bool); 5] = [
        ("1 one chunk", "5\r\nhello\r\n0\r\n\r\n", "hello", true),
        ("2 two, with an extension", "5;a=b\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", "hello!", true),
        ("3 a trailer", "1\r\nx\r\n0\r\nexpires: never\r\n\r\n", "x", true),
        ("4 sixteen and more", "1A\r\nabcdefghijklmnopqrstuvwxyz\r\n", "abcdefghijklmnopqrstuvwxyz", false),
        ("5 line ends are data", "4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n", true),
    ];
    for (case, wire, want, done) in cases {
        for size in [1, 2, 3, 7, 1000] {
            let got = body(wire.as_bytes(), size).unwrap();
            assert_eq!(got, (want.as_bytes().to_vec(), done), "{case}, pieces of {size}");
        }
    }
    for broken in ["x\r\n", "1\r\nab\r\n", "fffffffffffffffff\r\n"] {
        assert_eq!(body(broken.as_bytes(), 1000), Err(WireError::Chunk), "{broken}");
    }
}

#[test]
fn lines_are_joined_from_pieces_of_any_size() {
    for size in [1, 2, 5, 100] {
        let mut lines = Lines::default();
        let mut got = Vec::new();
        for piece in b"one\n\ntwo three\nfour".chunks(size) {
            lines.feed(piece, |line| got.push(String::from_utf8_lossy(line).into_owned()));
        }
        assert_eq!(got, ["one", "", "two three"], "pieces of {size}");
    }
}
