"use strict";
// Without this the page shows the same when it is loaded again.
(() => {
  const told = document.getElementById("told");
  const rows = () => new Map([...document.querySelectorAll("[data-running]")].map((row) => [row.dataset.running, row]));

  // What began or ended changes more than its row: the page is made anew, and stays where the reader is.
  const renew = async () => {
    const answer = await fetch("./", { cache: "no-store" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("main");
    for (const one of document.querySelectorAll("details[open]")) {
      const same = fresh.querySelector(`#${CSS.escape(one.id)}`);
      if (same) same.open = true;
    }
    const focused = document.activeElement;
    const link = focused?.getAttribute("href");
    const inside = focused?.closest("details")?.id;
    document.getElementById("main").replaceWith(fresh);
    document.title = page.title;
    if (link) fresh.querySelector(`a[href="${CSS.escape(link)}"]`)?.focus({ preventScroll: true });
    else if (inside) document.getElementById(inside)?.querySelector("summary").focus({ preventScroll: true });
    told.textContent = `${rows().size} under way`;
  };

  const show = (row, one) => {
    row.querySelector(".told").textContent = one.text;
    row.querySelector(".failures").textContent = one.failures || "";
    const bar = row.querySelector("svg");
    bar.setAttribute("aria-label", `${one.done} of ${one.total} done`);
    let x = 0;
    bar.querySelectorAll(".fill").forEach((part, i) => {
      const width = (100 * (one.parts[i] || 0)) / (one.total || 1);
      part.setAttribute("x", x);
      part.setAttribute("width", width);
      x += width;
    });
  };

  let renewing = Promise.resolve();
  const source = new EventSource("events");
  source.onmessage = (event) => {
    const running = JSON.parse(event.data);
    renewing = renewing.then(async () => {
      const known = rows();
      if (running.length !== known.size || running.some((one) => !known.has(one.name) || one.state !== known.get(one.name).dataset.state)) await renew();
      for (const [name, row] of rows()) {
        const one = running.find((other) => other.name === name);
        if (one) show(row, one);
      }
    }).catch(() => {});
  };
})();
