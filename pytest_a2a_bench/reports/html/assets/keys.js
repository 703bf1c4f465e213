const keys = {
  dialog: byId("keys"), box: byId("keys-on"),
  actions: {
    "/": () => byId("search")?.focus(),
    j: () => keys.move(1),
    k: () => keys.move(-1),
    "]": () => table.turn(1),
    "[": () => table.turn(-1),
    t: () => theme.toggle(),
    "?": () => keys.dialog.showModal(),
  },
  move(by) {
    if (!table.body) return;
    if (viewer.dialog.open) { viewer.step(by); return; }
    const buttons = [...table.body.querySelectorAll(".open")];
    const at = buttons.indexOf(document.activeElement);
    buttons[at < 0 ? 0 : Math.min(Math.max(0, at + by), buttons.length - 1)]?.focus();
  },
  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.box.checked || this.dialog.open) return;
    const field = event.target.closest?.("input:not([type=checkbox]), select, textarea");
    if (field) {
      if (event.key === "Escape") field.blur();
      return;
    }
    const action = this.actions[event.key];
    if (!action || (viewer.dialog.open && !["j", "k", "t"].includes(event.key))) return;
    event.preventDefault();
    action();
  },
  start() {
    this.box.checked = store.read("a2a-bench-keys") !== "off";
    this.box.addEventListener("change", () => store.write("a2a-bench-keys", this.box.checked ? "on" : "off"));
    byId("show-keys").addEventListener("click", () => this.dialog.showModal());
    byId("keys-close").addEventListener("click", () => this.dialog.close());
    document.addEventListener("keydown", (event) => this.press(event));
  },
};
keys.start();
