// All numbers: one line each, sorted and filtered; only the lines that are in sight are made.

const LINE = 26;
const ABOVE = 8;
const HIDDEN_COLUMNS = new Set(["unit", "n", "mark", "number", "among"]);

function mountTable(report) {
  const section = document.getElementById("all");
  const names = ["metric", ...[...report.columns.keys()].filter((name) => name !== "metric" && !HIDDEN_COLUMNS.has(name))];
  const state = { order: allRows(report), filter: inAddress("filter") ?? "", sort: null, falling: false };
  const count = make("p", { class: "count", "aria-live": "polite" });
  const input = make("input", { type: "search", id: "filter", placeholder: "sink layer=5 value>0.3", value: state.filter });
  const scroller = make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "All numbers" });
  const body = make("tbody", {});
  const buttons = names.map((name) => make("button", { type: "button", click: () => sortBy(name) }, name));
  const headers = buttons.map((button) => make("th", { scope: "col", "aria-sort": "none", class: isNumeric(report, button.textContent) ? "number" : null }, button));
  const table = make("table", { class: "rows", "aria-rowcount": report.count + 1 }, make("caption", { class: "unseen" }, "All numbers of the report"), make("thead", {}, make("tr", { "aria-rowindex": "1" }, headers)), body);
  scroller.append(table);
  section.append(
    make("h2", {}, "All numbers"),
    make("div", { class: "controls" }, make("label", { class: "selection" }, make("span", {}, "Filter"), input), count),
    make("p", { class: "hint" }, "Words are sought everywhere; ", make("code", {}, "layer=5"), " and ", make("code", {}, "value>0.3"), " in a column. A click on a column sorts."),
    scroller,
  );
  section.hidden = false;

  function sortBy(name) {
    state.falling = state.sort === name ? !state.falling : isNumeric(report, name);
    state.sort = name;
    headers.forEach((header, place) => header.setAttribute("aria-sort", names[place] === name ? (state.falling ? "descending" : "ascending") : "none"));
    choose();
  }
  function choose() {
    state.order = sortedRows(report, filteredRows(report, state.filter), state);
    count.textContent = state.order.length === report.count ? `${grouped(String(report.count))} numbers` : `${grouped(String(state.order.length))} of ${grouped(String(report.count))} numbers`;
    table.setAttribute("aria-rowcount", state.order.length + 1);
    scroller.scrollTop = 0;
    paint();
  }
  function paint() {
    const first = Math.max(0, Math.floor(scroller.scrollTop / LINE) - ABOVE);
    const some = state.order.subarray(first, first + Math.ceil(scroller.clientHeight / LINE) + 2 * ABOVE);
    const space = (lines) => (lines > 0 ? [gapOf(lines * LINE, names.length)] : []);
    const rows = Array.from(some, (row, place) => lineOf(report, names, row, first + place));
    body.replaceChildren(...space(first), ...rows, ...space(state.order.length - first - some.length));
  }
  scroller.addEventListener("scroll", () => requestAnimationFrame(paint));
  input.addEventListener("input", () => {
    state.filter = input.value;
    setAddress({ filter: input.value || null }, true);
    choose();
  });
  choose();
}

function gapOf(height, across) {
  const gap = make("td", { colspan: across });
  gap.style.height = `${height}px`;
  return make("tr", { class: "gap", "aria-hidden": "true" }, gap);
}

function lineOf(report, names, row, place) {
  const cells = names.map((name) => {
    const value = cellOf(report, name, row);
    return make("td", { class: typeof value === "number" ? "number" : null }, value === null ? "" : figure(value));
  });
  return make("tr", { "aria-rowindex": place + 2 }, cells);
}

function allRows(report) {
  return Uint32Array.from({ length: report.count }, (_, row) => row);
}

function isNumeric(report, name) {
  const column = report.columns.get(name);
  return column.kind === "numbers" || column.values.every((value) => typeof value !== "string");
}

/** Rows on which every word of the filter holds. */
function filteredRows(report, filter) {
  const tests = filter.toLowerCase().split(/\s+/).filter(Boolean).map((word) => testOf(report, word));
  return tests.length ? allRows(report).filter((row) => tests.every((test) => test(row))) : allRows(report);
}

function testOf(report, word) {
  const found = /^(.+?)(>=|<=|=|>|<)(.+)$/.exec(word);
  const column = found && [...report.columns.values()].find((each) => each.name.toLowerCase() === found[1]);
  if (!column) return containing(report, word);
  const [, , sign, wanted] = found;
  const number = Number(wanted);
  const holds = { "=": (x) => (typeof x === "number" && !Number.isNaN(number) ? figure(x) === figure(number) : String(x).toLowerCase() === wanted), ">": (x) => x > number, "<": (x) => x < number, ">=": (x) => x >= number, "<=": (x) => x <= number }[sign];
  return (row) => {
    const value = column.at(row);
    return value !== null && holds(value);
  };
}

/** Codes whose word contains it are found once, so that rows are only looked up. */
function containing(report, word) {
  const tests = [...report.columns.values()]
    .filter((column) => column.kind === "codes")
    .map((column) => [column, column.values.map((value) => value !== null && String(value).toLowerCase().includes(word))]);
  return (row) => tests.some(([column, matches]) => matches[column.data[row]]);
}

function sortedRows(report, rows, { sort, falling }) {
  if (sort === null) return rows;
  const column = report.columns.get(sort);
  const numeric = isNumeric(report, sort);
  const least = numeric ? -Infinity : "";
  const key = (row) => {
    const value = column.at(row);
    return value === null ? null : numeric ? value : String(value);
  };
  const keys = new Map(Array.from(rows, (row) => [row, key(row)]));
  const way = falling ? -1 : 1;
  return rows.sort((a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    if (x === y) return a - b;
    if (x === null || y === null) return x === null ? 1 : -1;
    return (x ?? least) < (y ?? least) ? -way : way;
  });
}
