const viewer = {
  dialog: byId("viewer"), body: byId("viewer-body"), index: -1, token: 0,

  async open(index) {
    const token = ++this.token;
    this.index = index;
    byId("viewer-title").textContent = [nameOf(rows[index]), wholeOf(rows[index])].filter(Boolean).join(" \u00b7 ");
    const record = await transcripts.of(index).catch((error) => error);
    if (token !== this.token) return;
    this.body.replaceChildren(...(record instanceof Error
      ? [make("p", { class: "trouble" }, `This trial cannot be read from the page: ${record.message}`)] : drawTrial(record)));
    this.dialog.classList.toggle("wide", Boolean(record.beside));
    this.body.scrollTop = 0;
    const at = table.found.indexOf(index);
    byId("viewer-previous").disabled = at <= 0;
    byId("viewer-next").disabled = at < 0 || at + 1 >= table.found.length;
    if (!this.dialog.open) {
      this.dialog.showModal();
      this.body.focus();
    }
    history.replaceState(null, "", `#trial=${encodeURIComponent(rows[index].k)}`);
  },
  step(by) {
    const next = table.found[table.found.indexOf(this.index) + by];
    if (next !== undefined && table.found.includes(this.index)) this.open(next);
  },
  closed() {
    this.token++;
    history.replaceState(null, "", "#trials");
    this.body.replaceChildren();
    table.reveal(this.index)?.focus();
  },
  // A link to a trial works when the page is opened with it.
  follow() {
    if (!location.hash.startsWith("#trial=")) return;
    let key = "";
    try { key = decodeURIComponent(location.hash.slice(7)); } catch { return; }
    const index = rows.findIndex((row) => row.k === key);
    if (index >= 0) this.open(index);
  },
  openTask(task) {
    const mine = rows.map((row, i) => i).filter((i) => rows[i].k.replace(/#\d+(@[\w.-]+)?$/, "$1") === task);
    const worst = mine.sort((a, b) => table.rank[rows[a].s] - table.rank[rows[b].s])[0];
    if (worst !== undefined) this.open(worst);
  },
  start() {
    this.dialog.addEventListener("close", () => this.closed());
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.dialog.close(); });
    byId("viewer-close").addEventListener("click", () => this.dialog.close());
    byId("viewer-previous").addEventListener("click", () => this.step(-1));
    byId("viewer-next").addEventListener("click", () => this.step(1));
    document.addEventListener("click", (event) => {
      const button = event.target.closest?.(".open, .open-task");
      if (button?.dataset.index) this.open(Number(button.dataset.index));
      else if (button?.dataset.task) this.openTask(button.dataset.task);
    });
    addEventListener("hashchange", () => this.follow());
    this.follow();
  },
};
if (table.body) viewer.start();
