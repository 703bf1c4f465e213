// A run while it goes on: the server is polled for its state and for the one conversation that is shown.
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
  frame: byId("report"), shown: null, done: 0, running: null, more: byId("more"),
  refresh(trial) {
    this.shown = this.done;
    this.frame.src = `report?page=${live.page}&at=${Date.now()}${trial ? `#trial=${encodeURIComponent(trial)}` : ""}`;
    this.offer();
  },
  offer() {
    this.more.hidden = this.done === this.shown;
    this.more.textContent = `Show ${this.done - this.shown} more`;
  },
  // A report that is being read stays, but for an empty one, another run's, and at the end of the run.
  take(state) {
    this.done = state.done;
    const ended = this.running && !state.running;
    const other = state.done < this.shown || (this.shown === 0 && state.done > 0) || (!state.running && state.done !== this.shown);
    this.running = state.running;
    if (this.shown === null || ended || other) this.refresh();
    this.offer();
  },
};

const talk = {
  id: null, key: "", pinned: false, drawn: 0, ended: false,
  choose(held, byHand) {
    if (byHand) this.pinned = true;
    if (this.id === held.id) return;
    Object.assign(this, { id: held.id, key: held.key, drawn: 0, ended: false });
    byId("talk-title").textContent = held.key;
    byId("talk").replaceChildren();
    byId("briefing").replaceChildren();
    live.poll(false).catch(() => { /* the next poll tries again */ });
  },
  take(now) {
    let mine = now.find((held) => held.id === this.id);
    if (this.id && !mine && !this.ended) this.end();
    // The oldest is shown until somebody chooses; what was chosen stays when it has ended.
    if (!mine && !this.pinned && now.length) this.choose(mine = now[0]);
    if (!mine) return;
    byId("talk-state").textContent = `${show.count(mine.messages, "message")}, ${lasted(mine.seconds)}; ${WAITS[mine.waits]}`;
  },
  end() {
    this.ended = true;
    const key = this.key;
    byId("talk-state").replaceChildren("It has ended. ", make("button", { type: "button", class: "link", onclick: () => {
      report.refresh(key);
      tabs.choose("report", true);
    } }, "What came of it"));
  },
  // Two polls may bring the same messages: those that are drawn already are passed over.
  draw(told, begin) {
    if (begin > this.drawn) return;
    const turns = told.turns.slice(this.drawn - begin);
    const place = byId("conversation");
    const atEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 80;
    if (begin === 0 && !byId("briefing").childElementCount) byId("briefing").replaceChildren(...this.briefing(told));
    byId("talk").append(...turns.map(drawTurn));
    this.drawn += turns.length;
    if (atEnd) place.scrollTop = place.scrollHeight;
  },
  briefing(told) {
    const box = (name, text) => text && make("details", { class: "box" }, make("summary", {}, name), make("pre", { tabindex: 0 }, text));
    return [box("Policy", told.policy), told.tools.length && box(show.count(told.tools.length, "tool"), told.tools.join("\n"))].filter(Boolean);
  },
};

const live = {
  page: Math.random().toString(36).slice(2),
  take(state) {
    document.title = `${state.name || "a run"} - a2a-bench show --browser`;
    byId("name").textContent = state.name || "a run";
    byId("line").textContent = state.line;
    byId("bar").max = Math.max(1, state.total);
    byId("bar").value = state.done;
    if (this.done !== state.done) byId("told").textContent = `${state.done} of ${state.total} trials have finished`;
    this.done = state.done;
    byId("tab-now").textContent = state.now.length ? `Now (${state.now.length})` : "Now";
    this.list("last", state.last);
    this.list("floors", state.floors);
    this.list("why", state.why);
    talk.take(state.now);
    this.held(state.now);
    report.take(state);
    // Of a run that shows no conversations (without --a2a-live) there is only the report to see.
    this.grows = state.running && (this.grows || state.now.length > 0);
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
  // The server keeps the answer back for a second where it is asked to wait: no timer is needed while the run goes on.
  async poll(wait) {
    const { id, drawn } = talk;
    const answer = await fetch(`status?page=${this.page}&talk=${encodeURIComponent(id || "")}&from=${drawn}${wait ? "&wait=1" : ""}`);
    if (!answer.ok) throw new Error(`${answer.status}`);
    const state = await answer.json();
    this.take(state);
    if (state.talk && id === talk.id) talk.draw(state.talk, drawn);
    return state;
  },
  async follow() {
    let state = null;
    try {
      for (;;) {
        state = await this.poll(state !== null && state.running);
        // A page that stays open shows the next run, too.
        if (!state.running) await new Promise((resume) => setTimeout(resume, 5000));
      }
    } catch {
      if (!state || state.running) byId("line").textContent += " (no connection any more)";
    }
  },
};
tabs.start();
report.more.addEventListener("click", () => report.refresh());
addEventListener("pagehide", () => fetch(`closed?page=${live.page}`, { keepalive: true }));
live.follow();
