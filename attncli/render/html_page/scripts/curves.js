// Curves over an axis, with spreads, bounds and gaps; every value under the pointer or the arrow keys.

const CHART = { width: 860, height: 400, left: 84, right: 16, top: 14, bottom: 44 };
const MARKERS = ["circle", "square", "diamond", "up", "down", "cross"];

/** The panels of a view: one metric at a time. */
function curvesPicture(view, index) {
  const holder = make("div", { class: "curves" });
  const chart = make("div", {});
  const metric = (name) => {
    const panel = view.panels.find((each) => each.metric === name) ?? view.panels[0];
    chart.replaceChildren(...chartOf(panel, view, index));
    const table = holder.closest("section")?.querySelector("details .wide");
    if (table) table.replaceChildren(tableOfPanel(panel, view));
  };
  if (view.panels.length > 1) {
    const options = view.panels.map((panel) => [panel.metric, panel.metric]);
    holder.append(make("div", { class: "controls" }, selection("Metric", options, view.panels[0].metric, metric)));
  }
  holder.append(chart);
  queueMicrotask(() => metric(view.panels[0].metric));
  return holder;
}

function chartOf(panel, view, index) {
  const bound = view.panels.find((each) => each.metric === panel.bound);
  const state = { y: null, x: null, hidden: new Set() };
  const lines = linesOf(panel, bound);
  const xs = placesOf(lines, panel.gaps);
  const ys = [...lines.flatMap((line) => (line.kind === "bound" ? [] : line.points.map((point) => point[1]))), ...panel.levels.map((level) => level.value)];
  const [waysX, waysY] = [xs, ys].map((values) => fitting(...(extent(values) ?? [0, 1])));
  waysX.splice(0, waysX.length, ...waysX.filter((way) => way !== "signed"));
  state.x = waysX.includes("log") && xs.length > 2 && xs.every((x, place) => place === 0 || x >= 1.7 * xs[place - 1]) ? "log" : "linear";
  state.y = waysY.includes("signed") && Math.max(...ys.map(Math.abs)) > 100 ? "signed" : "linear";
  const place = make("div", { class: "chart" });
  const paint = () => place.replaceChildren(chartPicture(panel, lines, xs, state));
  const toggle = (axis, words, ways) =>
    ways.length > 1
      ? choice(`${axis}-${index}`, words, ways.map((way) => [way, AXES[way].words]), state[axis], (way) => {
          state[axis] = way;
          paint();
        })
      : null;
  paint();
  const legend = legendOf(panel, lines, state, paint);
  return [make("div", { class: "controls" }, toggle("y", panel.measure, waysY), toggle("x", panel.axis, waysX)), legend, place];
}

/** Where there are numbers; bounds and laws add no places. */
function placesOf(lines, gaps) {
  const measured = lines.filter((line) => line.kind === "own" || line.kind === "old").flatMap((line) => line.points.map((point) => point[0]));
  return [...new Set([...measured, ...gaps.map(([x]) => x)])].sort((a, b) => a - b);
}

function fitting(low, high) {
  return Object.keys(AXES).filter((way) => AXES[way].fits(low, high));
}

/** Every series as a line with its colour and mark; bounds, laws and older curves are dashed, in the colour of theirs. */
function linesOf(panel, bound) {
  const style = (name) => panel.series.findIndex((each) => each.name === name);
  const own = panel.series.map((series, place) => ({ ...series, place, kind: "own" }));
  const bounds = (bound?.series ?? []).filter((each) => style(each.name) >= 0).map((series) => ({ ...series, name: `bound of ${series.name}`, place: style(series.name), kind: "bound" }));
  const beside = panel.extra_series.map((line) => ({ ...line, place: Math.max(0, style(line.of)) }));
  return [...own, ...bounds, ...beside];
}

function legendOf(panel, lines, state, paint) {
  const toggles = lines.map((line) =>
    make(
      "label",
      { class: `series-${line.place % 8}` },
      make("input", {
        type: "checkbox",
        checked: true,
        change: (event) => {
          if (event.target.checked) state.hidden.delete(line.name);
          else state.hidden.add(line.name);
          paint();
        },
      }),
      drawn("svg", { width: 26, height: 12, "aria-hidden": "true" }, drawn("line", { x1: 0, x2: 26, y1: 6, y2: 6, class: line.kind === "own" ? "line" : "dashed" }), line.kind !== "own" ? null : marker(line.place, 13, 6, false)),
      ` ${line.name}`,
    ),
  );
  const levels = panel.levels.map((level, place) => make("span", { class: "level" }, drawn("svg", { width: 26, height: 12, "aria-hidden": "true" }, drawn("line", { x1: 0, x2: 26, y1: 6, y2: 6, class: `level-${place % 3}` })), ` ${level.name} (${figure(level.value)})`));
  const gaps = panel.gaps.length ? [make("span", { class: "gap" }, "× no number")] : [];
  return make("div", { class: "keys-of-lines" }, toggles, levels, gaps);
}

