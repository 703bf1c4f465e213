// Rows are read at once; transcripts are in compressed chunks, each of which is opened when one of its trials is.
const { rows, chunks, states } = JSON.parse(byId("data").textContent);

// The name that people use, and the whole key where that says more than the name's place.
const nameOf = (row) => row.h || row.k;
const wholeOf = (row) => (row.k.endsWith(nameOf(row)) ? "" : row.k);
// A long one is broken after its separators first.
const breakable = (name) => name.split(/(?<=[_/])/).flatMap((part) => [part, make("wbr")]);

const transcripts = {
  opened: new Map(),
  texts: null,
  places: chunks.flatMap((count, chunk) => Array.from({ length: count }, (_, at) => [chunk, at])),
  chunk(index) {
    if (!this.opened.has(index)) {
      // Few are kept: a thousand trials unpacked at once is what a phone does not have room for.
      if (this.opened.size > 12) this.opened.delete(this.opened.keys().next().value);
      const text = unpacked(index);
      this.opened.set(index, text);
      // What could not be read may be there the next time.
      text.catch(() => this.opened.delete(index));
    }
    return this.opened.get(index);
  },
  async of(index) {
    const [chunk, at] = this.places[index];
    return JSON.parse(await this.chunk(chunk))[at];
  },
  // All words of every trial, for the search; read once, chunk by chunk, so that the page stays alive.
  async words(progress) {
    if (this.texts) return this.texts;
    const texts = [];
    for (let index = 0; index < chunks.length; index += 1) {
      for (const record of JSON.parse(await unpacked(index))) texts.push(wordsOf(record));
      progress((index + 1) / chunks.length);
      await new Promise((resume) => setTimeout(resume));
    }
    this.texts = texts;
    return texts;
  },
};

async function unpacked(index) {
  const packed = Uint8Array.from(atob(byId(`chunk-${index}`).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

function wordsOf(record) {
  const words = [record.error];
  for (const turn of record.turns) {
    words.push(turn.text, turn.tool);
    for (const call of turn.calls || []) words.push(call.name, call.arguments);
  }
  for (const check of (record.reward || { checks: [] }).checks) words.push(check.text, check.detail);
  for (const request of record.wire) words.push(request.error);
  return words.filter(Boolean).join("\n").toLowerCase();
}
