// The sandbox's controls: a kernel to start from, and the shape and type that it runs on.

import { make } from "./make.js";

const STARTS = { copy: "copy", reduce: "reduce", softmax: "softmax" }, DTYPES = ["float32", "float16", "bfloat16"];
const LINE = /^M, N, dtype = (\d+), (\d+), torch\.(\w+)$/m;
const MOST = { M: 64, N: 4096 };

export function addControls(cells) {
  const kernel = cells.find((cell) => cell.built.includes("def host"));
  const run = cells.find((cell) => LINE.test(cell.built));
  const options = (words) => words.map((word) => `<option>${word}</option>`).join("");

  startFrom(kernel, STARTS);

  const number = (name) =>
    `<label>${name} <input aria-label="${name}" type="number" min="1" max="${MOST[name]}" aria-describedby="qt-sandbox-why"></label>`;
  const type = `<label>type <select aria-label="type">${options(DTYPES)}</select></label>`;
  const shape = controls(run, `${number("M")} ${number("N")} ${type} <span id="qt-sandbox-why" role="status"></span>`);
  const [M, N, dtype] = shape.querySelectorAll("input, select"), why = shape.querySelector("span");

  // The controls show what the cell says, and nothing where its line is another one.
  run.follow = () => {
    if (shape.contains(document.activeElement)) return;
    const [, ...now] = run.text().match(LINE) ?? ["", "", "", ""];
    [M.value, N.value, dtype.value] = now;
    complain("");
  };
  run.follow();

  function complain(words) {
    why.textContent = words;
    for (const input of [M, N]) input.setAttribute("aria-invalid", Boolean(words) && !isRight(input));
  }
  const isRight = (input) => /^\d+$/.test(input.value) && input.checkValidity();

  shape.addEventListener("input", () => {
    const wrong = [M, N].find((input) => !isRight(input)), name = wrong === M ? "M" : "N";
    const range = `${name} is a whole number from 1 to ${MOST[name].toLocaleString("en")}`;
    if (wrong) return complain(`Not taken over: ${range} here, because the simulator runs each thread in Python.`);
    if (!LINE.test(run.text())) return complain("Not taken over: the cell has no line “M, N, dtype = …” any more.");
    complain("");
    run.retype(run.text().replace(LINE, `M, N, dtype = ${M.value}, ${N.value}, torch.${dtype.value}`));
  });
}

// Puts a choice of kernels before a cell, {file in starts/: words}; `chosen` is called before one takes the place of the cell's text.
export function startFrom(cell, starts, chosen) {
  const options = Object.entries(starts).map(([name, words]) => `<option value="${name}">${words}</option>`).join("");
  const box = controls(cell, `<label>Start from <select aria-label="Start from"><option value="">choose a kernel</option>${options}</select></label> <span role="status"></span>`);
  const missing = box.querySelector("span");
  box.querySelector("select").addEventListener("change", async ({ target }) => {
    const name = target.value;
    target.value = ""; // the cell may say something else by the next moment
    if (!name) return;
    const answer = await fetch(new URL(`./starts/${name}.py`, import.meta.url)).catch(() => null);
    missing.textContent = answer?.ok ? "" : "This kernel cannot be fetched now: is there a connection?";
    if (!answer?.ok) return;
    chosen?.();
    cell.replace((await answer.text()).trim());
  });
}

function controls(cell, html) {
  const box = make("div", { className: "qt-sandbox", innerHTML: html });
  cell.node.before(box);
  return box;
}
