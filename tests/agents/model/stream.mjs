// The pieces of a text as a model would stream them.

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The text in a few pieces; with `slow` ({chunks, ms}) that many pieces, each after that many milliseconds. */
export async function* pieces(text, slow) {
  const chunks = slow ? slow.chunks : 3;
  const size = Math.max(1, Math.ceil(text.length / chunks));
  for (let index = 0; index < chunks; ++index) {
    if (slow) await wait(slow.ms);
    const piece = text.slice(index * size, (index + 1) * size);
    if (piece !== '') yield piece;
    else if (slow) yield '.';
  }
}
