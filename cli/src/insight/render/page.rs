//! Lines of text within 80 columns. Words wrap below their indentation. A word that is longer than a line stays
//! whole, and so does a command in backticks, so that names and commands can be copied.

use super::characters::{visible, width, width_of};
use super::look::Style;

/// The number of columns of a line.
pub(super) const COLUMNS: usize = 80;

/// Prefixes of commands within a sentence. Other text in backticks may come from any source and have any length.
const PROGRAMS: [&str; 2] = ["kubectl ", "orlop "];

/// The role of a text, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Head,
    Quiet,
    Good,
    Bad,
    Warn,
    Name,
}

impl Paint {
    /// The SGR attribute of the terminal (ECMA-48).
    fn code(self) -> Option<&'static str> {
        match self {
            Paint::Plain => None,
            Paint::Head => Some("1"),
            Paint::Quiet => Some("2"),
            Paint::Good => Some("32"),
            Paint::Bad => Some("31"),
            Paint::Warn => Some("33"),
            Paint::Name => Some("36"),
        }
    }
}

/// A part of a line.
pub(super) type Piece<'a> = (Paint, &'a str);

/// Text that is built line by line.
pub(super) struct Page {
    look: Style,
    out: String,
}

impl Page {
    pub(super) fn new(look: Style) -> Self {
        Page { look, out: String::new() }
    }

    pub(super) fn look(&self) -> Style {
        self.look
    }

    pub(super) fn text(self) -> String {
        self.out
    }

    /// Adds an empty line between parts.
    pub(super) fn gap(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    /// Adds the pieces as one wrapped text: the first line is indented by `indent`, the others by `hang`. Without
    /// words, no line is added.
    pub(super) fn wrapped(&mut self, indent: usize, hang: usize, pieces: &[Piece<'_>]) {
        let words = words(pieces);
        if words.is_empty() {
            return;
        }
        let mut column = indent;
        self.out.push_str(&" ".repeat(indent));
        let mut line: Vec<(Paint, char)> = Vec::new();
        for (spaces, word) in words {
            let wide: usize = word.iter().map(|(_, c)| width(*c)).sum();
            if !line.is_empty() && column + spaces + wide > COLUMNS {
                self.paint(&line);
                line.clear();
                self.out.push('\n');
                self.out.push_str(&" ".repeat(hang));
                column = hang;
            } else {
                // Spaces within coloured text have its colour: this needs fewer codes, and the text can be searched for.
                let before = line.last().map(|(paint, _)| *paint);
                let paint = word.first().map(|(paint, _)| *paint).filter(|paint| Some(*paint) == before);
                line.extend(std::iter::repeat_n((paint.unwrap_or(Paint::Plain), ' '), spaces));
                column += spaces;
            }
            line.extend(word);
            column += wide;
        }
        self.paint(&line);
        self.out.push('\n');
    }

    /// Adds the pieces wrapped, with all lines indented alike.
    pub(super) fn line(&mut self, indent: usize, pieces: &[Piece<'_>]) {
        self.wrapped(indent, indent, pieces);
    }

    /// Adds a line without wrapping, for text to copy and for tables.
    pub(super) fn whole(&mut self, indent: usize, pieces: &[Piece<'_>]) {
        self.out.push_str(&" ".repeat(indent));
        let painted: Vec<(Paint, char)> = characters(pieces).collect();
        self.paint(&painted);
        while self.out.ends_with(' ') {
            self.out.pop();
        }
        self.out.push('\n');
    }

    fn paint(&mut self, text: &[(Paint, char)]) {
        for run in text.chunk_by(|a, b| a.0 == b.0) {
            let code = run.first().and_then(|(paint, _)| paint.code()).filter(|_| self.look.colour);
            let text = run.iter().map(|(_, c)| *c);
            match code {
                Some(code) => {
                    self.out.push_str(&format!("\x1b[{code}m"));
                    self.out.extend(text);
                    self.out.push_str("\x1b[0m");
                }
                None => self.out.extend(text),
            }
        }
    }
}

/// Every character with its colour, with terminal controls escaped.
fn characters(pieces: &[Piece<'_>]) -> impl Iterator<Item = (Paint, char)> {
    let shown = pieces.iter().map(|(paint, text)| (*paint, visible(text)));
    shown.flat_map(|(paint, text)| text.chars().map(move |c| (paint, c)).collect::<Vec<_>>())
}

/// The length of the command that begins here, after a backtick.
fn command(text: &[(Paint, char)]) -> Option<usize> {
    let end = text.iter().position(|(_, c)| *c == '`')?;
    let begins =
        PROGRAMS.iter().any(|program| program.chars().eq(text.iter().map(|(_, c)| *c).take(program.len())));
    begins.then_some(end)
}

/// The words, each with the number of spaces before it: two texts that differ only in spaces must not look alike.
/// A command in backticks is one word.
fn words(pieces: &[Piece<'_>]) -> Vec<(usize, Vec<(Paint, char)>)> {
    let mut words: Vec<(usize, Vec<(Paint, char)>)> = Vec::new();
    let mut spaces = 0;
    let all: Vec<(Paint, char)> = characters(pieces).collect();
    let mut whole_until = 0;
    for (at, (paint, c)) in all.iter().copied().enumerate() {
        if c == '`' && at >= whole_until {
            whole_until = at + command(&all[at + 1..]).map_or(0, |long| long + 2);
        }
        if c == ' ' && at >= whole_until {
            spaces += 1;
            continue;
        }
        match words.last_mut() {
            Some((_, word)) if spaces == 0 => word.push((paint, c)),
            Some(_) | None => words.push((spaces, vec![(paint, c)])),
        }
        spaces = 0;
    }
    words
}

/// Whether a text fits in a line after an indentation.
pub(super) fn fits(indent: usize, text: &str) -> bool {
    indent + width_of(text) <= COLUMNS
}

/// Pads a text with spaces.
pub(super) fn padded(text: &str, wide: usize) -> String {
    let text = visible(text);
    let missing = wide.saturating_sub(width_of(&text));
    text + &" ".repeat(missing)
}
