// Maps: a square of shades with the tokens along it, the strongest pairs in words, and the text as one query sees it.

const NAMED_PAIRS = 12;
/** Cells on a side up to which tokens can be named along a map. */
const LABELLED = 64;

function mountMaps(report) {
  const own = report.maps.filter((map) => !map.head);
  if (own.length === 0) return;
  const section = document.getElementById("maps");
  const more = report.left_out ? make("p", { class: "hint" }, `${report.left_out} more are left out of this page.`) : null;
  section.append(make("h2", {}, "Maps"), ...own.map((map) => mapPicture(report, map)), ...[more].filter(Boolean));
  section.hidden = false;
}

function weightsOf(report, panel) {
  const bytes = report.body.subarray(panel.from, panel.from + panel.rows * panel.columns);
  return { ...panel, at: (query, key) => (bytes[query * panel.columns + key] * panel.full) / 255 };
}

function mapPicture(report, map) {
  const panels = map.panels.map((panel) => weightsOf(report, panel));
  const name = { query: (place) => tokenAt(map.queries, place, map.step), key: (place) => tokenAt(map.keys, place, map.step) };
  const canvases = panels.map((panel) => mapCanvas(panel, map, name));
  const bright = make("label", { class: "toggle" }, make("input", { type: "checkbox", change: (event) => canvases.forEach((each) => each.paint(event.target.checked)) }), " brighten small weights");
  const figures = canvases.map((each, index) => make("figure", { class: "map" }, make("figcaption", {}, panels.length > 1 ? `${panels[index].name} · ` : "", `darkest = ${figure(panels[index].full)}`), each.element));
  const parts = [map.title ? make("h4", {}, map.title) : null, map.step > 1 ? make("p", { class: "hint" }, `Each cell is the largest weight among ${map.step} × ${map.step} tokens.`) : null, make("div", { class: "panels" }, figures), bright];
  if (panels.length === 1) parts.push(...strongest(panels[0], map, name, canvases[0]));
  else parts.push(tableBelow(plainTable(`${map.title}: ten largest weights of each`, ["query ← key", ...panels.map((panel) => panel.name)], largestOf(panels, name))));
  return make("div", { class: "maps" }, parts);
}

/** A token's name and place; of a coarse cell, those of its first and last token. */
function tokenAt(names, place, step) {
  if (step === 1) return names[place] ?? `token ${place}`;
  const last = names.length ? Math.min(names.length, (place + 1) * step) - 1 : (place + 1) * step - 1;
  return `${names[place * step] ?? "tokens"} … ${names[last] ?? ""} (${place * step}–${last})`;
}

/** A canvas of one pixel a cell, enlarged by the style sheet, and a tip over it. */
function mapCanvas(panel, map, name) {
  const canvas = make("canvas", { width: panel.columns, height: panel.rows, role: "img", "aria-label": `${map.title}, ${panel.name}: queries down, keys across; its largest weights are in the table below` });
  const labelled = map.step === 1 && map.queries.length > 0 && map.keys.length > 0 && Math.max(panel.columns, panel.rows) <= LABELLED;
  const element = make(
    "div",
    { class: `mapped${labelled ? " labelled" : ""}` },
    labelled ? make("div", { class: "keys", "aria-hidden": "true" }, map.keys.map((label) => make("span", {}, label))) : null,
    labelled ? make("div", { class: "queries", "aria-hidden": "true" }, map.queries.map((label) => make("span", {}, label))) : null,
    make("div", { class: "square" }, canvas),
  );
  element.style.setProperty("--cells", Math.max(panel.columns, panel.rows));
  canvas.style.aspectRatio = `${panel.columns} / ${panel.rows}`;
  const shown = { element, bright: false, query: null, onQuery: null };
  shown.paint = (bright = shown.bright) => {
    shown.bright = bright;
    paintMap(canvas, panel, bright);
  };
  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const clip = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));
    return [clip((event.clientY - box.top) / box.height, panel.rows), clip((event.clientX - box.left) / box.width, panel.columns)];
  };
  canvas.addEventListener("pointermove", (event) => {
    const [query, key] = cellAt(event);
    showTip([tipTitle(`${name.query(query)} ← ${name.key(key)}`), tipLines([["query ← key", `${query * map.step} ← ${key * map.step}`], ["weight", panel.at(query, key).toPrecision(2)]])], event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => shown.onQuery?.(cellAt(event)[0]));
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", () => shown.paint());
  shown.paint();
  return shown;
}

function paintMap(canvas, panel, bright) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(panel.columns, panel.rows);
  const colours = rampColours();
  for (let query = 0, place = 0; query < panel.rows; query++) {
    for (let key = 0; key < panel.columns; key++, place += 4) {
      const share = panel.full ? panel.at(query, key) / panel.full : 0;
      const step = Math.round(255 * (bright ? Math.sqrt(share) : share));
      image.data.set(colours.subarray(4 * step, 4 * step + 4), place);
    }
  }
  context.putImageData(image, 0, 0);
}

