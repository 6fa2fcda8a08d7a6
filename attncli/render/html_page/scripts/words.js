// A text whose tokens are shaded by a number that each of them has: warm above zero, cold below.

function wordsPicture(report, view, index) {
  const tokens = tokensOf(report, view);
  const text = make("p", { class: "text", "aria-label": view.title });
  const words = tokens.map((token, place) => make("span", { tabindex: place ? "-1" : "0", "data-place": place }, token.word));
  text.append(...words.flatMap((word) => [word, " "]));
  const legend = make("div", { class: "legend" });
  const paint = (metric) => {
    const values = tokens.map((token) => token.values.get(metric)?.value ?? null);
    const signed = values.some((value) => value < 0);
    const scale = signed ? signedShades(values) : shades(values);
    words.forEach((word, place) => shade(word, values[place] === null ? null : scale.of(values[place]), signed));
    legend.replaceChildren(shadeBar(scale, signed));
  };
  const options = view.metrics.map((name) => [name, name]);
  const controls = make("div", { class: "controls" }, choice(`words-${index}`, "Shade by", options, view.metrics[0], paint), legend);
  paint(view.metrics[0]);
  tipOver(text, "[data-place]", (word) => tipOfToken(report, tokens[word.dataset.place]));
  text.addEventListener("keydown", (event) => {
    const here = words.indexOf(document.activeElement);
    const there = words[here + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? NaN)];
    if (here < 0 || !there) return;
    words[here].tabIndex = -1;
    there.tabIndex = 0;
    there.focus();
    event.preventDefault();
  });
  return make("div", {}, controls, text);
}

/** Every token with its numbers, in the order of the text, those outside the view's table too. */
function tokensOf(report, view) {
  const found = new Map();
  for (let row = 0; row < report.count; row++) {
    const metric = cellOf(report, "metric", row);
    const position = cellOf(report, view.down, row);
    if (position === null || !view.metrics.includes(metric)) continue;
    if (!found.has(position)) found.set(position, { position, word: cellOf(report, "word", row) ?? `⟨${position}⟩`, values: new Map() });
    found.get(position).values.set(metric, { value: cellOf(report, "value", row), spread: cellOf(report, "spread", row), row });
  }
  return [...found.values()].sort((a, b) => a.position - b.position);
}

function tipOfToken(report, token) {
  const pairs = [...token.values].flatMap(([metric, { value, spread, row }]) => [[metric, withSpread(value, spread)], ...nullsAt(report, row).map(([words, number]) => [words, number])]);
  return [tipTitle(`${token.word} (token ${token.position})`), tipLines(pairs)];
}
