// One head: its map, its offsets, its strongest pairs, and its numbers against the rest of its layer.

function showHead(report, cube, state, aside) {
  const at = state.head;
  const was = aside.dataset.name;
  aside.hidden = at === null;
  aside.dataset.name = at?.name ?? "";
  if (at === null || was === at.name) return;
  const roleRow = at.place.at(ROLE, cube.sides.at(-1), at.layer, at.head);
  const role = roleRow === undefined || cube.sides.length > 1 ? null : cellOf(report, ROLE, roleRow);
  aside.replaceChildren(
    make("button", { class: "close", "aria-label": "Close this head", click: () => setAddress({ head: null }) }, "×"),
    make("h3", {}, `Head ${at.name}`, role ? make("span", { class: "badge" }, role) : null),
    ...mapOfHead(report, at),
    ...pairsOfHead(report, cube, at),
    ...profilesOfHead(report, cube, at),
    againstLayer(report, cube, at),
  );
  if (was !== undefined && aside.getBoundingClientRect().top > 0.7 * innerHeight) aside.scrollIntoView({ block: "nearest" });
}

function mapOfHead(report, at) {
  const found = report.maps.find((map) => map.head === at.name);
  if (found) return [mapPicture(report, found)];
  if (report.study !== "inspect-model") return [];
  const how = `--heads ${at.layer}.${at.head}`;
  return [make("p", { class: "hint" }, "Its map is not in this page: run the command with ", make("code", {}, how), " and -o report.html to see it.")];
}

/** Pairs that the study has measured, beside what uniform attention would give. */
function pairsOfHead(report, cube, at) {
  if (!report.columns.has("rank") || !report.columns.has("query")) return [];
  const rows = finerRows(report, cube, at).filter((row) => cellOf(report, "query", row) !== null);
  if (rows.length === 0) return [];
  const word = (side, row) => cellOf(report, `${side}_token`, row) ?? `token ${cellOf(report, side, row)}`;
  const lines = rows.map((row) => [
    `${word("query", row)} ← ${word("key", row)}`,
    `${cellOf(report, "query", row)} ← ${cellOf(report, "key", row)}`,
    figure(cellOf(report, "value", row)),
    figure(cellOf(report, "uniform", row)),
  ]);
  return [make("div", { class: "pairs wide", tabindex: "0" }, plainTable("Its strongest pairs, each key once", ["query ← key", "positions", "weight", "uniform attention"], lines))];
}

function finerRows(report, cube, at) {
  return cube.finer.filter((row) => {
    if (cellOf(report, "layer", row) !== at.layer || cellOf(report, "head", row) !== at.head) return false;
    return placeName(report, row) === at.place.name;
  });
}

/** A line for each metric: the head's number, its nulls, and where it lies among the heads of its layer. */
function againstLayer(report, cube, at) {
  const nulls = Object.entries(report.nulls).filter(([name]) => report.columns.has(name));
  const sides = cube.sides;
  const header = ["metric", ...(sides.length > 1 ? sides : ["this head"]), "rank in its layer", ...nulls.map(([, words]) => words)];
  const lines = cube.metrics.filter((metric) => metric !== ROLE).flatMap((metric) => {
    const rows = sides.map((side) => at.place.at(metric, side, at.layer, at.head));
    if (rows.every((row) => row === undefined)) return [];
    const last = rows.at(-1) ?? rows[0];
    const numbers = rows.map((row) => (row === undefined ? NOTHING : withSpread(cellOf(report, "value", row), cellOf(report, "spread", row))));
    const layer = at.place.sorted("heads").map((head) => [head, valueAt(report, at.place, metric, sides.at(-1), at.layer, head)]);
    const name = make("a", { href: `#${new URLSearchParams({ head: at.name, metric })}`, "data-head": at.name, "data-metric": metric, class: "to-head" }, metric);
    return [[name, ...numbers, strip(layer, at.head), ...nulls.map(([null_]) => figure(cellOf(report, null_, last)))]];
  });
  const caption = `Head ${at.name} against the other heads of layer ${at.layer}`;
  return make("div", { class: "wide", tabindex: "0" }, plainTable(caption, header, lines));
}

function valueAt(report, place, metric, side, layer, head) {
  const row = place.at(metric, side, layer, head);
  return row === undefined ? null : cellOf(report, "value", row);
}

/** A dot for each head of the layer on one line, and its rank in words for who cannot see it. */
function strip(layer, head) {
  const known = layer.filter(([, value]) => value !== null);
  const own = known.find(([other]) => other === head)?.[1];
  if (own === undefined || known.length < 2) return NOTHING;
  const [low, high] = extent(known.map(([, value]) => value));
  const place = (value) => (high > low ? 4 + (82 * (value - low)) / (high - low) : 45);
  const rank = known.filter(([, value]) => value > own).length + 1;
  const words = `${rank}/${known.length}`;
  const others = known.filter(([other]) => other !== head).map(([, value]) => drawn("circle", { cx: place(value), cy: 7, r: 2.5, class: "other" }));
  const line = drawn("line", { x1: 4, x2: 86, y1: 7, y2: 7 });
  const mark = drawn("circle", { cx: place(own), cy: 7, r: 4, class: "own" });
  return make("span", { class: "strip" }, drawn("svg", { width: 90, height: 14, "aria-hidden": "true" }, line, others, mark), make("small", {}, words));
}

/** Rows finer than a head's own, such as its weight at each offset. */
function profilesOfHead(report, cube, at) {
  if (!report.columns.has("offset")) return [];
  const metrics = new Map();
  const compared = report.columns.has("measured");
  for (const row of finerRows(report, cube, at)) {
    const offset = cellOf(report, "offset", row);
    if (offset === null) continue;
    if (compared && cellOf(report, "metric", row) !== "new") continue;
    const metric = cellOf(report, compared ? "measured" : "metric", row);
    if (!metrics.has(metric)) metrics.set(metric, []);
    metrics.get(metric).push([offset, cellOf(report, "value", row), cellOf(report, "uniform", row)]);
  }
  return [...metrics].map(([metric, points]) => profile(metric, points));
}
