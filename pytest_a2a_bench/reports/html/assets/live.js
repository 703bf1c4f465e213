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
  choose(trial, byHand) {
    if (byHand) this.pinned = true;
    if (this.id === trial.id) return;
    Object.assign(this, { id: trial.id, key: trial.key, drawn: 0, ended: false });
    byId("talk-title").textContent = trial.name;
    byId("talk").replaceChildren();
    byId("briefing").replaceChildren();
    live.poll(false).catch(() => { /* the next poll tries again */ });
  },
  take(now) {
    let mine = now.find((trial) => trial.id === this.id);
    if (this.id && !mine && !this.ended) this.end();
    // The oldest is shown until one is chosen; the chosen one stays after its end.
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
    } }, "Result"));
  },
  // Two polls may bring the same messages: those that are drawn already are passed over.
  draw(conversation, begin) {
    if (begin > this.drawn) return;
    const turns = conversation.turns.slice(this.drawn - begin);
    const place = byId("conversation");
    const atEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 80;
    if (begin === 0 && !byId("briefing").childElementCount) byId("briefing").replaceChildren(...this.briefing(conversation));
    byId("talk").append(...turns.map(drawTurn));
    this.drawn += turns.length;
    if (atEnd) place.scrollTop = place.scrollHeight;
  },
  briefing(conversation) {
    const box = (name, text) => text && make("details", { class: "box" }, make("summary", {}, name), make("pre", { tabindex: 0 }, text));
    return [box("Policy", conversation.policy), conversation.tools.length && box(show.count(conversation.tools.length, "tool"), conversation.tools.join("\n"))].filter(Boolean);
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
    if (this.done !== state.done) byId("status").textContent = `${state.done} of ${state.total} trials have finished`;
    this.done = state.done;
    byId("tab-now").textContent = state.now.length ? `Now (${state.now.length})` : "Now";
    this.list("last", state.last);
    this.list("floors", state.floors);
    this.list("why", state.why);
    talk.take(state.now);
    this.inFlight(state.now);
    report.take(state);
    // Of a run that shows no conversations (without --a2a-live) there is only the report to see.
    this.grows = state.running && (this.grows || state.now.length > 0);
    if (!tabs.byHand) tabs.choose(this.grows ? "now" : "report");
  },
  list(id, texts) {
    const shown = [...byId(id).children].map((item) => item.textContent);
    // A selection of text stays.
    if (shown.join("\n") !== texts.join("\n")) byId(id).replaceChildren(...texts.map((text) => make("li", {}, text)));
  },
  // What stays is not touched, so that the focus stays; what is new began last.
  inFlight(now) {
    const list = byId("inflight");
    const there = new Map();
    for (const item of [...list.children]) {
      if (now.some((trial) => trial.id === item.dataset.id)) there.set(item.dataset.id, item);
      else item.remove();
    }
    for (const trial of now) {
      const item = there.get(trial.id) || this.row(trial);
      if (!item.isConnected) list.append(item);
      item.querySelector("span").textContent = `${show.count(trial.messages, "message")}, ${lasted(trial.seconds)}; ${WAITS[trial.waits]}${trial.since < 1 ? "" : ` for ${lasted(trial.since)}`}`;
      item.firstChild.setAttribute("aria-pressed", String(trial.id === talk.id));
    }
  },
  row(trial) {
    const button = make("button", { type: "button", title: trial.key }, make("b", {}, trial.name), make("span"));
    button.addEventListener("click", () => {
      talk.choose(trial, true);
      for (const other of byId("inflight").querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
    });
    const item = make("li", {}, button);
    item.dataset.id = trial.id;
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
