// Shows what came out of a cell where the built page has its output, with the same look.

const LOOKS = {
  text: "output stream highlight-myst-ansi notranslate",
  value: "output text_plain highlight-myst-ansi notranslate",
  error: "output traceback highlight-ipythontb notranslate",
  chart: "output qt-note",
};

export function show(cell) {
  const output = place(cell);
  const parts = joined(cell.pieces).flatMap(([kind, text]) => {
    const part = kind === "html" ? figure(text) : words(kind, text);
    return kind === "chart" ? [part, ...cell.figures] : [part];
  });
  const onGpu = output.querySelectorAll(":scope > .qt-on-gpu"); // what was recorded there stays beside it
  output.replaceChildren(...parts, ...onGpu);
  output.hidden = !parts.length && !onGpu.length;
  // Scripts that come by innerHTML do not start; copies of them do, once they are in the page.
  for (const part of parts) if (!cell.figures.includes(part)) revive(part);
  for (const box of output.querySelectorAll(".text_html, pre")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
}

function place(cell) {
  if (!cell.output) {
    cell.output = document.createElement("div");
    cell.output.className = "cell_output docutils container";
    cell.output.setAttribute("aria-live", "polite");
    cell.node.append(cell.output);
  }
  // Where the book folds the output away, the reader who runs this very cell wants to see it.
  const opens = cell.isAsked ? cell.output : null;
  for (let fold = opens?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  return cell.output;
}

// Neighbouring pieces of one kind are one text.
function joined(pieces) {
  const whole = [];
  for (const [kind, text] of pieces) {
    if (kind === "text" && whole.at(-1)?.[0] === "text") whole.at(-1)[1] += text;
    else whole.push([kind, text]);
  }
  return whole;
}

function words(kind, text) {
  const part = document.createElement("div");
  part.className = LOOKS[kind];
  if (kind === "chart") {
    part.textContent = text;
    return part;
  }
  part.innerHTML = '<div class="highlight"><pre></pre></div>';
  part.querySelector("pre").textContent = text.endsWith("\n") ? text : `${text}\n`;
  return part;
}

function figure(html) {
  const part = document.createElement("div");
  part.className = "output text_html";
  part.innerHTML = html;
  return part;
}

function revive(part) {
  for (const script of part.querySelectorAll("script")) {
    const copy = document.createElement("script");
    copy.textContent = script.textContent;
    script.replaceWith(copy);
  }
}
