// Cells in an address: "#cells=" and {number: text} as JSON, deflated, in base64 for addresses. Nothing is sent by it: what
// stands behind # stays in the browser.

async function through(stream, bytes) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

export async function write(texts) {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(texts)));
  const base64 = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `#cells=${base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

// {number: text}, empty if the address carries none or is damaged.
export async function read(hash) {
  if (!hash.startsWith("#cells=")) return {};
  try {
    const base64 = hash.slice(7).replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes)));
  } catch {
    return {};
  }
}
