//! Commands with several objects: one answer after another.

use std::io::Write;

use super::error::{AskError, InsightError};
use super::look::Outcome;
use super::outcome::Ended;
use super::render::visible;
use crate::args::TextOrJson;

/// The streams of the command. Their errors are ignored: a reader that closed the pipe needs no more output.
pub(super) struct Streams<'a> {
    pub(super) out: &'a mut dyn Write,
    pub(super) err: &'a mut dyn Write,
}

impl Streams<'_> {
    /// Writes the answer about the object at `index`. A blank line separates texts; JSON documents follow each other.
    pub(super) fn answer(&mut self, index: usize, text: &str, output: TextOrJson) {
        if index > 0 && output == TextOrJson::Text && !text.is_empty() {
            let _ = self.out.write_all(b"\n");
        }
        let _ = self.out.write_all(text.as_bytes());
    }
}

/// Requests an answer about each object. Returns the worst outcome. If one object has no answer, the others still have one, as in
/// kubectl.
pub(super) async fn each<T>(
    objects: &[T],
    output: TextOrJson,
    mut streams: Streams<'_>,
    ask: impl AsyncFn(&T) -> Outcome,
) -> Result<Ended, InsightError> {
    let mut worst = Ended::Well;
    for (index, object) in objects.iter().enumerate() {
        let ended = match ask(object).await {
            Ok((text, ended)) => {
                streams.answer(index, &text, output);
                ended
            }
            // The caller reports it. A server that does not respond has no answer about the other objects, either.
            Err(error) if objects.len() == 1 || is_away(&error) => return Err(error),
            Err(error) => {
                let _ = writeln!(streams.err, "error: {}", visible(&error.to_string()));
                Ended::Failed
            }
        };
        worst = worst.max(ended);
    }
    Ok(worst)
}

fn is_away(error: &InsightError) -> bool {
    matches!(error, InsightError::Ask { cause: AskError::Away(_), .. })
}
