// Heads of every layer on one grid, which is a table too: shaded by the metric that is picked.

const ROLE = "role";
const VALUE = "value";
const DENSE = 24;
/** Heads across from which cells are too small for figures. */

function mountHeads(report) {
  const section = document.getElementById("heads");
  const cube = cubeOf(report);
  if (cube.metrics.length === 0) return;
  const first = firstMetric(report, cube);
  const state = { metric: first, against: VALUE, head: null };
  const parts = {
    meaning: make("p", { class: "meaning", id: "meaning" }),
    extremes: make("p", { class: "extremes" }),
    legend: make("div", { class: "legend" }),
    grids: make("div", { class: "grids" }),
    head: make("aside", { id: "head", "aria-label": "One head", hidden: true }),
    opened: make("p", { class: "unseen", "aria-live": "polite" }),
  };
  const picker = selection("Metric", metricOptions(report, cube), state.metric, (metric) => setAddress({ metric }), { id: "metric", "aria-describedby": "meaning" });
  const title = cube.sides.length > 1 ? "Heads: both reports and what moved" : "Heads: layers down, heads across";
  section.append(
    make("h2", {}, title),
    make("div", { class: "controls" }, picker, againstChoice(report, cube, state, () => paint()), parts.legend),
    parts.meaning,
    parts.extremes,
    make("div", { class: "beside" }, parts.grids, parts.head),
    parts.opened,
  );
  const tables = [...cube.places.values()].flatMap((place) => cube.sides.map((side) => gridTable(report, cube, place, side, state)));
  parts.grids.append(...tables.map((each) => each.holder));
  section.hidden = false;

  function paint() {
    describe(report, cube, state, parts);
    paintTables(report, cube, tables, state, parts.legend);
  }
  followAddress(() => {
    const metric = inAddress("metric");
    state.metric = cube.metrics.includes(metric) ? metric : first;
    picker.querySelector("select").value = state.metric;
    state.head = headNamed(cube, inAddress("head"));
    paint();
    showHead(report, cube, state, parts.head);
    const said = state.head ? `Head ${state.head.name} is shown below the grid.` : "";
    if (parts.opened.textContent !== said) parts.opened.textContent = said;
  });
}

/** What moved most of two reports; roles where they are told, else the metric of the first view of heads. */
function firstMetric(report, cube) {
  if (cube.sides.length > 1) return cube.metrics[0];
  const shown = report.views.filter((view) => view.kind === "heads").flatMap((view) => view.metrics);
  return cube.metrics.includes(ROLE) ? ROLE : (shown.find((name) => cube.metrics.includes(name)) ?? cube.metrics[0]);
}

function metricOptions(report, cube) {
  return cube.metrics.map((name) => [name, name === ROLE ? "role" : name]);
}

/** Shade by the number itself, or by how far it is from a null. */
function againstChoice(report, cube, state, paint) {
  const nulls = Object.entries(report.nulls).filter(([name]) => report.columns.has(name));
  if (nulls.length === 0 || cube.sides.length > 1) return null;
  const options = [[VALUE, "value"], ...nulls.map(([name, words]) => [name, `− ${words}`])];
  return choice("against", "Shade", options, VALUE, (against) => {
    state.against = against;
    paint();
  });
}

function gridTable(report, cube, place, side, state) {
  const heads = place.sorted("heads");
  const cells = [];
  const lines = place.sorted("layers").map((layer) => {
    const line = heads.map((head) => {
      const cell = make("td", { tabindex: "-1", "data-name": place.called(layer, head) });
      cells.push({ cell, layer, head });
      return cell;
    });
    return make("tr", {}, make("th", { scope: "row" }, String(layer)), line);
  });
  const caption = make("caption", {});
  const table = make(
    "table",
    { class: `grid${heads.length > DENSE ? " dense" : ""}${side ? " side" : ""}`, role: "grid", "data-heads": heads.length },
    caption,
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, make("span", { class: "corner" }, "layer")), heads.map((head) => make("th", { scope: "col" }, String(head))))),
    make("tbody", {}, lines),
  );
  table.style.setProperty("--heads", heads.length);
  cells[0].cell.tabIndex = 0;
  const grid = { place, side, table, caption, cells, dense: heads.length > DENSE, holder: make("div", { class: "holder" }, table) };
  listenToGrid(report, cube, grid, heads.length, state);
  return grid;
}

