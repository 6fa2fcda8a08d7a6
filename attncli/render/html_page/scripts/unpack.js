// The numbers of the page: text → bytes → columns. See packed.py and columns.py, which wrote them.

async function unpacked(text) {
  const packed = fromBase64(text);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const body = bytes.subarray(4 + size);
  const columns = new Map(header.columns.map((each) => [each.name, columnOf(each, header.count, body)]));
  return { ...header, columns, body };
}

function fromBase64(text) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

/** A column: `at(row)` is the value there, null where there is none; `data` are its numbers or codes. */
function columnOf(described, count, body) {
  const buffer = interleaved(body, described.from, count, described.width);
  if (described.kind === "codes") {
    const kinds = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array };
    const data = new kinds[described.width](buffer);
    return { ...described, data, at: (row) => described.values[data[row]] };
  }
  const data = described.width === 8 ? new Float64Array(buffer) : new Float32Array(buffer);
  const exact = new Map(described.exact ?? []);
  const at = (row) => exact.get(row) ?? (Number.isNaN(data[row]) ? null : data[row]);
  return { ...described, data, at };
}

/** The first bytes of all values lie before the second ones; here they come together again. */
function interleaved(body, from, count, width) {
  const whole = new Uint8Array(count * width);
  for (let place = 0; place < width; place++) {
    const start = from + place * count;
    for (let row = 0; row < count; row++) whole[row * width + place] = body[start + row];
  }
  return whole.buffer;
}

/** What stands in a column at a row; null for a column that the report does not have. */
function cellOf(report, name, row) {
  return report.columns.get(name)?.at(row) ?? null;
}
