// Rows of heads found by metric, layer and head.

const SIDES = ["old", "new", "change"];
/** What tells attentions of one layer number apart. */
const PLACE_KEYS = ["stack", "kind"];
/** Coordinates of a row that stands in a grid; any other makes it a row of something finer. */
const GRID_KEYS = new Set(["metric", "layer", "head", "value", "spread", "n", "unit", "note", ...PLACE_KEYS, "span", "measured", "number", "among"]);

/**
 * {places, metrics, sides, finer}: every place (a stack and kind of attention) has its layers, its heads, and for each
 * metric and side a row for each layer and head. A comparison has the sides old, new and change; else there is one.
 */
function cubeOf(report) {
  const compared = report.columns.has("measured");
  const cube = { places: new Map(), metrics: [], sides: compared ? SIDES : [""], finer: [] };
  const finerColumns = [...report.columns.values()].filter((each) => !GRID_KEYS.has(each.name) && !report.found.includes(each.name));
  const isFiner = (row) => finerColumns.some((column) => column.at(row) !== null);
  const rows = [];
  for (let row = 0; row < report.count; row++) {
    if (cellOf(report, "head", row) === null || cellOf(report, "layer", row) === null) continue;
    if (isFiner(row)) cube.finer.push(row);
    else rows.push(row);
  }
  const metrics = new Set();
  for (const row of rows) {
    const metric = cellOf(report, compared ? "measured" : "metric", row);
    metrics.add(metric);
    placeOf(cube, report, row).add(metric, compared ? cellOf(report, "metric", row) : "", row);
  }
  cube.metrics = [...metrics];
  return cube;
}

function placeOf(cube, report, row) {
  const name = placeName(report, row);
  if (!cube.places.has(name)) cube.places.set(name, emptyPlace(report, name));
  return cube.places.get(name);
}

function placeName(report, row) {
  return PLACE_KEYS.map((key) => cellOf(report, key, row))
    .filter((word) => word !== null)
    .join(" ");
}

function emptyPlace(report, name) {
  const place = { name, layers: new Set(), heads: new Set(), rows: new Map() };
  place.add = (metric, side, row) => {
    const layer = cellOf(report, "layer", row);
    const head = cellOf(report, "head", row);
    place.layers.add(layer);
    place.heads.add(head);
    const key = `${metric} ${side}`;
    if (!place.rows.has(key)) place.rows.set(key, new Map());
    place.rows.get(key).set(layer * 100003 + head, row);
  };
  place.at = (metric, side, layer, head) => place.rows.get(`${metric} ${side}`)?.get(layer * 100003 + head);
  place.sorted = (what) => [...place[what]].sort((a, b) => a - b);
  place.called = (layer, head) => `${name} ${layer}.${head}`.trim();
  return place;
}

/** The place, layer and head of a name such as `5.1` or `decoder cross 5.1`; null where there is no such head. */
function headNamed(cube, name) {
  const found = /^(?:(.*) )?(\d+)\.(\d+)$/.exec(name ?? "");
  const place = found && cube.places.get(found[1] ?? "");
  const [layer, head] = found ? [Number(found[2]), Number(found[3])] : [];
  return place && place.layers.has(layer) && place.heads.has(head) ? { place, layer, head, name } : null;
}