function listenToGrid(report, cube, grid, across, state) {
  const open = (cell) => setAddress({ head: cell.dataset.name, metric: state.metric });
  grid.table.addEventListener("click", (event) => {
    const cell = event.target.closest("td");
    if (cell) open(cell);
  });
  grid.table.addEventListener("keydown", (event) => {
    const here = grid.cells.findIndex(({ cell }) => cell === document.activeElement);
    if (here < 0) return;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, Home: -(here % across), End: across - 1 - (here % across) };
    if (event.key === "Enter" || event.key === " ") open(grid.cells[here].cell);
    else if (event.key in steps) moveTo(grid, here, here + steps[event.key]);
    else return;
    event.preventDefault();
  });
  tipOver(grid.table, "td", (cell) => {
    const at = headNamed(cube, cell.dataset.name);
    return tipOfHead(report, cube, state.metric, at);
  });
}

function moveTo(grid, here, there) {
  const target = grid.cells[there];
  if (!target) return;
  grid.cells[here].cell.tabIndex = -1;
  target.cell.tabIndex = 0;
  target.cell.focus();
}

/** What a head's number is shaded by: the number, or its distance from a null. */
function shownNumber(report, row, against) {
  const value = cellOf(report, "value", row);
  if (against === VALUE || value === null) return value;
  const null_ = cellOf(report, against, row);
  return null_ === null ? null : value - null_;
}

function paintTables(report, cube, tables, state, legend) {
  const signedSides = (side) => side === "change" || (side === "" && state.against !== VALUE && state.metric !== ROLE);
  const against = state.metric === ROLE ? VALUE : state.against;
  const found = tables.map((grid) => grid.cells.map(({ layer, head }) => grid.place.at(state.metric, grid.side, layer, head)));
  const numbers = (index) => found[index].map((row) => (row === undefined ? null : shownNumber(report, row, against)));
  const all = tables.map((_, index) => numbers(index));
  const plain = shades(tables.flatMap((grid, index) => (signedSides(grid.side) ? [] : all[index])));
  const signed = signedShades(tables.flatMap((grid, index) => (signedSides(grid.side) ? all[index] : [])));
  tables.forEach((grid, index) => {
    const isSigned = signedSides(grid.side);
    paintTable(report, grid, found[index], all[index], isSigned ? signed : plain, isSigned, state);
  });
  const kinds = tables.map((grid) => signedSides(grid.side));
  const isOfRoles = state.metric === ROLE && cube.sides.length === 1;
  legend.replaceChildren(
    ...(isOfRoles ? roleLegend(report) : []),
    ...(kinds.includes(false) && !isOfRoles ? [shadeBar(plain, false)] : []),
    ...(kinds.includes(true) ? [shadeBar(signed, true)] : []),
  );
}

function paintTable(report, grid, rows, numbers, scale, isSigned, state) {
  const words = [grid.place.name, grid.side, state.metric].filter(Boolean).join(" · ");
  grid.caption.textContent = words;
  grid.holder.hidden = rows.every((row) => row === undefined);
  grid.cells.forEach(({ cell }, index) => {
    const row = rows[index];
    const mark = state.metric === ROLE && grid.side === "" && row !== undefined ? cellOf(report, "mark", row) : null;
    const number = numbers[index];
    const chosen = state.head?.name === cell.dataset.name;
    const more = `${mark === null ? "" : roleClass(mark)} ${chosen ? "chosen" : ""}`.trim();
    write(grid, cell, mark, brief(number));
    shade(cell, number === null ? null : scale.of(number), isSigned, more);
    if ((cell.getAttribute("aria-selected") === "true") !== chosen) cell.setAttribute("aria-selected", chosen);
  });
}

/** In small cells figures are for those who hear them. */
function write(grid, cell, mark, figures) {
  const text = mark ?? (grid.dense ? "" : figures);
  if (cell.textContent !== text) cell.textContent = text;
  if (grid.dense) cell.setAttribute("aria-label", mark ?? (figures || NOTHING));
}