function chartPicture(panel, lines, xs, state) {
  const shown = lines.filter((line) => !state.hidden.has(line.name));
  const frame = frameOf(panel, shown, xs, state);
  const cursor = drawn("line", { class: "cursor", y1: CHART.top, y2: CHART.height - CHART.bottom, visibility: "hidden" });
  const words = `${panel.measure} over ${panel.axis}: ${shown.map((line) => line.name).join(", ")}. Arrow keys read the values.`;
  const svg = drawn(
    "svg",
    { viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "img", tabindex: "0", "aria-label": words, "data-measure": panel.measure },
    axesOf(panel, frame, state),
    levelsOf(panel, frame),
    shown.map((line) => curveOf(line, frame)),
    panel.gaps.map(([x]) => drawn("text", { class: "lost", x: frame.x(x), y: CHART.height - CHART.bottom + 4 }, "×")),
    cursor,
  );
  const said = make("p", { class: "said-by-keys", "aria-live": "polite" });
  readable(svg, cursor, said, panel, shown, xs, frame);
  return make("div", {}, svg, said);
}

/** Where numbers lie on the picture. */
function frameOf(panel, shown, xs, state) {
  const inside = shown.filter((line) => line.kind !== "bound");
  const tops = (inside.length ? inside : shown).flatMap((line) => line.points.flatMap(([, value, spread]) => [value - (spread ?? 0), value + (spread ?? 0), value]));
  const values = [...tops, ...panel.levels.map((level) => level.value)].filter((value) => state.y !== "log" || value > 0);
  const ranges = { x: extent(xs) ?? [0, 1], y: extent(values) ?? [0, 1] };
  const frame = { ranges, places: xs };
  frame.x = placing(ranges.x, AXES[state.x].to, CHART.left, CHART.width - CHART.right, 0.02);
  frame.y = placing(ranges.y, AXES[state.y].to, CHART.height - CHART.bottom, CHART.top, 0.05);
  frame.inside = (y) => y >= CHART.top - 1 && y <= CHART.height - CHART.bottom + 1;
  return frame;
}

function placing([low, high], to, start, end, margin) {
  const [from, until] = [to(low), to(high)];
  const span = until - from || 1;
  return (value) => start + (end - start) * (margin + (1 - 2 * margin) * (until > from ? (to(value) - from) / span : 0.5));
}

function axesOf(panel, frame, state) {
  const { x: rangeX, y: rangeY } = frame.ranges;
  const bottom = CHART.height - CHART.bottom;
  const across = ticks(...rangeY, 6, state.y).map((value) => [frame.y(value), value]);
  const whole = frame.places.length <= 14 ? frame.places : ticks(...rangeX, 10, state.x);
  return [
    across.map(([y, value]) => [drawn("line", { class: "rule", x1: CHART.left, x2: CHART.width - CHART.right, y1: y, y2: y }), drawn("text", { class: "tick y", x: CHART.left - 8, y: y + 4 }, tick(value))]),
    whole.map((value) => drawn("text", { class: "tick x", x: frame.x(value), y: bottom + 18 }, tick(value))),
    drawn("text", { class: "axis", x: (CHART.left + CHART.width) / 2, y: CHART.height - 6 }, panel.axis),
    drawn("text", { class: "axis", transform: `translate(14 ${bottom / 2}) rotate(-90)` }, panel.measure),
  ];
}

/** A round number without zeros at its end. */
function tick(value) {
  const size = Math.abs(value);
  if (size >= 1e6 && size < 1e9) return `${Number((value / 1e6).toPrecision(4))} M`;
  return size >= 1e9 || (size && size < 1e-4) ? value.toExponential().replace("e+", "e") : grouped(String(Number(value.toPrecision(6))));
}

function levelsOf(panel, frame) {
  return panel.levels.map((level, place) => {
    const y = frame.y(level.value);
    return frame.inside(y) ? drawn("line", { class: `level-${place % 3}`, x1: CHART.left, x2: CHART.width - CHART.right, y1: y, y2: y }) : null;
  });
}

