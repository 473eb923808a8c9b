// The sandbox's controls: a kernel to start from, and the shape and type that it runs on.

const STARTS = ["copy", "reduce", "softmax"], DTYPES = ["float32", "float16", "bfloat16"];
const LINE = /^M, N, dtype = (\d+), (\d+), torch\.(\w+)$/m;

export function addControls(cells, set) {
  const kernel = cells.find((cell) => cell.built.includes("def host"));
  const run = cells.find((cell) => LINE.test(cell.built));
  const options = (words) => words.map((word) => `<option>${word}</option>`).join("");

  const start = controls(kernel, `<label>Start from <select aria-label="Start from">${options(STARTS)}</select></label>`);
  start.querySelector("select").addEventListener("change", async ({ target }) => {
    set(kernel, (await (await fetch(new URL(`starts/${target.value}.py`, import.meta.url))).text()).trim());
  });

  const number = (name, most) => `<label>${name} <input aria-label="${name}" type="number" min="1" max="${most}"></label>`;
  const shape = controls(run, `${number("M", 64)} ${number("N", 4096)} <label>type <select aria-label="type">${options(DTYPES)}</select></label>`);
  const [M, N, dtype] = shape.querySelectorAll("input, select");
  const [, ...now] = run.editor.text().match(LINE) ?? run.built.match(LINE);
  [M.value, N.value, dtype.value] = now;
  shape.addEventListener("change", () => {
    if (![M, N].every((input) => input.value && input.checkValidity())) return;
    set(run, run.editor.text().replace(LINE, `M, N, dtype = ${M.value}, ${N.value}, torch.${dtype.value}`));
  });
}

function controls(cell, html) {
  const box = document.createElement("div");
  box.className = "qt-sandbox";
  box.innerHTML = html;
  cell.node.before(box);
  return box;
}
