// Rows are read at once; transcripts are in compressed chunks, each of which is opened when one of its trials is. They
// are in this page, or in files beside it.
const { rows, chunks, files, states } = JSON.parse(byId("data").textContent);

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
    // Several at once: each file beside this page takes the time of a page.
    for (let index = 0; index < chunks.length; index += 8) {
      const read = chunks.slice(index, index + 8).map((count, at) => unpacked(index + at));
      for (const text of await Promise.all(read)) for (const record of JSON.parse(text)) texts.push(wordsOf(record));
      progress(Math.min(1, (index + 8) / chunks.length));
      await new Promise((resume) => setTimeout(resume));
    }
    this.texts = texts;
    return texts;
  },
};

// A file beside this page is read in a frame, which may do nothing but tell what it holds.
function readBeside(name) {
  return new Promise((resolve, reject) => {
    const frame = make("iframe", { src: name, sandbox: "allow-scripts", hidden: true, title: "transcripts" });
    const heard = (event) => {
      if (event.source === frame.contentWindow) end(() => resolve(String(event.data)));
    };
    const end = (tell) => {
      removeEventListener("message", heard);
      frame.remove();
      tell();
    };
    addEventListener("message", heard);
    // A browser shows its own page in place of a file that is not there; an earlier answer may still be on its way.
    frame.addEventListener("load", () => setTimeout(() => end(() => reject(new Error(`${name} is not beside this page, or is damaged`))), 3000));
    document.body.append(frame);
  });
}

async function unpacked(index) {
  const text = files.length ? await readBeside(files[index]) : byId(`chunk-${index}`).textContent;
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
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
