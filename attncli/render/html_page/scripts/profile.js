// Weight by offset: bars for the head, ticks for uniform attention.

const PROFILE = { width: 340, height: 110, left: 8, bottom: 18, top: 8 };

function profile(metric, points) {
  const { width, height, left, bottom, top } = PROFILE;
  const known = points.filter(([, value]) => value !== null).sort((a, b) => a[0] - b[0]);
  if (known.length === 0) return make("p", { class: "hint" }, `${metric}: no offset has a number.`);
  const most = Math.max(...known.flatMap(([, value, even]) => [value, even ?? 0])) || 1;
  const step = (width - 2 * left) / known.length;
  const y = (value) => height - bottom - ((height - bottom - top) * Math.max(0, value)) / most;
  const bars = known.flatMap(([offset, value, even], index) => {
    const x = left + index * step;
    return [
      drawn("rect", { x: x + 1, y: y(value), width: Math.max(1, step - 2), height: height - bottom - y(value), class: "weight", "data-index": index }),
      even === null ? null : drawn("line", { x1: x, x2: x + step, y1: y(even), y2: y(even), class: "even" }),
      known.length <= 20 ? drawn("text", { x: x + step / 2, y: height - 5, class: "tick" }, String(offset)) : null,
    ];
  });
  const words = `${metric}: weight by offset, 0 is the token itself; the line is uniform attention`;
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, class: "profile", role: "img", "aria-label": words }, bars);
  tipOver(svg, "[data-index]", (bar) => {
    const [offset, value, even] = known[bar.dataset.index];
    return [tipTitle(`${metric} at offset ${offset}`), tipLines([["weight", figure(value)], ["uniform attention", figure(even)]])];
  });
  const lines = known.map(([offset, value, even]) => [String(offset), figure(value), figure(even)]);
  return make("figure", {}, make("figcaption", {}, words), svg, tableBelow(plainTable(words, ["offset", "weight", "uniform attention"], lines)));
}
