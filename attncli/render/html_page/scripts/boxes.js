// Box plots: 5 %, 25 %, median, 75 % and 95 % at each place.

function boxesPicture(view) {
  const boxes = [...view.boxes].sort((a, b) => a.x - b.x);
  const xs = boxes.map((box) => box.x);
  const ranges = { x: extent(xs), y: extent(boxes.flatMap((box) => [box.low, box.high])) };
  const margin = 0.5 / xs.length;
  const x = placing(ranges.x, AXES.linear.to, CHART.left, CHART.width - CHART.right, margin);
  const y = placing(ranges.y, AXES.linear.to, CHART.height - CHART.bottom, CHART.top, 0.05);
  const wide = Math.min(36, (0.6 * (CHART.width - CHART.left)) / xs.length);
  const panel = { axis: view.down, measure: view.metrics[0], levels: [], gaps: [] };
  const shapes = boxes.map((box, index) =>
    drawn(
      "g",
      { class: "box", tabindex: "0", "data-box": index, "aria-label": `${view.down} ${box.x}: median ${figure(box.median)}` },
      drawn("line", { x1: x(box.x), x2: x(box.x), y1: y(box.low), y2: y(box.high) }),
      drawn("rect", { x: x(box.x) - wide / 2, width: wide, y: y(box.third), height: Math.max(1, y(box.first) - y(box.third)) }),
      drawn("line", { class: "median", x1: x(box.x) - wide / 2, x2: x(box.x) + wide / 2, y1: y(box.median), y2: y(box.median) }),
    ),
  );
  const words = `${view.metrics[0]} by ${view.down}: boxes from 25 % to 75 % with the median, whiskers from 5 % to 95 %`;
  const svg = drawn("svg", { viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "group", "aria-label": words }, axesOf(panel, { x, y, ranges, places: xs }, { x: "linear", y: "linear" }), shapes);
  tipOver(svg, "[data-box]", (element) => {
    const { x: place, ...rest } = boxes[element.dataset.box];
    const names = { low: "5 %", first: "25 %", median: "median", third: "75 %", high: "95 %" };
    return [tipTitle(`${view.down} ${place}`), tipLines(Object.entries(rest).map(([name, value]) => [names[name], figure(value)]))];
  });
  return make("div", { class: "chart" }, svg);
}
