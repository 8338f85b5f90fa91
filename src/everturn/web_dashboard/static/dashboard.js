"use strict";
// Pages are complete without this script, except for actions and live updates. Text from the server is put in as text;
// markup comes only from our own pages, which escape what sessions hold.
(() => {
  const all = (what, inside = document) => [...inside.querySelectorAll(what)];
  const token = document.querySelector("meta[name=action-token]")?.content ?? "";
  const make = (name, text = "", attributes = {}) => {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  // ── charts: a cursor, and the column under it in words ──

  const texts = new WeakMap();
  function textsOf(chart) {
    if (!texts.has(chart)) texts.set(chart, JSON.parse(chart.querySelector(".chart-texts").textContent));
    return texts.get(chart);
  }

  function pointAt(chart, x) {
    const lines = textsOf(chart), count = lines.length;
    x = Math.max(0, Math.min(count - 1, x));
    chart.dataset.at = x;
    const plot = chart.querySelector(".plot"), tip = chart.querySelector(".tip"), cursor = chart.querySelector(".cursor");
    const left = plot.offsetLeft + plot.clientWidth * (x + 0.5) / count;
    cursor.hidden = tip.hidden = false;
    cursor.style.left = `${left}px`;
    tip.replaceChildren(...lines[x].map((line) => make("p", line)));
    const right = left > chart.clientWidth / 2;
    tip.style.left = right ? "auto" : `${left + 12}px`;
    tip.style.right = right ? `${chart.clientWidth - left + 12}px` : "auto";
  }

  const chartOf = (event) => event.target.closest?.(".chart");
  const sliderOf = (chart) => chart?.closest("section")?.querySelector("input[data-calls]");
  function columnAt(chart, event) {
    const box = chart.querySelector(".plot").getBoundingClientRect();
    return Math.floor((event.clientX - box.left) / box.width * Number(chart.dataset.count));
  }
  document.addEventListener("pointermove", (event) => {
    const chart = chartOf(event);
    if (chart) pointAt(chart, columnAt(chart, event));
  });
  document.addEventListener("pointerout", (event) => {
    const chart = chartOf(event);
    if (chart && !chart.contains(event.relatedTarget)) hideTip(chart);
  });
  document.addEventListener("focusout", (event) => { if (chartOf(event)) hideTip(chartOf(event)); });
  function hideTip(chart) {
    chart.querySelector(".tip").hidden = true;
    chart.querySelector(".cursor").hidden = true;
  }
  document.addEventListener("click", (event) => {
    const chart = chartOf(event), slider = sliderOf(chart);
    if (slider) chooseCall(slider, columnAt(chart, event) + 1);
  });

  // ── the window at any call ──

  let asked = 0;
  async function showCall(slider) {
    const number = Number(slider.value), mine = ++asked;
    slider.parentElement.querySelector("output").textContent = `${number.toLocaleString("en")} of ${Number(slider.max).toLocaleString("en")}`;
    const query = slider.dataset.thread ? `?thread=${encodeURIComponent(slider.dataset.thread)}` : "";
    const part = await getPart(`${slider.dataset.calls}/${number}${query}`);
    if (mine === asked && part) document.getElementById("call-part").replaceChildren(part);
    const here = new URL(location.href);
    here.searchParams.set("call", number);
    history.replaceState(null, "", here);
  }
  function chooseCall(slider, number) {
    slider.value = Math.max(1, Math.min(Number(slider.max), number));
    showCall(slider);
  }
  let waiting = 0;
  document.addEventListener("input", (event) => {
    if (!event.target.matches("input[data-calls]")) return;
    const chart = event.target.closest("section").querySelector(".chart");
    if (chart) pointAt(chart, Number(event.target.value) - 1);
    clearTimeout(waiting);
    waiting = setTimeout(() => showCall(event.target), 60);
  });

  async function getPart(address) {
    const response = await fetch(address, { headers: { "x-part": "1" } });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    return response.ok ? page.body.firstElementChild : page.querySelector("main section") ?? make("p", "It cannot be shown.");
  }
  document.addEventListener("toggle", async (event) => {
    const details = event.target;
    if (!details.open || !details.dataset.load || details.dataset.loaded) return;
    details.dataset.loaded = "yes";
    const waits = make("p", "Loading …", { class: "soft" });
    details.append(waits);
    waits.replaceWith(await getPart(details.dataset.load));
  }, true);

  // ── filters and keys ──

  document.addEventListener("change", (event) => {
    const form = event.target.closest("form.filters");
    if (form && event.target.matches("select, input[type=date]")) form.requestSubmit();
  });
  document.addEventListener("submit", (event) => {
    // Short addresses: what is not filtered is not in them.
    if (event.target.matches("form.filters")) all("input, select", event.target).forEach((each) => { each.disabled = !each.value; });
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const chart = event.target.closest(".chart"), step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (chart && step) {
      event.preventDefault();
      // The keys begin where the slider is: the newest call, or the one that was chosen.
      const slider = sliderOf(chart);
      pointAt(chart, Number(chart.dataset.at ?? (slider ? slider.value - 1 : -1)) + step);
    } else if (chart && event.key === "Enter") {
      const slider = sliderOf(chart);
      if (slider) chooseCall(slider, Number(chart.dataset.at ?? slider.value - 1) + 1);
    } else if (event.key === "/") {
      const search = document.querySelector("[data-search]");
      event.preventDefault();
      if (search) search.focus();
      else location.href = "/recall";
    }
  });

  // ── actions: each asks once ──

  const dialog = document.getElementById("dialog");
  async function post(address, body) {
    const response = await fetch(address, {
      method: "POST", headers: { "content-type": "application/json", "x-action-token": token }, body: JSON.stringify(body),
    });
    const type = response.headers.get("content-type") ?? "";
    const value = type.includes("json") ? await response.json() : { why: await response.text() };
    if (!response.ok) throw new Error(value.why || "It did not work.");
    return value;
  }
  function ask(title, rows, { confirm, field = "", then }) {
    const list = make("dl");
    rows.forEach(([name, text]) => list.append(make("dt", name), make("dd", text)));
    const parts = [make("h2", title, { id: "dialog-title" }), list];
    const text = field ? make("textarea", "", { "aria-label": field, placeholder: field }) : null;
    if (text) parts.push(text);
    const buttons = make("div", "", { class: "controls" });
    const close = make("button", confirm ? "Cancel" : "Close", { type: "button", class: "button" });
    close.addEventListener("click", () => dialog.close());
    buttons.append(close);
    if (confirm) {
      const yes = make("button", confirm, { type: "button", class: "button primary" });
      yes.addEventListener("click", async () => {
        yes.disabled = true;
        try { await then(text?.value ?? ""); } catch (problem) { ask("Nothing was changed", [["Why", problem.message]], {}); }
      });
      buttons.append(yes);
    }
    dialog.replaceChildren(...parts, buttons);
    if (!dialog.open) dialog.showModal();
  }
  async function act(name, session) {
    const run = async (action, text = "") => {
      const done = await post(`/session/${session}/${action}`, { text });
      if (done.confirm) ask(done.title, done.rows, { confirm: "Compact", then: () => run(done.confirm, text) });
      else { ask(done.title, done.rows, {}); refresh(); }
    };
    if (name === "plan") {
      try { await run("plan"); } catch (problem) { ask("Nothing was changed", [["Why", problem.message]], {}); }
    } else if (name === "undo") {
      ask("Undo the last compaction?", [["Effect", "The model sees the replaced messages again. One line is appended; nothing is deleted."]], { confirm: "Undo", then: () => run("undo") });
    } else if (name === "pin") {
      ask("Pin a text", [["Effect", "Every later compaction keeps it word for word."]], { confirm: "Pin", field: "The text to keep", then: (text) => run("pin", text) });
    }
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-action]");
    if (button) act(button.dataset.action, button.dataset.session);
  });
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("[data-compare]")) return;
    event.preventDefault();
    const chosen = (name) => all(`input[name=${name}]:checked`, form).map((each) => each.value);
    try {
      const { location: place } = await post("/what-if", { sessions: chosen("session"), policies: chosen("policy") });
      location.href = place;
    } catch (problem) { ask("Nothing was computed", [["Why", problem.message]], {}); }
  });

  // ── live ──

  // What somebody uses right now stays as it is: an open part, and what has the focus. A chart keeps focus and cursor; a
  // slider keeps its place unless it follows the newest call.
  function update(old, fresh) {
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    if (old.dataset.live === "slider") {
      const [now, then] = [old, fresh].map((each) => each.querySelector("input"));
      now.max = then.max;
      now.value = then.value;
      old.querySelector("output").textContent = fresh.querySelector("output").textContent;
    } else if (focused?.matches(".plots")) {
      const at = focused.parentElement.dataset.at;
      old.replaceWith(fresh);
      fresh.querySelector(".plots")?.focus({ preventScroll: true });
      if (at !== undefined && fresh.querySelector(".chart")) pointAt(fresh.querySelector(".chart"), Number(at));
    } else if (!(focused && old.dataset.live !== "progress") && !old.querySelector("details[open]")) old.replaceWith(fresh);
  }
  let refreshing = false, again = false;
  async function refresh() {
    if (refreshing) { again = true; return; }
    refreshing = true;
    try {
      const response = await fetch(location.href);
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const job = document.querySelector("[data-job]");
      if (job && !page.querySelector("[data-job]")) { location.reload(); return; }
      const names = (inside) => all("main [data-live]", inside).map((each) => each.dataset.live).join();
      if (response.ok && !dialog.open && names(page) !== names(document)) {
        // The page has other parts now, like those of a session after its first call.
        document.querySelector("main").replaceWith(page.querySelector("main"));
      }
      all("[data-live]").forEach((old) => {
        const fresh = page.querySelector(`[data-live="${old.dataset.live}"]`);
        if (fresh && fresh.outerHTML !== old.outerHTML) update(old, fresh);
      });
    } catch { /* The server is gone; the stream connects again when it is back. */ } finally {
      refreshing = false;
      if (again) { again = false; setTimeout(refresh, 300); }
    }
  }
  let soon = 0;
  const refreshSoon = (wait) => { if (!soon) soon = setTimeout(() => { soon = 0; refresh(); }, wait); };
  const heard = {
    changed: ({ sessions }) => {
      const here = document.querySelector("[data-session-page]")?.dataset.sessionPage;
      const indexing = document.querySelector("#index-progress progress");
      if (!here || sessions.includes(here)) refreshSoon(indexing ? 1000 : 50);
    },
    progress: ({ done, total }) => {
      const bar = document.querySelector("#index-progress progress");
      if (bar && done < total) {
        bar.max = total;
        bar.value = done;
        document.querySelector(".progress-words").textContent = `Reading sessions: ${done.toLocaleString("en")} of ${total.toLocaleString("en")}`;
      } else if (bar || done < total) refreshSoon(50);
    },
    job: ({ id }) => { if (document.querySelector("[data-job]")?.dataset.job === id) refreshSoon(50); },
  };
  // Browsers allow six connections to a server, over all tabs: only the visible ones listen.
  let events = null;
  function listen() {
    if (events || document.hidden) return;
    events = new EventSource("/events");
    for (const [name, act] of Object.entries(heard)) events.addEventListener(name, (event) => act(JSON.parse(event.data)));
  }
  function stopListening() {
    events?.close();
    events = null;
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stopListening();
    else { listen(); refresh(); }
  });
  addEventListener("pagehide", stopListening);
  listen();

  setInterval(() => all("[data-until]").forEach((each) => {
    const left = Math.round(Number(each.dataset.until) - Date.now() / 1000);
    if (left > 0) each.textContent = `cache expires in ${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
    else { each.textContent = "cache expired"; delete each.dataset.until; }
  }), 1000);
})();
