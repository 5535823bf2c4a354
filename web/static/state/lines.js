// Text that comes in pieces, as lines.

/** Lines of pieces of text: what is not ended is kept for the next piece. */
export function splitter() {
  let rest = '';
  return (piece) => {
    const parts = (rest + piece).split('\n');
    rest = parts.pop();
    return parts.filter(Boolean);
  };
}

// A piece of work between two looks at what the person does.
const PIECE = 12;

/** Gives each line of a stream of bytes, the last one even when it is not ended; long ones do not stop the page. */
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
