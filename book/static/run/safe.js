// A cell may hold anybody's code, so whatever Python says may be an attack: nothing of it runs as a script in the page, and nothing
// leaves for another server. The page's policy (extension/safe.py) forbids both, and here neither is let in.

import "../purify.js";
import { make } from "./make.js";

const purify = globalThis.DOMPurify(window);
const RULES = {
  USE_PROFILES: { html: true, svg: true },
  FORBID_TAGS: ["style", "form", "audio", "video"], // the site has the figures' style
  FORBID_ATTR: ["for", "name", "popover", "popovertarget", "popovertargetaction"],
  ALLOWED_URI_REGEXP: /^(?:https?:|[^a-z]|[a-z+.-]+(?:[^a-z+.\-:]|$))/i,
  RETURN_DOM_FRAGMENT: true,
};
const isElsewhere = (address) => !URL.canParse(address, location.href) || new URL(address, location.href).origin !== location.origin;

// A figure's own names, never one that the page or the theme looks for; nor a link that a click would follow to another server.
purify.addHook("uponSanitizeAttribute", (node, attribute) => {
  const { attrName, attrValue } = attribute;
  const isForeign = attrName === "id" ? !/^qt-[0-9a-f]{8}(-\d+)?$/.test(attrValue) : /^data-(bs|clipboard)-/.test(attrName);
  if (isForeign || (/^(xlink:)?href$/.test(attrName) && isElsewhere(attrValue))) attribute.keepAttr = false;
});

const CALL = /\("(qt-[0-9a-f]{8}(?:-\d+)?)",([^]*)\);$/; // of the function that stands before it, which is left where it is

// The HTML of an output as a part of the page, without scripts, and with the data of those that draw the book's figures.
export function figure(html) {
  const part = make("div", { className: "output text_html qt-ran-here" });
  const calls = new DOMParser().parseFromString(html, "text/html").querySelectorAll("script[data-draws]");
  part.draws = [...calls].map((script) => [script.dataset.draws, ...(CALL.exec(script.textContent.slice(script.textContent.lastIndexOf('("qt-'))) ?? []).slice(1)]);
  part.append(purify.sanitize(html, RULES));
  return part;
}

// Brings the figures in it to life by the site's own functions (figures.js), once it is in the page.
export function revive(part) {
  for (const [name, id, data] of part.draws) {
    if (!id || !Object.hasOwn(quackFigures, name) || !part.querySelector(`#${id}`)) continue;
    try {
      quackFigures[name](id, JSON.parse(data));
    } catch (error) {
      console.warn(`A figure stays as it is: ${error}`);
    }
  }
}

// Python in a worker under the page's policy: one that is loaded from an address has a policy of its own, one from a blob takes
// that of the page.
export function startPython() {
  const script = `import ${JSON.stringify(new URL("./worker.js", import.meta.url))};`;
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  return new Worker(address, { type: "module" });
}
