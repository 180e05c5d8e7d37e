"use strict";
(() => {
  const script = document.currentScript;
  const root = document.documentElement;
  root.classList.add("scripted");

  // Tables: a button in each head sorts, a field above long ones filters.
  const collator = new Intl.Collator("en", { numeric: true });
  const read = (row, place) => {
    const cell = row.cells[place];
    return { number: cell.dataset.v === undefined ? null : Number(cell.dataset.v), text: cell.textContent };
  };

  function sort(table, place, order) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, key: read(row, place), first: Number(row.dataset.first) }));
    const numeric = rows.some(({ key }) => key.number !== null);
    const sign = order === "descending" ? -1 : 1;
    rows.sort((a, b) => {
      if (order === "none") return a.first - b.first;
      if (!numeric) return sign * collator.compare(a.key.text, b.key.text) || a.first - b.first;
      // What has no value comes last, whichever way it goes.
      if (a.key.number === null || b.key.number === null) {
        return (a.key.number === null) - (b.key.number === null) || a.first - b.first;
      }
      return sign * (a.key.number - b.key.number) || a.first - b.first;
    });
    body.append(...rows.map(({ row }) => row));
    for (const [number, head] of [...table.tHead.rows[0].cells].entries()) {
      head.setAttribute("aria-sort", number === place ? order : "none");
    }
  }

  for (const table of document.querySelectorAll("table")) {
    if (table.tBodies[0].rows.length < 2) continue;
    [...table.tBodies[0].rows].forEach((row, number) => { row.dataset.first = number; });
    for (const [place, head] of [...table.tHead.rows[0].cells].entries()) {
      const button = document.createElement("button");
      const label = head.querySelector("a, span");
      const name = label.textContent;
      button.type = "button";
      // A head that leads to its host keeps its link, and the sign beside it sorts.
      if (label.tagName === "A") {
        button.setAttribute("aria-label", `Sort by ${name}`);
        label.after(button);
      } else {
        label.replaceWith(button);
        button.append(label);
      }
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const orders = head.classList.contains("n") ? ["none", "descending", "ascending"] : ["none", "ascending", "descending"];
        sort(table, place, orders[(orders.indexOf(head.getAttribute("aria-sort")) + 1) % 3]);
      });
    }
  }

  function filter(field) {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...document.getElementById(field.dataset.filter).tBodies[0].rows];
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
      // The sections below the table of hosts go with it.
      if (field.dataset.filter === "hosts") document.querySelector(row.cells[0].firstChild.hash).hidden = row.hidden;
    }
    field.closest(".filter").querySelector("output").textContent = words.length ? `${shown} of ${rows.length}` : "";
  }

  for (const field of document.querySelectorAll("input[data-filter]")) {
    field.closest(".filter").hidden = false;
    field.addEventListener("input", () => filter(field));
  }

  // A link to a host opens its section.
  function open() {
    const target = /^#host-\d+$/.test(location.hash) && document.querySelector(location.hash);
    if (!target) return;
    target.hidden = false;
    target.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", open);
  open();

  // Charts: drawn when they come near, in the colours of the page.
  const source = document.getElementById("charts");
  if (!source) return;
  const charts = JSON.parse(source.textContent);
  const color = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  function theme() {
    const axis = { gridcolor: color("line"), linecolor: color("line"), zerolinecolor: color("line"), automargin: true };
    return {
      layout: {
        colorway: [1, 2, 3, 4, 5, 6, 7, 8].map((number) => color(`s${number}`)),
        font: { color: color("text"), family: "system-ui, sans-serif", size: 12 },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        hoverlabel: { bgcolor: color("panel"), bordercolor: color("line"), font: { color: color("text") } },
        xaxis: axis,
        yaxis: axis,
        legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
        margin: { t: 12, r: 12, b: 40, l: 56 },
        hovermode: "closest",
      },
    };
  }

  function paint(chart, width) {
    const layout = { template: theme(), ...chart.layout, ...(width && { width }) };
    layout.shapes = (chart.layout.shapes || []).map((shape) => ({
      ...shape,
      fillcolor: color(shape.name === "incident" ? "bad-back" : "warn-back"),
      layer: "below",
      line: { color: color("dim"), width: 1, dash: "dot", ...shape.line },
    }));
    const markers = {
      failure: { color: color("bad"), line: { width: 2.5, color: color("bad") } },
      same: { color: color("s1") },
    };
    const shared = chart.x ? { x: chart.x } : {};
    const data = chart.data.map((trace) => ({ ...shared, ...trace, marker: { ...trace.marker, ...markers[trace.meta] } }));
    return [data, layout, { displayModeBar: false, responsive: true }];
  }

  const drawn = new Set();
  function draw(element, width) {
    drawn.add(element);
    return Plotly.react(element, ...paint(charts[Number(element.dataset.chart)], width));
  }

  // On paper: all of them, in light colours, and as wide as a sheet in landscape has room for.
  function print(elements) {
    root.classList.add("printing");
    for (const element of elements) {
      const pair = element.closest(".pairs > .block:not(:only-child)");
      draw(element, pair ? 490 : 1000);
    }
  }

  function redraw() {
    root.classList.remove("printing");
    drawn.forEach(async (element) => Plotly.Plots.resize(await draw(element)));
  }

  // Without a chart its figures stay unfolded.
  const fold = (open) => document.querySelectorAll("details.figures").forEach((figures) => { figures.open = open; });
  fold(false);

  function begin() {
    const elements = document.querySelectorAll(".chart");
    const near = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        draw(target);
      }
    }, { rootMargin: "400px" });
    elements.forEach((element) => near.observe(element));
    addEventListener("beforeprint", () => print(elements));
    addEventListener("afterprint", redraw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }

  if (!script.dataset.plotly) {
    begin();
    return;
  }
  const library = document.createElement("script");
  library.src = script.dataset.plotly;
  library.onload = begin;
  library.onerror = () => {
    root.classList.remove("scripted");
    fold(true);
  };
  document.head.append(library);
})();
