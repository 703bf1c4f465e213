// From a trial's record to elements.
const WHO = { agent: "Agent", user: "User", tool: "Tool" };

function drawTrial(record) {
  return [
    drawOutcome(record),
    record.run && make("p", { class: "commands" }, copyButton("Copy pytest command", record.run)),
    record.error && make("div", { class: "trouble" }, make("strong", {}, record.error_type || "Error"), make("pre", {}, record.error)),
    make("div", { class: "beside" },
      make("div", { class: "spoken" }, [drawTalk(record)].flat(2).filter(Boolean)),
      make("dl", { class: "facts" }, record.facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))))),
    record.reward && drawReward(record.reward),
    record.reward && drawActions(record.reward.checks.filter((check) => check.kind === "action"), record.turns),
    record.findings.length > 0 && drawFindings(record.findings),
    record.wire.length > 0 && drawWire(record),
  ].flat(2).filter(Boolean);
}

function drawOutcome(record) {
  return make("p", { class: "outcome" },
    make("span", { class: `state ${record.s}` }, states[record.s]),
    record.reward && make("span", {}, "reward ", make("b", {}, show.reward(record.reward.value))));
}

function drawReward(reward) {
  const checks = reward.checks.filter((check) => check.kind !== "action");
  const parts = reward.parts.map(([name, value]) => `${name} ${show.reward(value)}`).join(" × ");
  return [
    make("h3", {}, "Reward"),
    parts && make("p", { class: "parts" }, parts),
    reward.note && make("p", { class: "note" }, reward.note),
    checks.length > 0 && make("ul", { class: "checks" }, checks.map(drawCheck)),
    reward.diff.length > 0 && make("div", { class: "diff" }, make("strong", {}, "Database"), make("pre", {}, reward.diff.join("\n"))),
  ];
}

// What the task's author would have done, beside what was done with the same tool.
function drawActions(golds, turns) {
  if (!golds.length) return [];
  const rows = golds.map((gold) => {
    const [, who, name] = gold.text.match(/^(?:(\w+): )?([^\s(]+)\(/) || [];
    const role = who === "user" ? "user" : "agent";
    const calls = turns.filter((turn) => turn.role === role).flatMap((turn) => turn.calls || []).filter((call) => call.name === name);
    const done = calls.length ? calls.map((call) => make("code", {}, `${call.name}(${call.arguments.replace(/\s+/g, " ")})`)) : `${name || "it"} was never called`;
    return make("tr", {}, make("td", {}, drawMark(gold)), make("td", {}, make("code", {}, gold.text.replace(/^assistant: /, ""))), make("td", {}, done));
  });
  const titles = ["Met", "Gold", "Done"].map((title) => make("th", { scope: "col" }, title));
  return [
    make("h3", {}, "Gold actions"),
    !golds.some((gold) => gold.counted) && make("p", { class: "note" }, "They are one way to the end; the reward does not count them."),
    make("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Gold actions" },
      make("table", { class: "golds" }, make("thead", {}, make("tr", {}, titles)), make("tbody", {}, rows))),
  ];
}

function drawMark(check) {
  return make("span", { class: check.met ? "met" : "unmet", role: "img", "aria-label": check.met ? "met" : "not met" }, check.met ? "✓" : "✕");
}

function drawCheck(check) {
  return make("li", { class: check.counted ? "" : "uncounted" }, drawMark(check),
    make("span", { class: "kind" }, check.kind.replaceAll("_", " ")),
    make("span", {}, check.text, !check.counted && " (not part of the reward)", check.detail && make("small", {}, check.detail)));
}

function drawTalk(record) {
  const other = record.beside;
  if (!other) return [make("h3", {}, "Conversation"), drawTurns(record)];
  const at = firstDifference(record.turns, other.turns);
  const same = at < 0 ? "Both say the same." : `They are the same up to message ${at}; from there on each goes its own way.`;
  const side = (name, talk, state) => make("section", { "aria-label": name },
    make("h4", {}, name, make("span", { class: `state ${state}` }, states[state])), drawTurns(talk, at));
  return [
    make("h3", {}, "Conversation, beside the earlier one"),
    make("p", { class: "note" }, same, other.w && ` The earlier one: ${other.w}.`),
    make("div", { class: "pair" }, side("this run", record, record.s), side(other.name || "the earlier run", other, other.s)),
  ];
}

function drawTurns(talk, differs) {
  const turns = talk.turns.map(drawTurn);
  if (differs >= 0 && turns[differs]) turns[differs].classList.add("differs");
  if (talk.left_out) turns.push(make("p", { class: "note" }, `… ${show.count(talk.left_out, "more message")} in the trial's file`));
  return turns.length ? make("div", { class: "talk" }, turns) : make("p", { class: "note" }, "Nothing was said.");
}

// Where two conversations part; -1 where they do not.
function firstDifference(one, other) {
  for (let at = 0; at < Math.max(one.length, other.length); at++) {
    if (JSON.stringify(one[at]) !== JSON.stringify(other[at])) return at;
  }
  return -1;
}

function copyButton(name, text) {
  const button = make("button", { type: "button" }, name);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = name; }, 2000);
    } catch {
      // Where a browser does not let a page write there, it can be marked and copied by hand.
      if (button.nextElementSibling?.className !== "by-hand") button.after(make("pre", { class: "by-hand", tabindex: 0 }, text));
      getSelection().selectAllChildren(button.nextElementSibling);
    }
  });
  return button;
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
