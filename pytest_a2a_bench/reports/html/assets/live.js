// A run while it goes on: told by the server once a second, and asked for the one conversation that is looked at.
const WAITS = { begins: "begins", agent: "waits for the agent", tools: "waits for its tools", user: "waits for the user" };

// Whole seconds: they change every second.
const lasted = (value) => show.seconds(Math.max(1, Math.round(value)));

const tabs = {
  all: [...document.querySelectorAll("[role=tab]")],
  choose(name, byHand) {
    if (byHand) this.byHand = true;
    for (const tab of this.all) {
      const on = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      byId(tab.getAttribute("aria-controls")).hidden = !on;
    }
  },
  start() {
    document.querySelector(".tabs").hidden = false;
    for (const tab of this.all) {
      tab.addEventListener("click", () => this.choose(tab.id.slice(4), true));
      tab.addEventListener("keydown", (event) => {
        if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
        event.preventDefault();
        const other = this.all.find((each) => each !== tab);
        other.focus();
        this.choose(other.id.slice(4), true);
      });
    }
  },
};

const report = {
  frame: byId("report"), shown: Number(document.body.dataset.done), more: byId("more"),
  refresh(trial) {
    this.shown = Number(document.body.dataset.done);
    this.frame.src = `report?${this.shown}-${Date.now()}${trial ? `#trial=${encodeURIComponent(trial)}` : ""}`;
    this.offer();
  },
  offer() {
    const more = Number(document.body.dataset.done) - this.shown;
    this.more.hidden = more === 0;
    this.more.textContent = `Show ${more} more`;
  },
  // Whoever reads is not disturbed; who has nothing yet, or another run's, is.
  take(told) {
    const more = told.done - this.shown;
    if (!told.running || (more && (this.shown === 0 || more < 0))) this.refresh();
    this.offer();
  },
};

const talk = {
  id: null, key: "", pinned: false, drawn: 0, asking: false, ended: false,
  choose(held, byHand) {
    if (byHand) this.pinned = true;
    if (this.id === held.id) return;
    Object.assign(this, { id: held.id, key: held.key, drawn: 0, ended: false });
    byId("talk-title").textContent = held.key;
    byId("talk").replaceChildren();
    byId("briefing").replaceChildren();
    this.grow();
  },
  take(now) {
    let mine = now.find((held) => held.id === this.id);
    if (this.id && !mine && !this.ended) this.end();
    // The oldest is shown until somebody chooses; what was chosen stays when it has ended.
    if (!mine && !this.pinned && now.length) this.choose(mine = now[0]);
    if (!mine) return;
    byId("talk-state").textContent = `${show.count(mine.messages, "message")}, ${lasted(mine.seconds)}; ${WAITS[mine.waits]}`;
    if (mine.messages > this.drawn) this.grow();
  },
  end() {
    this.ended = true;
    const key = this.key;
    byId("talk-state").replaceChildren("It has ended. ", make("button", { type: "button", class: "link", onclick: () => {
      report.refresh(key);
      tabs.choose("report", true);
    } }, "What came of it"));
  },
  async grow() {
    if (this.asking) return;
    this.asking = true;
    const id = this.id;
    try {
      const answer = await fetch(`talk?id=${encodeURIComponent(id)}&from=${this.drawn}`);
      const told = answer.ok ? await answer.json() : null;
      if (told && id === this.id) this.draw(told);
    } catch { /* the next look tries again */ } finally { this.asking = false; }
    if (id !== this.id) this.grow();
  },
  draw(told) {
    const place = byId("conversation");
    const atEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 80;
    if (!byId("briefing").childElementCount) byId("briefing").replaceChildren(...this.briefing(told));
    byId("talk").append(...told.turns.map(drawTurn));
    this.drawn += told.turns.length;
    if (atEnd) place.scrollTop = place.scrollHeight;
  },
  briefing(told) {
    const box = (name, text) => text && make("details", { class: "box" }, make("summary", {}, name), make("pre", { tabindex: 0 }, text));
    return [box("Policy", told.policy), told.tools.length && box(show.count(told.tools.length, "tool"), told.tools.join("\n"))].filter(Boolean);
  },
};

const live = {
  take(told) {
    document.body.dataset.done = told.done;
    byId("line").textContent = told.line;
    byId("bar").max = Math.max(1, told.total);
    byId("bar").value = told.done;
    if (this.done !== told.done) byId("told").textContent = `${told.done} of ${told.total} trials have finished`;
    this.done = told.done;
    byId("tab-now").textContent = told.now.length ? `Now (${told.now.length})` : "Now";
    this.list("last", told.last);
    this.list("floors", told.floors);
    this.list("why", told.why);
    talk.take(told.now);
    this.held(told.now);
    report.take(told);
    // Of a run that shows no conversations (without --a2a-live) there is only the report to see.
    this.grows = told.running && (this.grows || told.now.length > 0);
    if (!tabs.byHand) tabs.choose(this.grows ? "now" : "report");
  },
  list(id, texts) {
    const shown = [...byId(id).children].map((item) => item.textContent);
    // What somebody marks or reads stays where it is.
    if (shown.join("\n") !== texts.join("\n")) byId(id).replaceChildren(...texts.map((text) => make("li", {}, text)));
  },
  // What stays is not touched, so that the focus stays; what is new began last.
  held(now) {
    const list = byId("held");
    const there = new Map();
    for (const item of [...list.children]) {
      if (now.some((held) => held.id === item.dataset.id)) there.set(item.dataset.id, item);
      else item.remove();
    }
    for (const held of now) {
      const item = there.get(held.id) || this.row(held);
      if (!item.isConnected) list.append(item);
      item.querySelector("span").textContent = `${show.count(held.messages, "message")}, ${lasted(held.seconds)}; ${WAITS[held.waits]}${held.since < 1 ? "" : ` for ${lasted(held.since)}`}`;
      item.firstChild.setAttribute("aria-pressed", String(held.id === talk.id));
    }
  },
  row(held) {
    const button = make("button", { type: "button" }, make("b", {}, held.key), make("span"));
    button.addEventListener("click", () => {
      talk.choose(held, true);
      for (const other of byId("held").querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
    });
    const item = make("li", {}, button);
    item.dataset.id = held.id;
    return item;
  },
  follow() {
    const source = new EventSource("events");
    source.onmessage = (event) => {
      const told = JSON.parse(event.data);
      this.take(told);
      this.over = !told.running;
      // Whoever leaves the page open sees the next run, too.
      if (this.over) { source.close(); setTimeout(() => this.again(told), 5000); }
    };
    source.onerror = () => {
      source.close();
      if (!this.over) byId("line").textContent += " (no connection any more)";
    };
  },
  // A report that is read is not loaded again and again.
  again(before) {
    const source = new EventSource("events");
    source.onmessage = (event) => {
      source.close();
      const told = JSON.parse(event.data);
      if (told.running || told.done !== before.done || told.total !== before.total) { this.take(told); this.follow(); } else setTimeout(() => this.again(before), 5000);
    };
    source.onerror = () => source.close();
  },
};
tabs.start();
report.more.addEventListener("click", () => report.refresh());
live.follow();
