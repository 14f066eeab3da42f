// Point at, keep and filter the programs of each chart. Everything else on the page works without this.
"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const REACH = 14; // how near the pointer must be, in the drawing's own units

for (const section of document.querySelectorAll("section.search")) {
  const points = DATA[section.dataset.search];
  if (points) watch(section, points);
}

function watch(section, points) {
  const svg = section.querySelector(".canvas svg"), tip = section.querySelector(".tip");
  const hover = svg.querySelector(".hover"), filter = section.querySelector(".filter");
  const [search, island, told] = filter.querySelectorAll("input, select, output");
  const scale = ([low, high, start, end], log) => value => {
    const f = log ? Math.log : v => v, kept = Math.min(Math.max(value, low), high);
    return start + (f(kept) - f(low)) / (f(high) - f(low) || 1) * (end - start);
  };
  const across = scale(points.x, false), up = scale(points.y, true);
  const place = points.id.map((_, i) => [across(points.number[i]), points.fell[i] ? points.rows[points.fell[i]] : up(points.speedup[i])]);
  let shown = points.id.map((_, i) => i), kept = null;

  filter.hidden = false;
  section.querySelector(".scripted").style.display = "inline";
  for (const number of [...new Set(points.island.filter(i => i !== null))].sort((a, b) => a - b)) island.add(new Option(number, number));
  if (island.options.length < 3) island.parentElement.hidden = true;
  search.addEventListener("input", draw);
  island.addEventListener("change", draw);
  svg.addEventListener("pointermove", event => { if (kept === null) point(nearest(event)); });
  svg.addEventListener("pointerleave", () => { if (kept === null) point(null); });
  svg.addEventListener("click", event => { kept = nearest(event); point(kept); });

  function text(i) {
    return [points.id[i], points.whys[points.why[i]], points.reasons[points.reason[i]], points.fell[i]].join(" ").toLowerCase();
  }

  function draw() {
    const wanted = search.value.trim().toLowerCase();
    shown = points.id.map((_, i) => i).filter(i =>
      (!wanted || text(i).includes(wanted)) && (!island.value || String(points.island[i]) === island.value));
    for (const [kind, falls] of [["scored", false], ["fallen", true]]) {
      const path = svg.querySelector(".dot." + kind);
      path.setAttribute("d", shown.filter(i => Boolean(points.fell[i]) === falls).map(i => `M${place[i][0]} ${place[i][1]}h0`).join(""));
    }
    const everything = shown.length === points.id.length;
    told.textContent = everything ? "" : `${shown.length} of ${points.id.length} programs`;
    kept = null;
    point(null);
  }

  function nearest(event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    let found = null, least = REACH * REACH;
    for (const i of shown) {
      const far = (place[i][0] - at.x) ** 2 + (place[i][1] - at.y) ** 2;
      if (far < least) [found, least] = [i, far];
    }
    return found;
  }

  function point(i) {
    hover.replaceChildren();
    tip.hidden = i === null;
    if (i === null) return;
    for (const [child, parent] of kin(i)) {
      add("path", { d: `M${place[child].join(" ")}L${place[parent].join(" ")}` });
    }
    add("circle", { cx: place[i][0], cy: place[i][1], r: 6 });
    tip.replaceChildren(...lines(i).map(line => Object.assign(document.createElement("div"), { textContent: line })));
    tip.firstChild.style.fontWeight = "600";
    const ratio = svg.clientWidth / Number(svg.dataset.width), x = place[i][0] * ratio;
    tip.style.top = `${place[i][1] * ratio + 14}px`;
    tip.style.left = `${Math.max(0, Math.min(x + 12, svg.clientWidth - 340))}px`;
  }

  function kin(i) {
    const edges = [], waiting = [i], seen = new Set(waiting);
    while (waiting.length) {
      const child = waiting.pop();
      for (const parent of points.parents[child]) {
        edges.push([child, parent]);
        if (!seen.has(parent)) { seen.add(parent); waiting.push(parent); }
      }
    }
    return edges;
  }

  function lines(i) {
    const minutes = Math.floor(points.at[i] / 60) + ":" + String(points.at[i] % 60).padStart(2, "0");
    const place = points.number[i] ? `evaluation ${points.number[i]}, ${minutes} min` : "starting program";
    const home = points.island[i] === null ? "" : `, island ${points.island[i]}`;
    const head = points.fell[i]
      ? (points.fell[i] === "fault" ? "fault of the machine" : `rejected: ${points.fell[i]}`)
      : `${points.speedup[i].toFixed(2)}x (${points.low[i].toFixed(2)} to ${points.high[i].toFixed(2)}), worst workload ${points.worst[i].toFixed(2)}x`;
    const parents = points.parents[i].map(parent => points.id[parent].slice(0, 8)).join(", ");
    return [head, points.reasons[points.reason[i]], `${points.id[i]}, ${place}${home}`, points.whys[points.why[i]], parents && `from ${parents}`].filter(Boolean);
  }

  function add(name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    hover.append(made);
  }
}
