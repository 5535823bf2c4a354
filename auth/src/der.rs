//! The encoding of certificates and keys (DER, X.690): enough to read and write a few known structures.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const NULL: u8 = 0x05;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// The rest of the input.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next value, which must have this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, value) = self.next()?;
        (found == tag).then_some(value)
    }

    /// The next tag and its value.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let [tag, first, rest @ ..] = self.0 else { return None };
        let (length, rest) = match *first {
            short @ 0..=0x7f => (usize::from(short), rest),
            // DER has no indefinite length; four bytes are more than a certificate has.
            long @ 0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, value))
    }

    /// The next positive integer, without leading zeros.
    pub(crate) fn positive_integer(&mut self) -> Option<&'a [u8]> {
        let bytes = self.expect(INTEGER)?;
        let is_negative = bytes.first()? & 0x80 != 0;
        let bytes = without_leading_zeros(bytes);
        (!is_negative && !bytes.is_empty()).then_some(bytes)
    }

    /// The bytes of the next bit string, which must have no unused bits.
    pub(crate) fn whole_bit_string(&mut self) -> Option<&'a [u8]> {
        self.expect(BIT_STRING)?.strip_prefix(&[0])
    }
}

/// A value with its tag and length.
pub(crate) fn encode(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    match length {
        0..0x80 => out.push(length as u8),
        0x80..0x100 => out.extend([0x81, length as u8]),
        // Keys are shorter than 64 KiB.
        _ => out.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// A positive integer.
pub(crate) fn encode_integer(bytes: &[u8]) -> Vec<u8> {
    let bytes = without_leading_zeros(bytes);
    match bytes.first() {
        Some(first) if first & 0x80 == 0 => encode(INTEGER, &[bytes]),
        Some(_) | None => encode(INTEGER, &[&[0], bytes]),
    }
}

/// A big-endian number without leading zeros.
pub(crate) fn without_leading_zeros(mut bytes: &[u8]) -> &[u8] {
    while let [0, rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_values_are_read_again() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0x1234] {
            let value = vec![7; length];
            let encoded = encode(OCTET_STRING, &[&value]);
            let mut reader = Reader(&encoded);
            assert_eq!(reader.expect(OCTET_STRING), Some(&*value), "{length}");
            assert!(reader.0.is_empty(), "{length}");
        }
        for (number, want) in [(&[1][..], &[1][..]), (&[0, 0, 0x80], &[0x80]), (&[0x7f, 1], &[0x7f, 1])] {
            assert_eq!(Reader(&encode_integer(number)).positive_integer(), Some(want), "{number:?}");
        }
        assert_eq!(Reader(&[INTEGER, 1, 0x80]).positive_integer(), None, "negative");
        assert_eq!(Reader(&[INTEGER, 1, 0]).positive_integer(), None, "zero");
        assert_eq!(Reader(&[INTEGER, 0]).positive_integer(), None, "empty");
    }
}