function shadeBar(scale, isSigned) {
  const steps = Array.from({ length: 9 }, (_, step) => (isSigned ? step / 4 - 1 : step / 8));
  const bar = steps.map((share) => {
    const box = make("i", {});
    shade(box, share, isSigned);
    return box;
  });
  return make("span", { class: "bar" }, make("span", {}, figure(scale.low)), make("span", { class: "shades", "aria-hidden": "true" }, bar), make("span", {}, figure(scale.high)));
}

function roleLegend(report) {
  const marks = new Map();
  for (let row = 0; row < report.count; row++) {
    const role = cellOf(report, ROLE, row);
    if (role !== null) marks.set(role, { mark: cellOf(report, "mark", row), count: (marks.get(role)?.count ?? 0) + 1 });
  }
  const ordered = [...marks].sort((a, b) => b[1].count - a[1].count);
  return ordered.map(([role, { mark, count }]) => make("span", { class: "key" }, make("b", { class: roleClass(mark) }, mark), ` ${role} ${count}`));
}

/** Its hue, also where the role is in doubt; a mixed head has no role, and none. */
function roleClass(mark) {
  const letter = mark[0] === "=" ? "X" : mark[0];
  return /[A-Z]/.test(letter) ? `role role-${letter}` : "role mixed";
}

/** The metric in words, and its strongest heads to click on. */
function describe(report, cube, state, parts) {
  const [unit, meaning] = report.metrics[state.metric] ?? ["", cube.sides.length > 1 ? "old, new, and new − old" : ""];
  parts.meaning.textContent = meaning ? `${meaning}${unit && unit !== "1" ? ` [${unit}]` : ""}` : "";
  const ranked = rankedHeads(report, cube, state);
  const link = ({ name, value }) => [headLink(name, state.metric), ` (${figure(value)})`];
  const list = (some) => some.flatMap((each, index) => [index ? ", " : "", ...link(each)]);
  const of = cube.sides.length > 1 ? "Moved most: " : state.metric === ROLE ? "Clearest: " : "Largest: ";
  parts.extremes.replaceChildren(
    ...(ranked.length ? [of, ...list(ranked.slice(0, 3))] : ["No head has this number."]),
    ...(ranked.length > 6 && cube.sides.length === 1 && state.metric !== ROLE ? ["; smallest: ", ...list(ranked.slice(-3).reverse())] : []),
  );
}

function rankedHeads(report, cube, state) {
  const side = cube.sides.at(-1);
  const found = [];
  for (const place of cube.places.values()) {
    for (const [key, row] of place.rows.get(`${state.metric} ${side}`) ?? []) {
      const value = shownNumber(report, row, state.metric === ROLE ? VALUE : state.against);
      if (value !== null) found.push({ name: place.called(Math.floor(key / 100003), key % 100003), value });
    }
  }
  const size = side === "change" ? Math.abs : (value) => value;
  return found.sort((a, b) => size(b.value) - size(a.value));
}

function headLink(name, metric) {
  return make("a", { href: `#${new URLSearchParams({ head: name, metric })}`, class: "to-head", "data-head": name, "data-metric": metric }, name);
}

/** Value, spread, and what the number would be for nothing. */
function tipOfHead(report, cube, metric, { place, layer, head, name }) {
  const pairs = [];
  for (const side of cube.sides) {
    const row = place.at(metric, side, layer, head);
    if (row === undefined) continue;
    pairs.push([side || (metric === ROLE ? cellOf(report, ROLE, row) : metric), withSpread(cellOf(report, "value", row), cellOf(report, "spread", row))]);
    if (side === "" || side === "new") pairs.push(...nullsAt(report, row));
    const note = cellOf(report, "note", row);
    if (note) pairs.push(["", note]);
  }
  return [tipTitle(`Head ${name}${cube.sides.length > 1 ? `, ${metric}` : ""}`), tipLines(pairs.length ? pairs : [[metric, NOTHING]])];
}

function nullsAt(report, row) {
  return Object.entries(report.nulls)
    .filter(([name]) => cellOf(report, name, row) !== null)
    .map(([name, words]) => [words, figure(cellOf(report, name, row))]);
}
