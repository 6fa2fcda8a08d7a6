// One tip for the whole page: what is pointed at, in words and numbers.

function showTip(lines, x, y) {
  const tip = document.getElementById("tip");
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 14 + width > innerWidth ? x - 14 - width : x + 14;
  const top = y + 14 + height > innerHeight ? y - 14 - height : y + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

function hideTip() {
  document.getElementById("tip").hidden = true;
}

/** Show a tip over what `select` finds in the element, by pointer or keyboard. */
function tipOver(element, select, linesFor) {
  const show = (event) => {
    const found = event.target.closest?.(select);
    const lines = found && linesFor(found);
    if (!lines) return hideTip();
    const box = found.getBoundingClientRect();
    const byPointer = event.type === "pointermove";
    showTip(lines, byPointer ? event.clientX : box.right, byPointer ? event.clientY : box.bottom);
  };
  element.addEventListener("pointermove", show);
  element.addEventListener("focusin", show);
  element.addEventListener("pointerleave", hideTip);
  element.addEventListener("focusout", hideTip);
}

function tipTitle(text) {
  return make("strong", {}, text);
}

function tipLines(pairs) {
  return make("dl", {}, pairs.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

window.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});
