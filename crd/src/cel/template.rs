//! The templates of `format`: `'%s has %d items'`.
//!
//! Upstream: cel-go `ext/formatting.go`.

/// How a clause formats its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clause {
    Text,
    Decimal,
    Fixed(u32),
    Scientific(u32),
    Binary,
    Hex { is_upper: bool },
    Octal,
}

/// The number of decimals if the template says none.
const DECIMALS: u32 = 6;

impl Clause {
    /// The types of the arguments that the clause formats; those of `%s` include lists and maps of them.
    pub(super) fn accepts(self, ty: &str) -> bool {
        match self {
            Clause::Text => matches!(
                ty,
                "list"
                    | "map"
                    | "int"
                    | "uint"
                    | "double"
                    | "bool"
                    | "string"
                    | "bytes"
                    | "google.protobuf.Timestamp"
                    | "google.protobuf.Duration"
                    | "type"
                    | "null_type"
            ),
            Clause::Decimal | Clause::Octal => matches!(ty, "int" | "uint"),
            // Of strings only `NaN`, `Infinity` and `-Infinity`, which only the evaluation knows.
            Clause::Fixed(_) | Clause::Scientific(_) => matches!(ty, "double" | "string"),
            Clause::Binary => matches!(ty, "int" | "uint" | "bool"),
            Clause::Hex { .. } => matches!(ty, "int" | "uint" | "string" | "bytes"),
        }
    }

    /// The error about an argument of another type.
    pub(super) fn mismatch(self, ty: &str) -> String {
        let what = match self {
            Clause::Text => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
                 durations, and timestamps"
            }
            Clause::Decimal => "decimal clause can only be used on integers",
            Clause::Fixed(_) => "fixed-point clause can only be used on doubles",
            Clause::Scientific(_) => "scientific clause can only be used on doubles",
            Clause::Binary => "only integers and bools can be formatted as binary",
            Clause::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Clause::Octal => "octal clause can only be used on integers",
        };
        format!("{what}, was given {ty}")
    }
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    Literal(&'t str),
    /// The next argument.
    Argument(Result<Clause, String>),
    /// A percent sign at the end.
    Unfinished,
}

/// Returns the parts of a template.
pub(super) fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        if at > 0 {
            pieces.push(Piece::Literal(&rest[..at]));
        }
        let after = &rest[at + 1..];
        if after.is_empty() {
            pieces.push(Piece::Unfinished);
            return pieces;
        }
        if let Some(behind) = after.strip_prefix('%') {
            pieces.push(Piece::Literal("%"));
            rest = behind;
            continue;
        }
        match clause(after) {
            Ok((clause, length)) => {
                pieces.push(Piece::Argument(Ok(clause)));
                rest = &after[length..];
            }
            Err(why) => {
                pieces.push(Piece::Argument(Err(format!("could not parse formatting clause: {why}"))));
                return pieces;
            }
        }
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    pieces
}

/// Parses a clause behind its percent sign, and returns its length.
fn clause(text: &str) -> Result<(Clause, usize), String> {
    let mut decimals = None;
    let mut length = 0;
    if let Some(after) = text.strip_prefix('.') {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        length = 1 + digits;
        let failed = |why: String| Err(format!("error while parsing precision: {why}"));
        if length == text.len() {
            return failed("could not find end of precision specifier".to_owned());
        }
        let digits = &after[..digits];
        match digits.parse() {
            Ok(number) => decimals = Some(number),
            Err(_) => {
                let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
                let why = format!("strconv.Atoi: parsing \"{digits}\": {why}");
                return failed(format!("error while converting precision to integer: {why}"));
            }
        }
    }
    let Some(verb) = text[length..].chars().next() else {
        return Err("unrecognized formatting clause".to_owned());
    };
    let decimals = decimals.unwrap_or(DECIMALS);
    let clause = match verb {
        's' => Clause::Text,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(decimals),
        'e' => Clause::Scientific(decimals),
        'b' => Clause::Binary,
        'x' => Clause::Hex { is_upper: false },
        'X' => Clause::Hex { is_upper: true },
        'o' => Clause::Octal,
        other => return Err(format!("unrecognized formatting clause \"{other}\"")),
    };
    Ok((clause, length + 1))
}
