"use strict";
// Elements are made from text only: nothing here reads markup, and the page's policy forbids it.
const byId = (id) => document.getElementById(id);

function make(name, properties, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat(2)) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
  return element;
}

const store = {
  read(key) {
    try { return localStorage.getItem(key); } catch { return null; }
  },
  write(key, value) {
    try { localStorage.setItem(key, value); } catch { /* a page from a file may have no storage */ }
  },
};

const show = {
  seconds(value) {
    if (value === null) return "–";
    if (value < 1) return `${Math.round(value * 1000)} ms`;
    return value < 120 ? `${Number(value.toPrecision(3))} s` : `${Number((value / 60).toPrecision(3))} min`;
  },
  dollars: (value) => (value === null ? "–" : `$${value >= 1 ? value.toFixed(2) : value.toPrecision(2)}`),
  reward: (value) => (value === null ? "–" : Number(value.toFixed(3)).toString()),
  count: (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`,
};

const theme = {
  media: matchMedia("(prefers-color-scheme: dark)"),
  isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : this.media.matches;
  },
  set(name) {
    document.documentElement.dataset.theme = name;
    store.write("a2a-bench-theme", name);
    this.label();
  },
  toggle() { this.set(this.isDark() ? "light" : "dark"); },
  label() { byId("theme").textContent = this.isDark() ? "Light" : "Dark"; },
  start() {
    const kept = store.read("a2a-bench-theme");
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
    this.media.addEventListener("change", () => this.label());
    byId("theme").addEventListener("click", () => this.toggle());
    // The page around this one, or the one in its frame, may have chosen.
    addEventListener("storage", (event) => {
      if (event.key !== "a2a-bench-theme" || !event.newValue) return;
      document.documentElement.dataset.theme = event.newValue;
      this.label();
    });
    this.label();
  },
};
theme.start();
