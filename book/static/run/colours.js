// The colours of Python while it is typed: the classes that the built page's code has, so that it looks the same.

const KEYWORDS = new Set(
  ("and as assert async await break class continue def del elif else except finally for from global if import in is lambda " +
    "nonlocal not or pass raise return try while with yield").split(" "),
);
const CONSTANTS = new Set(["None", "True", "False"]);
const BUILTINS = new Set("abs all any bool dict enumerate float int isinstance len list max min print range set sorted str sum tuple type zip".split(" "));
// In this order: comment, string (three quotes first), number, decorator, word, operator.
const TOKEN =
  /(#.*)|([rbf]*(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(\b\d[\w.]*)|(@[\w.]+)|([A-Za-z_]\w*)|([-+*/%=<>&|^~!]+)/g;

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

export function coloured(source) {
  let html = "", at = 0, before = "";
  for (const match of source.matchAll(TOKEN)) {
    const [token, comment, string, number, decorator, word, operator] = match;
    html += escaped(source.slice(at, match.index));
    at = match.index + token.length;
    const name = word && (before === "def" ? "nf" : before === "class" ? "nc" : CONSTANTS.has(word) ? "kc" : KEYWORDS.has(word) ? "k" : BUILTINS.has(word) ? "nb" : "n");
    const kind = comment ? "c1" : string ? "s2" : number ? "mi" : decorator ? "nd" : operator ? "o" : name;
    html += `<span class="${kind}">${escaped(token)}</span>`;
    before = token;
  }
  return html + escaped(source.slice(at));
}