/** The style sheet's own shades, as 256 pixels. */
function rampColours() {
  const style = getComputedStyle(document.documentElement);
  const [low, high] = ["--low", "--high"].map((name) => style.getPropertyValue(name).trim());
  const context = make("canvas", { width: 256, height: 1 }).getContext("2d");
  for (let step = 0; step < 256; step++) {
    context.fillStyle = `color-mix(in oklab, ${low}, ${high} ${(step / 2.55).toFixed(2)}%)`;
    context.fillRect(step, 0, 1, 1);
  }
  return context.getImageData(0, 0, 256, 1).data;
}

/** The largest weight of each query, strongest first; and the text, shaded by where one query looks. */
function strongest(panel, map, name, shown) {
  const best = Array.from({ length: panel.rows }, (_, query) => {
    const keys = Array.from({ length: panel.columns }, (_, key) => panel.at(query, key));
    const key = keys.indexOf(Math.max(...keys));
    return [query, key, keys[key]];
  }).sort((a, b) => b[2] - a[2]);
  const lines = best.slice(0, NAMED_PAIRS).map(([query, key, weight]) => [`${name.query(query)} ← ${name.key(key)}`, `${query * map.step} ← ${key * map.step}`, weight.toPrecision(2)]);
  const table = plainTable("The strongest key of a query, strongest first; weights to a 255th of the darkest", ["query ← key", "positions", "weight"], lines);
  const parts = [tableBelow(table)];
  if (map.step > 1 || map.queries.length === 0 || map.keys.length === 0) return parts;
  const text = make("p", { class: "text", "aria-label": "The text as one query sees it" });
  const isSame = map.queries.join("\n") === map.keys.join("\n");
  const said = make("p", { class: "hint" }, isSame ? "Point at a token to see where it looks." : "Click on a row of the map to see where that query looks.");
  const words = map.keys.map((label, place) => make("button", { type: "button", "data-place": place }, label));
  text.append(...words.flatMap((word) => [word, " "]));
  const look = (query) => {
    words.forEach((word, key) => {
      shade(word, panel.full ? panel.at(query, key) / panel.full : 0, false, isSame && key === query ? "asking" : "");
    });
    said.textContent = `Where ${name.query(query)} (token ${query}) looks.`;
  };
  const follow = (event) => isSame && event.target.dataset.place !== undefined && look(Number(event.target.dataset.place));
  text.addEventListener("pointerover", follow);
  text.addEventListener("focusin", follow);
  shown.onQuery = look;
  return [make("div", { class: "asks" }, said, text), ...parts];
}

function largestOf(panels, name) {
  const wanted = new Set();
  for (const panel of panels) {
    const all = [];
    for (let query = 0; query < panel.rows; query++) for (let key = 0; key < panel.columns; key++) all.push([panel.at(query, key), query, key]);
    all.sort((a, b) => b[0] - a[0]);
    all.slice(0, 10).forEach(([, query, key]) => wanted.add(`${query} ${key}`));
  }
  return [...wanted].map((pair) => {
    const [query, key] = pair.split(" ").map(Number);
    return [`${name.query(query)} ← ${name.key(key)}`, ...panels.map((panel) => panel.at(query, key).toPrecision(2))];
  });
}
