// Cells in an address: "#cells=" and {number: text} as JSON, deflated, in base64 for addresses. Nothing is sent by it: what
// stands behind # stays in the browser.

const MOST_BYTES = 1e6; // of cells: a short address could hold gigabytes

async function through(stream, bytes) {
  const parts = [];
  let size = 0;
  for (const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    if ((size += value.length) <= MOST_BYTES) continue;
    reader.cancel();
    throw new RangeError("it holds more than a page does");
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

export async function write(texts) {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(texts)));
  const base64 = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `#cells=${base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

// {texts: {number: text}, bad: what of it cannot be used, as words}; null if the address carries no cells.
export async function read(hash, isCell) {
  if (!hash.startsWith("#cells=")) return null;
  if (window.top !== window.self) return { texts: {}, bad: ["this page is inside another one, which could steal a click; open it by itself"] };
  const texts = {}, bad = [];
  try {
    const base64 = hash.slice(7).replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const given = JSON.parse(new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes)));
    if (given === null || typeof given !== "object" || Array.isArray(given)) throw new TypeError("no cells");
    for (const [number, text] of Object.entries(given)) {
      const isNumber = /^[1-9]\d{0,3}$/.test(number);
      if (typeof text !== "string") bad.push(`what it has for cell ${number.slice(0, 20)} is no text`);
      else if (!isNumber || !isCell(Number(number))) bad.push(`this page has no cell “${number.slice(0, 20)}”`);
      else texts[number] = text.replace(/\r\n?/g, "\n");
    }
  } catch (error) {
    bad.push(error instanceof RangeError ? error.message : "the address is cut short or damaged");
  }
  return { texts, bad };
}
