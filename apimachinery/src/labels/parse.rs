//! Parser for label selectors. The error texts are upstream's (apimachinery `pkg/labels`).

use super::requirement::{self, Operator, Requirement};

/// A token of a selector. The text of a keyword may also be a key or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    End,
    Word(&'a str),
    /// One of `( ) , ! = == != < >`.
    Symbol(&'a str),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::End => "",
            Token::Word(text) | Token::Symbol(text) => text,
        }
    }
}

fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_symbol(b: u8) -> bool {
    matches!(b, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

/// The tokens of a selector; as upstream, a NUL byte ends the input.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Tokens { rest: text.split('\0').next().unwrap_or_default() }
    }

    fn peek(&self) -> Token<'a> {
        Tokens { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'a> {
        let rest = self.rest.trim_start_matches(|c: char| c.is_ascii() && is_blank(c as u8));
        let Some(first) = rest.bytes().next() else {
            self.rest = rest;
            return Token::End;
        };
        let len = if !is_symbol(first) {
            rest.bytes().take_while(|b| !is_symbol(*b) && !is_blank(*b)).count()
        } else if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else {
            1
        };
        let (text, rest) = rest.split_at(len);
        self.rest = rest;
        if is_symbol(first) { Token::Symbol(text) } else { Token::Word(text) }
    }
}

/// Parses the requirements of a selector, in the order written.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    let mut tokens = Tokens::new(text);
    let mut requirements = Vec::new();
    loop {
        match tokens.peek() {
            Token::End => return Ok(requirements),
            Token::Word(_) | Token::Symbol("!") => {}
            Token::Symbol(other) => {
                return Err(format!("found '{other}', expected: !, identifier, or 'end of string'"));
            }
        }
        let one =
            requirement(&mut tokens).map_err(|error| format!("unable to parse requirement: {error}"))?;
        requirements.push(one);
        match tokens.next() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => {}
            Token::Word(other) | Token::Symbol(other) => {
                return Err(format!("found '{other}', expected: ',' or 'end of string'"));
            }
        }
        match tokens.peek() {
            Token::Word(_) | Token::Symbol("!") => {}
            other @ (Token::End | Token::Symbol(_)) => {
                return Err(format!("found '{}', expected: identifier after ','", other.text()));
            }
        }
    }
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, String> {
    let negated = tokens.peek() == Token::Symbol("!");
    if negated {
        tokens.next();
    }
    let key = word(tokens)?;
    requirement::check_key("<nil>", key)?;
    if negated {
        return Requirement::new(key, Operator::DoesNotExist, Vec::new());
    }
    if matches!(tokens.peek(), Token::End | Token::Symbol(",")) {
        return Requirement::new(key, Operator::Exists, Vec::new());
    }
    let operator = match tokens.next().text() {
        "in" => Operator::In,
        "notin" => Operator::NotIn,
        "=" => Operator::Equals,
        "==" => Operator::DoubleEquals,
        "!=" => Operator::NotEquals,
        ">" => Operator::GreaterThan,
        "<" => Operator::LessThan,
        other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
    };
    let values = match operator {
        Operator::In | Operator::NotIn => values(tokens)?,
        // An empty value may be omitted.
        _ if matches!(tokens.peek(), Token::End | Token::Symbol(",")) => vec![String::new()],
        _ => vec![word(tokens)?.to_owned()],
    };
    Requirement::new(key, operator, values)
}

fn word<'a>(tokens: &mut Tokens<'a>) -> Result<&'a str, String> {
    match tokens.next() {
        Token::Word(word) => Ok(word),
        other @ (Token::End | Token::Symbol(_)) => {
            Err(format!("found '{}', expected: identifier", other.text()))
        }
    }
}

/// Parses `(a,b)`. Values may be empty: `()`, `(,)` and `(a,)` include the empty value.
fn values(tokens: &mut Tokens<'_>) -> Result<Vec<String>, String> {
    match tokens.next() {
        Token::Symbol("(") => {}
        other @ (Token::End | Token::Word(_) | Token::Symbol(_)) => {
            return Err(format!("found '{}' expected: '('", other.text()));
        }
    }
    match tokens.peek() {
        Token::Word(_) | Token::Symbol("," | ")") => {}
        other @ (Token::End | Token::Symbol(_)) => {
            return Err(format!("found '{}', expected: ',', ')' or identifier", other.text()));
        }
    }
    let mut values = Vec::new();
    // Whether a value may follow: after the bracket and after a comma.
    let mut open = true;
    loop {
        match tokens.next() {
            Token::Word(word) if open => {
                values.push(word.to_owned());
                open = false;
                match tokens.peek() {
                    Token::Symbol("," | ")") => {}
                    other @ (Token::End | Token::Word(_) | Token::Symbol(_)) => {
                        return Err(format!("found '{}', expected: ',' or ')'", other.text()));
                    }
                }
            }
            Token::Symbol(",") => {
                if open {
                    values.push(String::new());
                }
                open = true;
            }
            Token::Symbol(")") => {
                if open {
                    values.push(String::new());
                }
                return Ok(values);
            }
            other @ (Token::End | Token::Word(_) | Token::Symbol(_)) => {
                return Err(format!("found '{}', expected: ',', or identifier", other.text()));
            }
        }
    }
}
