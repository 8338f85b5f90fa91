"use strict";
// The charts are already in the page. This script selects which ones are visible and describes a call in words.
(() => {
  const all = (what, inside = document) => [...inside.querySelectorAll(what)];
  const sections = all(".session");
  const shortened = (n) => n >= 1e6 ? (n / 1e6).toFixed(2) + "M" : n >= 1e4 ? Math.round(n / 1e3) + "k" : n.toLocaleString("en");
  const rows = new Map();

  function callsOf(view) {
    if (!rows.has(view)) rows.set(view, JSON.parse(view.querySelector("script").textContent));
    return rows.get(view);
  }

  function openSession(number, scroll) {
    sections.forEach((section) => { section.hidden = section.dataset.number !== number; });
    all("[data-opens]").forEach((button) => {
      const row = button.closest("tr");
      if (button.dataset.opens === number) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    });
    const open = sections.find((section) => !section.hidden);
    if (open && scroll) open.scrollIntoView({ behavior: "smooth", block: "start" });
  }

  function choosePolicy(name) {
    all("[data-policy]").forEach((each) => {
      const chosen = each.dataset.policy === name;
      if (each.matches("button")) each.setAttribute("aria-pressed", String(chosen));
      else if (each.matches("polyline, .end")) each.classList.toggle("on", chosen);
      else each.hidden = !chosen;
    });
  }

  // The explanation stands where the pointer is: `top` is its distance from the top of the charts.
  function describe(view, x, top = 0) {
    const { calls, words } = callsOf(view);
    const plots = view.querySelector(".plots"), cursor = view.querySelector(".cursor");
    x = Math.max(0, Math.min(calls.length - 1, x));
    plots.dataset.at = x;
    const [number, at, source, read, written, plain, output, paid, why, broke, refetches] = calls[x];
    const plot = view.querySelector(".plot");
    cursor.hidden = false;
    cursor.style.left = plot.offsetLeft + plot.clientWidth * (x + 0.5) / calls.length + "px";
    const lines = [
      `Call ${number} · ${at} · ${words[source]} · ${paid}`,
      `${shortened(read)} read, ${shortened(written)} written, ${shortened(plain)} uncached, ${shortened(output)} out`,
      broke >= 0 ? "Cache broke: " + words[broke] : "",
      why >= 0 ? words[why] : "",
      ...refetches.map((refetch) => "Refetch: " + words[refetch]),
    ].filter(Boolean);
    const readout = view.querySelector(".readout");
    readout.hidden = false;
    readout.replaceChildren(...lines.map((line, i) => {
      const p = document.createElement("p");
      p.textContent = line;
      if (i === 0) p.style.fontWeight = 650;
      if (line.startsWith("Cache broke") || line.startsWith("Refetch")) p.className = "worse";
      return p;
    }));
    const left = plots.offsetLeft + parseFloat(cursor.style.left), room = view.clientWidth - readout.offsetWidth;
    const side = left + 14 > room ? left - readout.offsetWidth - 14 : left + 14;
    readout.style.left = Math.max(0, Math.min(room, side)) + "px";
    readout.style.top = plots.offsetTop + top + 14 + "px";
  }

  // A link to a call: #session/policy/position.
  function follow() {
    const [number, policy, x] = decodeURIComponent(location.hash.slice(1)).split("/");
    const section = sections.find((each) => each.dataset.number === number);
    if (!section || x === undefined) return;
    openSession(number, false);
    choosePolicy(policy);
    const view = all(".view", section).find((each) => each.dataset.policy === policy);
    if (!view) return;
    describe(view, Number(x));
    view.querySelector(".plots").scrollIntoView({ block: "center" });
  }

  all(".view").forEach((view) => {
    const plots = view.querySelector(".plots");
    if (!plots) return;
    const point = (event) => {
      const box = view.querySelector(".plot").getBoundingClientRect();
      const top = event.clientY - plots.getBoundingClientRect().top;
      describe(view, Math.floor((event.clientX - box.left) / box.width * callsOf(view).calls.length), top);
    };
    plots.addEventListener("pointermove", point);
    plots.addEventListener("pointerdown", point);
    plots.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") view.querySelector(".readout").hidden = true;
    });
    plots.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
      if (!step) return;
      event.preventDefault();
      describe(view, Number(plots.dataset.at ?? -1) + step);
    });
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.opens) openSession(button.dataset.opens, true);
    if (button.dataset.policy) choosePolicy(button.dataset.policy);
  });
  addEventListener("hashchange", follow);
  follow();
})();
