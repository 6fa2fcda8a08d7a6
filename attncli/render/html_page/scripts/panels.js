// Each view gets its picture above its table.

const PICTURES = {
  curves: (report, view, index) => curvesPicture(view, index),
  boxes: (report, view) => boxesPicture(view),
  words: (report, view, index) => wordsPicture(report, view, index),
};

function mountViews(report) {
  for (const section of document.querySelectorAll("section.view")) {
    const index = Number(section.dataset.view);
    const view = report.views[index];
    const picture = PICTURES[view.kind];
    if (view.kind === "heads") section.querySelector("summary").textContent = `Table: ${view.title}`;
    else section.prepend(make("h2", {}, view.title));
    if (picture) section.querySelector(".picture").append(picture(report, view, index));
    section.querySelector("details").open = !picture && view.kind !== "heads";
    section.classList.toggle("bare", !picture && view.kind !== "heads");
  }
  foldTablesOfHeads(report);
}

/** Where many metrics have tables of heads, they are folded away together: the grid shows any of them. */
function foldTablesOfHeads(report) {
  const sections = [...document.querySelectorAll("section.view")].filter((section) => report.views[section.dataset.view].kind === "heads");
  if (sections.length < 3) return;
  const all = make("details", {}, make("summary", {}, `${sections.length} tables of heads`));
  sections[0].before(all);
  all.append(...sections);
}

/** Heads that a finding names become links to them, with the metric that it speaks of. */
function linkFindings(report) {
  for (const said of document.querySelectorAll("[data-finding]")) {
    const { metric, heads } = report.findings[said.dataset.finding];
    for (const name of heads) linkHead(said, name, metric);
  }
}

function linkHead(said, name, metric) {
  for (const node of [...said.childNodes].filter((each) => each.nodeType === Node.TEXT_NODE)) {
    const place = node.data.indexOf(`${name} (`);
    const before = node.data[place - 1] ?? " ";
    if (place < 0 || !/[\s,]/.test(before)) continue;
    const rest = node.splitText(place);
    rest.splitText(name.length);
    rest.replaceWith(headLink(name, metric));
    return;
  }
}

/** A link to a head may stand anywhere on the page: it shows the head, and where it is. */
function followLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.to-head");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    setAddress({ head: link.dataset.head, metric: link.dataset.metric });
    const section = document.getElementById("heads");
    if (!section.contains(link) && section.getBoundingClientRect().top > 0.5 * innerHeight) section.scrollIntoView({ block: "start" });
  });
}
