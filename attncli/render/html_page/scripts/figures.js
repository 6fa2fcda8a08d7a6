// Numbers as people read them, as the other formats write them: four significant digits, whole from 1000 on.

const NOTHING = "–";

function figure(value) {
  if (typeof value !== "number") return value === null || value === undefined ? NOTHING : String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return grouped(String(value));
  return fixed(value, places(value, 4));
}

function withSpread(value, spread) {
  if (spread === null || spread === undefined) return figure(value);
  const digits = spread ? Math.min(places(value, 4), places(spread, 2)) : places(value, 4);
  const plain = spread < 1e9 && !(value && Math.abs(value) < 1e-5);
  return `${fixed(value, digits)} ± ${plain ? grouped(spread.toFixed(digits)) : figure(spread)}`;
}

/** Two digits, for the cell of a grid. */
function brief(value) {
  if (value === null) return "";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.00995 && size >= 5e-4) return value.toFixed(3).replace("0.", ".");
  if (size >= 1e6 || size < 5e-4) return value.toExponential(0).replace("e+", "e");
  if (size >= 1e4) return `${Math.round(value / 1e3)}k`;
  if (size >= 9.95) return String(Math.round(value));
  return value.toFixed(size >= 0.995 ? 1 : 2).replace(/^(-?)0\./, "$1.");
}

/** Places after the point that leave so many significant digits. */
function places(value, digits) {
  if (value === 0) return digits - 1;
  return Math.max(0, Math.min(9, digits - 1 - Math.floor(Math.log10(Math.abs(value)))));
}

function fixed(value, digits) {
  const size = Math.abs(value);
  if (size >= 1e9 || (size > 0 && size < 1e-5)) return value.toExponential(3);
  return grouped(value.toFixed(digits));
}

function grouped(text) {
  const [whole, rest] = text.split(".");
  const apart = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return rest === undefined ? apart : `${apart}.${rest}`;
}
