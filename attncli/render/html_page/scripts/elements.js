// Making elements. Text is only ever text: nothing here or elsewhere in the page parses HTML.

function make(name, attributes = {}, ...inside) {
  return filled(document.createElement(name), attributes, inside);
}

function drawn(name, attributes = {}, ...inside) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, inside);
}

function filled(element, attributes, inside) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...inside.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

/** A choice among a few, as radio buttons that look like one bar. */
function choice(name, label, options, chosen, choose) {
  const buttons = options.map(([value, words]) =>
    make(
      "label",
      {},
      make("input", { type: "radio", name, value, checked: value === chosen, change: () => choose(value) }),
      make("span", {}, words),
    ),
  );
  return make("fieldset", { class: "choice" }, make("legend", {}, label), buttons);
}

function selection(label, options, chosen, choose, attributes = {}) {
  const select = make(
    "select",
    { ...attributes, change: (event) => choose(event.target.value) },
    options.map(([value, words]) => make("option", { value, selected: value === chosen }, words)),
  );
  return make("label", { class: "selection" }, make("span", {}, label), select);
}

/** A table of texts; the first cell of each line is its name. */
function plainTable(caption, header, lines) {
  return make(
    "table",
    {},
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, header.map((name) => make("th", { scope: "col" }, name)))),
    make(
      "tbody",
      {},
      lines.map(([name, ...cells]) =>
        make("tr", {}, make("th", { scope: "row" }, name), cells.map((cell) => make("td", {}, cell))),
      ),
    ),
  );
}

/** A picture's numbers, folded below it. */
function tableBelow(table, open = false) {
  return make("details", { class: "numbers", open }, make("summary", {}, "As a table"), make("div", { class: "wide", tabindex: "0" }, table));
}
