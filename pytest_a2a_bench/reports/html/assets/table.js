const PAGE = 50;
const table = {
  wanted: new Set(), domain: "", category: "", text: "", deep: null,
  sort: "", down: false, page: 0, found: [], size: PAGE,
  body: document.querySelector("#trials-table tbody"),
  titles: [...document.querySelectorAll("#trials-table thead th")],
  rank: Object.fromEntries(Object.keys(states).map((name, i) => [name, i])),
  plain: rows.map((row) => `${row.k} ${row.h || ""} ${row.d} ${row.c} ${row.w} ${row.x} ${states[row.s]}`.toLowerCase()),
  collator: new Intl.Collator("en", { numeric: true }),

  select() {
    const words = this.text.toLowerCase().split(/\s+/).filter(Boolean);
    this.found = [];
    rows.forEach((row, i) => {
      if (this.wanted.size && !this.wanted.has(row.s)) return;
      if (this.domain && row.d !== this.domain) return;
      if (this.category && row.c !== this.category) return;
      if (words.every((word) => this.plain[i].includes(word) || (this.deep && this.deep[i].includes(word)))) this.found.push(i);
    });
    if (this.sort) this.order();
  },
  order() {
    const sign = this.down ? -1 : 1;
    const value = (i) => (this.sort === "s" ? this.rank[rows[i].s] : rows[i][this.sort]);
    this.found.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null) || a - b;
      return sign * (typeof x === "string" ? this.collator.compare(x, y) : x - y) || a - b;
    });
  },
  refresh() {
    this.page = 0;
    this.select();
    this.draw();
  },
  draw() {
    const first = this.page * this.size;
    const shown = this.found.slice(first, first + this.size);
    this.body.replaceChildren(...shown.map((i) => this.row(i)));
    const all = this.found.length === rows.length ? "" : ` of ${rows.length.toLocaleString("en")}`;
    byId("count").textContent = this.found.length
      ? `${this.found.length.toLocaleString("en")}${all} trials` : "No trial is like that.";
    this.drawPages();
  },
  row(i) {
    const row = rows[i];
    const cells = {
      s: () => make("td", {}, make("span", { class: `state ${row.s}` }, states[row.s])),
      k: () => make("td", { class: "key" }, make("button", { type: "button", class: "link open", "data-index": i, "aria-haspopup": "dialog" }, ...breakable(nameOf(row))), wholeOf(row) ? make("small", { title: row.k }, row.k) : ""),
      r: () => make("td", { class: "num" }, show.reward(row.r)),
      w: () => make("td", { class: "why wide", title: row.w }, row.w),
      n: () => make("td", { class: "num wide" }, String(row.n)),
      t: () => make("td", { class: "num wide narrow" }, show.seconds(row.t)),
      p: () => make("td", { class: "num wide narrow" }, show.seconds(row.p)),
      u: () => make("td", { class: "num wide" }, (row.e ? "~" : "") + show.dollars(row.u)),
    };
    return make("tr", {}, this.titles.map((title) => cells[title.dataset.column]()));
  },
  drawPages() {
    const pages = Math.max(1, Math.ceil(this.found.length / this.size));
    const to = (page) => () => this.turn(page - this.page);
    byId("pages").replaceChildren(...(pages < 2 ? [] : [
      make("button", { type: "button", onclick: to(this.page - 1), disabled: this.page === 0 }, "Previous page"),
      make("span", {}, `Page ${this.page + 1} of ${pages}`),
      make("button", { type: "button", onclick: to(this.page + 1), disabled: this.page + 1 >= pages }, "Next page"),
    ]));
  },
  turn(by) {
    const pages = Math.ceil(this.found.length / this.size);
    const page = Math.min(Math.max(0, this.page + by), Math.max(0, pages - 1));
    if (page === this.page) return;
    this.page = page;
    this.draw();
    byId("trials-table").scrollIntoView({ block: "start" });
  },
  sortBy(name) {
    this.down = this.sort === name ? !this.down : name !== "k" && name !== "s" && name !== "w";
    this.sort = name;
    for (const title of this.titles) {
      const here = title.dataset.column === name;
      title.setAttribute("aria-sort", here ? (this.down ? "descending" : "ascending") : "none");
    }
    this.refresh();
  },
  // Bring the page with a trial on and return its button.
  reveal(index) {
    const at = this.found.indexOf(index);
    if (at >= 0 && Math.floor(at / this.size) !== this.page) {
      this.page = Math.floor(at / this.size);
      this.draw();
    }
    return this.body.querySelector(`[data-index="${index}"]`);
  },
  async searchDeep(on) {
    if (!on) this.deep = null;
    else {
      const status = byId("count");
      const progress = (part) => { status.textContent = `Reading transcripts: ${Math.round(part * 100)} %`; };
      try {
        this.deep = await transcripts.words(progress);
      } catch (error) {
        byId("deep").checked = false;
        status.textContent = `Transcripts cannot be searched: ${error.message}`;
        return;
      }
    }
    this.refresh();
  },
  start() {
    for (const chip of document.querySelectorAll(".chip")) {
      chip.addEventListener("click", () => {
        const on = chip.getAttribute("aria-pressed") !== "true";
        chip.setAttribute("aria-pressed", String(on));
        this.wanted[on ? "add" : "delete"](chip.dataset.state);
        this.refresh();
      });
    }
    for (const id of ["domain", "category"]) {
      byId(id)?.addEventListener("change", (event) => { this[id] = event.target.value; this.refresh(); });
    }
    byId("search").addEventListener("input", (event) => { this.text = event.target.value; this.refresh(); });
    byId("deep").addEventListener("change", (event) => this.searchDeep(event.target.checked));
    for (const title of this.titles) {
      title.firstElementChild.addEventListener("click", () => this.sortBy(title.dataset.column));
    }
    addEventListener("beforeprint", () => { this.size = rows.length; this.page = 0; this.draw(); });
    addEventListener("afterprint", () => { this.size = PAGE; this.draw(); });
    this.refresh();
  },
};
if (table.body) table.start();
