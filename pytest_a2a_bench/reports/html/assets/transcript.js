// From a trial's record to elements.
const WHO = { agent: "Agent", user: "User", tool: "Tool" };

function drawTrial(record) {
  return [
    drawOutcome(record),
    record.error && make("div", { class: "trouble" }, make("strong", {}, record.error_type || "Error"), make("pre", {}, record.error)),
    make("dl", { class: "facts" }, record.facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))),
    record.reward && drawReward(record.reward),
    drawTalk(record),
    record.findings.length > 0 && drawFindings(record.findings),
    record.wire.length > 0 && drawWire(record),
  ].flat().filter(Boolean);
}

function drawOutcome(record) {
  return make("p", { class: "outcome" },
    make("span", { class: `state ${record.s}` }, states[record.s]),
    record.reward && make("span", {}, "reward ", make("b", {}, show.reward(record.reward.value))));
}

function drawReward(reward) {
  const parts = reward.parts.map(([name, value]) => `${name} ${show.reward(value)}`).join(" × ");
  return [
    make("h3", {}, "Reward"),
    parts && make("p", { class: "parts" }, parts),
    reward.note && make("p", { class: "note" }, reward.note),
    reward.checks.length > 0 && make("ul", { class: "checks" }, reward.checks.map(drawCheck)),
    reward.diff.length > 0 && make("div", { class: "diff" }, make("strong", {}, "Database"), make("pre", {}, reward.diff.join("\n"))),
  ];
}

function drawCheck(check) {
  const mark = make("span", { class: check.met ? "met" : "unmet", role: "img", "aria-label": check.met ? "met" : "not met" }, check.met ? "✓" : "✕");
  return make("li", { class: check.counted ? "" : "uncounted" }, mark,
    make("span", { class: "kind" }, check.kind.replaceAll("_", " ")),
    make("span", {}, check.text, !check.counted && " (not part of the reward)", check.detail && make("small", {}, check.detail)));
}

function drawTalk(record) {
  const turns = record.turns.map(drawTurn);
  if (record.left_out) turns.push(make("p", { class: "note" }, `… ${show.count(record.left_out, "more message")} in the trial's file`));
  return [make("h3", {}, "Conversation"), turns.length ? make("div", { class: "talk" }, turns) : make("p", { class: "note" }, "Nothing was said.")];
}

function drawTurn(turn) {
  const said = [];
  if (turn.role === "tool") said.push(drawResult(turn));
  else if (turn.text) said.push(make("div", { class: "bubble" }, turn.text));
  for (const call of turn.calls || []) said.push(drawCall(call));
  if (!said.length) said.push(make("div", { class: "bubble" }, make("em", {}, "said nothing")));
  return make("div", { class: `turn ${turn.role}` }, make("div", { class: "who" }, (WHO[turn.role] || turn.role) + (turn.party ? ` ${turn.party}` : "")), make("div", { class: "said" }, said));
}

function drawCall(call) {
  const short = call.arguments.replace(/\s+/g, " ");
  return make("details", { class: "box" }, make("summary", {}, call.name, make("em", {}, ` ${short.slice(0, 160)}`)), make("pre", { tabindex: 0 }, call.arguments));
}

function drawResult(turn) {
  const text = turn.text || "";
  const whose = turn.whose === "user" ? " (the user's tool)" : "";
  const what = turn.failed ? "failed: " : "";
  return make("details", { class: turn.failed ? "box failed" : "box" },
    make("summary", {}, `${turn.tool || "result"}${whose}`, make("em", {}, ` ${what}${text.replace(/\s+/g, " ").slice(0, 160)}`)),
    make("pre", { tabindex: 0 }, pretty(text)));
}

function pretty(text) {
  if (!/^\s*[[{]/.test(text)) return text;
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

function drawFindings(findings) {
  return [make("h3", {}, "What the dialect does not allow"), findings.map((f) => make("details", { class: "box" },
    make("summary", {}, f.rule, make("em", {}, ` turn ${f.turn}: ${f.message.slice(0, 160)}`)), make("pre", { tabindex: 0 }, `${f.message}\n\n${f.raw}`.trim())))];
}

function drawWire(record) {
  const titles = ["At", "Method", "Status", "Time", "Try", "Tokens"];
  const lines = record.wire.map((m) => make("tr", {},
    make("td", {}, m.at), make("td", {}, m.method, m.error && make("div", { class: "problem" }, m.error)),
    make("td", { class: "num" }, m.status === null ? "–" : String(m.status)), make("td", { class: "num" }, show.seconds(m.ms / 1000)),
    make("td", { class: "num" }, String(m.attempt)),
    make("td", { class: "num" }, m.in === null && m.out === null ? "–" : `${m.estimated ? "~" : ""}${m.in ?? 0} / ${m.out ?? 0}`)));
  return [
    make("h3", {}, "On the wire"),
    make("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Requests" },
      make("table", { class: "wire" }, make("thead", {}, make("tr", {}, titles.map((t, i) => make("th", { scope: "col", class: i > 1 ? "num" : "" }, t)))), make("tbody", {}, lines))),
    record.wire_left_out > 0 && make("p", { class: "note" }, `… ${show.count(record.wire_left_out, "more request")} in the trial's file`),
  ];
}
