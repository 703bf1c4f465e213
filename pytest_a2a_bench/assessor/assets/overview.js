"use strict";
// Without this the page shows the same when it is loaded again.
(() => {
  const rows = new Map([...document.querySelectorAll("[data-running]")].map((row) => [row.dataset.running, row]));
  const source = new EventSource("events");
  source.onmessage = (event) => {
    const running = JSON.parse(event.data);
    if (running.length !== rows.size || running.some((one) => !rows.has(one.name))) {
      source.close();
      location.reload();
      return;
    }
    for (const one of running) {
      const row = rows.get(one.name);
      row.querySelector("[role=status]").textContent = one.text;
      const bar = row.querySelector("progress");
      bar.max = one.total || 1;
      bar.value = one.done;
    }
  };
})();
