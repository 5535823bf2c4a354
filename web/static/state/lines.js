// Splits text that arrives in pieces into lines.

/** Returns a function that splits pieces of text into lines. An unfinished line is kept for the next piece. */
export function splitter() {
  let rest = '';
  return (piece) => {
    const parts = (rest + piece).split('\n');
    rest = parts.pop();
    return parts.filter(Boolean);
  };
}

// The longest uninterrupted work in milliseconds, so that the page can process user input in between.
const PIECE = 12;

/** Calls `line` for each line of a byte stream, including an unterminated last one. Long streams do not block the page. */
export async function eachLine(bytes, line) {
  const reader = bytes.pipeThrough(new TextDecoderStream()).getReader();
  const split = splitter();
  let begun = performance.now();
  const take = async (lines) => {
    for (const text of lines) {
      line(text);
      if (performance.now() - begun < PIECE) continue;
      await new Promise((resolve) => setTimeout(resolve));
      begun = performance.now();
    }
  };
  for (;;) {
    const { value, done } = await reader.read();
    await take(split(done ? '\n' : value));
    if (done) return;
  }
}