/** A line through its points, its spread as a band; what lies outside the picture is left out. */
function curveOf(line, frame) {
  const placed = line.points.map((point) => ({ point, x: frame.x(point[0]), y: frame.y(point[1]) })).filter(({ y }) => Number.isFinite(y));
  const visible = line.kind === "bound" ? placed.filter(({ y }) => frame.inside(y)) : placed;
  const path = visible.map(({ x, y }, place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const spread = line.kind !== "own" ? [] : visible.filter(({ point }) => point[2]);
  const edge = ({ point, x }, side) => {
    const y = frame.y(point[1] + side * point[2]);
    return `${x.toFixed(1)} ${(Number.isFinite(y) ? Math.min(CHART.height - CHART.bottom, Math.max(CHART.top, y)) : CHART.height - CHART.bottom).toFixed(1)}`;
  };
  const band = spread.length > 1 ? `M${spread.map((each) => edge(each, 1)).join("L")}L${spread.map((each) => edge(each, -1)).reverse().join("L")}Z` : null;
  return drawn(
    "g",
    { class: `series-${line.place % 8}`, "data-series": line.name },
    band && drawn("path", { class: "band", d: band }),
    spread.map((each) => drawn("path", { class: "spread", d: `M${edge(each, 1)}L${edge(each, -1)}` })),
    drawn("path", { class: line.kind === "own" ? "line" : "dashed", d: path }),
    line.kind !== "own" ? null : visible.map(({ point, x, y }) => marker(line.place, x, y, isAtFloor(point))),
  );
}

/** A number that rounding may have moved by as much as itself is marked open. */
function isAtFloor([, value, , uncertainty]) {
  return uncertainty !== null && uncertainty !== undefined && uncertainty >= 0.5 * Math.max(Math.abs(value), 1e-300);
}

function marker(place, x, y, open) {
  const kind = MARKERS[place % MARKERS.length];
  const shapes = {
    square: "M-3.5-3.5H3.5V3.5H-3.5Z",
    diamond: "M0-4.8L4.8 0L0 4.8L-4.8 0Z",
    up: "M0-4.6L4.4 3.4H-4.4Z",
    down: "M0 4.6L4.4-3.4H-4.4Z",
    cross: "M-4-1.3H-1.3V-4H1.3V-1.3H4V1.3H1.3V4H-1.3V1.3H-4Z",
  };
  const attributes = { class: open ? "mark open" : "mark", transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` };
  return kind === "circle" ? drawn("circle", { ...attributes, r: 3.8 }) : drawn("path", { ...attributes, d: shapes[kind] });
}

/** The place nearest to the pointer, or stepped to with arrow keys, with the value of every line there. */
function readable(svg, cursor, said, panel, shown, xs, frame) {
  let at = -1;
  const pairs = (x) => [
    ...shown.map((line) => [line.name, valuesAt(line, x)]).filter(([, value]) => value !== null),
    ...panel.gaps.filter(([place]) => place === x).map(([, note]) => ["no number", note]),
  ];
  const move = (place) => {
    at = Math.min(xs.length - 1, Math.max(0, place));
    const x = frame.x(xs[at]);
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    return [tipTitle(`${panel.axis} ${figure(xs[at])}`), tipLines(pairs(xs[at]))];
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const here = ((event.clientX - box.left) / box.width) * CHART.width;
    const nearest = xs.reduce((best, x, place) => (Math.abs(frame.x(x) - here) < Math.abs(frame.x(xs[best]) - here) ? place : best), 0);
    showTip(move(nearest), event.clientX, event.clientY);
  });
  const leave = () => {
    cursor.setAttribute("visibility", "hidden");
    hideTip();
  };
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const lines = move(at + step);
    const box = cursor.getBoundingClientRect();
    showTip(lines, box.left, box.top + 20);
    said.textContent = `${panel.axis} ${figure(xs[at])}: ${pairs(xs[at]).map(([name, value]) => `${name} ${value}`).join("; ")}`;
  });
}

function valuesAt(line, x) {
  const found = line.points.filter((point) => point[0] === x);
  if (found.length === 0) return null;
  return found.map(([, value, spread, uncertainty, note]) => `${withSpread(value, spread)}${uncertainty ? ` (rounding ${figure(uncertainty)})` : ""}${note ? ` – ${note}` : ""}`).join("; ");
}

/** The panel's numbers: a line for each place, a column for each series. */
function tableOfPanel(panel, view) {
  const lines = linesOf(panel, view.panels.find((each) => each.metric === panel.bound));
  const xs = placesOf(lines, []);
  const levels = panel.levels.map((level) => [level.name, ...lines.map((_, place) => (place ? "" : figure(level.value)))]);
  return plainTable(`${panel.metric} by ${panel.axis}`, [panel.axis, ...lines.map((line) => line.name)], [...xs.map((x) => [figure(x), ...lines.map((line) => valuesAt(line, x) ?? NOTHING)]), ...levels]);
}
