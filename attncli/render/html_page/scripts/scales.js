// From numbers to shades and places.

/** The smallest and the largest number; null where there is none. */
function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value === null || !Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** A scale of shades from 0 to 1: from nothing where all numbers have one sign and are shares, else from the smallest. */
function shades(values) {
  const found = extent(values) ?? [0, 1];
  const low = found[0] >= 0 && found[0] < 0.5 * found[1] ? 0 : found[0];
  const high = found[1] > low ? found[1] : low + 1;
  return { low, high, of: (value) => (value - low) / (high - low) };
}

/** A scale from -1 to 1 with nothing in its middle. */
function signedShades(values) {
  const found = extent(values) ?? [-1, 1];
  const high = Math.max(Math.abs(found[0]), Math.abs(found[1])) || 1;
  return { low: -high, high, of: (value) => value / high };
}

/**
 * Shade an element; the style sheet knows the colours, for light, dark and paper. Of thousands of cells only what changes
 * is written, and as one of a hundred classes: styles that cells share cost a third of a style for each.
 */
function shade(element, share, signed = false, more = "") {
  const step = share === null ? 0 : Math.round(100 * Math.min(1, Math.abs(share)));
  const side = share === null ? "empty" : !signed ? "" : share < 0 ? "below" : "above";
  const kinds = `shade-${step} ${side} ${more}`.trim();
  if (shade.known.get(element) === kinds) return;
  element.setAttribute("class", kinds);
  shade.known.set(element, kinds);
}
shade.known = new WeakMap();

for (let step = 0; step <= 100; step++) document.styleSheets[0].insertRule(`.shade-${step} { --shade: ${step}%; }`);

/** Ways to lay numbers along an axis. The signed log is linear near 0, so that -0.3 and -170000 share an axis. */
const AXES = {
  linear: { words: "linear", to: (x) => x, fits: () => true },
  log: { words: "log", to: (x) => Math.log10(x), fits: (low) => low > 0 },
  signed: { words: "signed log", to: (x) => Math.sign(x) * Math.log10(1 + Math.abs(x)), fits: (low, high) => low <= 0 && Math.max(-low, high) > 20 },
};

/** Round numbers within a range: at most about so many. */
function ticks(low, high, most, way) {
  if (way === "linear") return linearTicks(low, high, most);
  const powers = [];
  const top = Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high))));
  const bottom = way === "log" ? Math.floor(Math.log10(low)) : 0;
  const step = Math.max(1, Math.ceil((top - bottom) / most));
  for (let power = bottom; power <= top; power += step) powers.push(10 ** power);
  const all = way === "log" ? powers : [...powers.map((x) => -x).reverse(), 0, ...powers];
  const inside = all.filter((x) => x >= low && x <= high);
  return inside.length > 1 ? inside : [low, high];
}

function linearTicks(low, high, most) {
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((x) => x * power >= rough);
  const found = [];
  for (let x = Math.ceil(low / step); x * step <= high + step * 1e-9; x++) found.push(x * step);
  return found;
}
