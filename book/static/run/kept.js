// What the reader wrote on this page, kept in the browser: one record for each text of the book that was changed, so that
// two tabs do not overwrite each other's.
//
// A record is {number, text, before, link: {from, text}, shows}: the cell's number when it was written, the reader's text,
// the texts that it replaced, what became of a link's text, and "book" where the book's text was chosen to be shown.

const PREFIX = `quack-tutorial:text:${location.pathname}:`;

// The key of a text of the book, the nth of its kind on the page.
export const keyOf = (built, nth) => PREFIX + hash(built) + (nth ? `.${nth}` : "");
export const isOurs = (key) => key?.startsWith(PREFIX);

export const read = (key) => clean(parsed(key));

// The record in what may be somebody else's.
export function clean({ number, text, before, link, shows }) {
  const isText = (one) => typeof one === "string";
  const older = Array.isArray(before) ? before.filter(isText) : [];
  return {
    ...(Number.isInteger(number) && { number }),
    ...(isText(text) && { text }),
    ...(older.length && { before: older }),
    ...(isText(link?.text) && isText(link.from) && { link: { from: link.from, text: link.text } }),
    ...(shows === "book" && { shows }),
  };
}

// {} where nothing, or no object, is kept under the key.
export function parsed(key) {
  try {
    const found = JSON.parse(localStorage.getItem(key));
    return found && typeof found === "object" && !Array.isArray(found) ? found : {};
  } catch {
    return {};
  }
}

// Whether the browser keeps it.
export function write(key, record) {
  const isWorthIt = record.text !== undefined || record.before !== undefined || record.link;
  try {
    if (isWorthIt) localStorage.setItem(key, JSON.stringify(record));
    else localStorage.removeItem(key);
    return true;
  } catch {
    return !isWorthIt;
  }
}

export function keys() {
  try {
    return Object.keys(localStorage).filter(isOurs);
  } catch {
    return [];
  }
}

function hash(text) {
  let a = 0x811c9dc5, b = 0x1b873593;
  for (let i = 0; i < text.length; i++) {
    a = Math.imul(a ^ text.charCodeAt(i), 0x01000193);
    b = Math.imul(b ^ text.charCodeAt(i), 0x85ebca6b);
  }
  return (a >>> 0).toString(36) + (b >>> 0).toString(36);
}
