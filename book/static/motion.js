// The page "A kernel as you type": an editor, and beside it what the simulator sees in the kernel, drawn anew after each pause. At
// first that is what the book was built with; Python comes at the first change, or with a link that carries a kernel. It runs in the worker that the chapters use (run/worker.js); the kernel travels in the address (run/link.js).
{
  const base = new URL(".", document.currentScript.src);
  const STARTS = { race: "A sum that is wrong", reduce: "The sum of a row", softmax: "Softmax, a warp a row" };
  const PAUSE = 500, MOST_MS = 15000;
  // Cell 2 runs on the names that the kernel, cell 1, has left.
  const RUN = `
import torch
import quack_tutorial as qt
from quack_tutorial.browser import motion

torch.manual_seed(0)
x = 4 * torch.randn(1, 100) if TAKES_ROWS else torch.arange(64.0)
out = torch.full_like(wanted(x), -1)
run = qt.simulate(host, x, out, values=True)
print(run)
if run.ok:
    off = (out.double() - wanted(x).double()).abs().max().item()
    print(f"Largest difference from wanted(x): {off:.2g}.")
display(motion.Margin(run, "cell 1"))
for picture in motion.pictures(run):
    display(picture)
`;

  document.addEventListener("DOMContentLoaded", async () => {
    const root = document.getElementById("qt-motion");
    root.innerHTML = `<div class="qt-motion-kernel"><p class="qt-motion-tools"><label>Start from <select>${Object.entries(STARTS)
      .map(([name, words]) => `<option value="${name}">${words}</option>`)
      .join("")}</select></label> <button type="button">Copy link to this kernel</button></p></div>
      <div class="qt-motion-seen"><p role="status"></p><div class="cell_output"></div></div>`;
    const [kernel, seen] = root.children, status = seen.querySelector("[role=status]"), output = seen.querySelector(".cell_output");
    const choice = root.querySelector("select"), copy = root.querySelector("button");
    if (location.protocol === "file:") {
      status.textContent = "A browser runs no Python from a file: serve the folder, with make serve.";
      return;
    }
    const [{ makeEditor }, link] = await Promise.all([import(new URL("run/editor.js", base)), import(new URL("run/link.js", base))]);
    const start = async (name) => (await (await fetch(new URL(`run/starts/${name}.py`, base))).text()).trim();

    let safe, worker, isReady = false, running = false, wanted = false, timer, limit, pieces = [];
    const shared = await link.read(location.hash, (n) => n === 1);
    const first = shared?.texts[1] ?? (await start("race"));
    const editor = makeEditor({ parent: kernel, text: first, label: "The kernel", run: () => soon(0), changed: () => soon(PAUSE) });
    const built = document.querySelector(".qt-motion-built"), cell = built.closest("div.cell");
    status.textContent = shared?.bad.length ? `Of the link: ${shared.bad.join("; ")}.` : "Something is wrong:";

    choice.addEventListener("change", async () => {
      editor.set(await start(choice.value));
      history.replaceState(null, "", location.pathname);
      soon(0);
    });
    copy.addEventListener("click", async () => {
      history.replaceState(null, "", await link.write({ 1: editor.text() }));
      try {
        await navigator.clipboard.writeText(location.href);
        copy.textContent = "Copied: it opens this kernel and what is found in it";
      } catch {
        copy.textContent = "The address above is the link";
      }
      setTimeout(() => (copy.textContent = "Copy link to this kernel"), 4000);
    });

    function soon(ms) {
      wanted = true;
      if (!worker) begin();
      output.classList.add("qt-motion-old");
      clearTimeout(timer);
      timer = setTimeout(go, ms);
    }

    function go() {
      if (!isReady || running || !wanted) return;
      [wanted, running, pieces] = [false, true, []];
      limit = setTimeout(() => restart("This takes too long, as a loop without an end would. Change it to go on."), MOST_MS);
      worker.postMessage({ cell: 1, source: editor.text(), after: 0, yours: [1] });
    }

    function restart(words) {
      clearTimeout(limit);
      worker?.terminate();
      [isReady, running, worker] = [false, false, null]; // the next change starts it again
      status.textContent = words;
    }

    async function begin() {
      worker = {}; // on its way
      safe = await import(new URL("run/safe.js", base)).catch(() => (worker = null));
      if (!safe) return restart("Python cannot be fetched now: is there a connection?");
      worker = safe.startPython();
      worker.onmessage = ({ data }) => answered(data);
    }

    function answered(data) {
      if (data.stage) status.textContent = `${data.stage} …`;
      else if (data.ready) {
        isReady = true;
        soon(0);
      } else if (data.failed) restart(`Python stopped: ${data.failed}.`);
      else if (data.kind && data.kind !== "lines") pieces.push(data);
      else if (data.cell === 1 && data.done) {
        const takesRows = /shape\[1\]|mX\[row/.test(editor.text());
        worker.postMessage({ cell: 2, source: RUN.replace("TAKES_ROWS", takesRows ? "True" : "False"), after: 1, yours: [] });
      } else finished();
    }

    function finished() {
      clearTimeout(limit);
      running = false;
      if (wanted) return go();
      const words = pieces.filter(({ kind }) => kind !== "html").map(({ text }) => text).join("");
      const isWrong = pieces.some(({ kind }) => kind === "error") || /\bfindings?:$/m.test(words);
      status.textContent = isWrong ? "Something is wrong:" : "Nothing wrong found.";
      const said = document.createElement("pre");
      said.className = isWrong ? "qt-motion-said qt-motion-wrong" : "qt-motion-said";
      said.textContent = words.trim();
      const figures = pieces.filter(({ kind }) => kind === "html").map(({ text }) => safe.figure(text));
      output.classList.remove("qt-motion-old");
      tellLines(figures.map((box) => box.querySelector(".qt-motion-margin")).find(Boolean));
      const shown = figures.filter((box) => box.querySelector(".qt-figure"));
      output.replaceChildren(said, ...shown);
      shown.forEach(safe.revive);
      for (const box of output.querySelectorAll(".text_html, pre")) if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      leadToLines(said);
    }

    function leadToLines(said) {
      said.innerHTML = said.innerHTML.replace(/cell 1:(\d+)/g, '<a href="#" data-line="$1">line $1</a>');
      for (const place of said.querySelectorAll("a")) {
        place.addEventListener("click", (event) => (event.preventDefault(), editor.go(Number(place.dataset.line))));
      }
    }

    const tellLines = (found) => editor.tell(found ? JSON.parse(found.dataset.lines) : {});

    output.append(...[...built.children].filter((node) => !node.matches(".qt-motion-margin")));
    leadToLines(output.querySelector(".qt-motion-said"));
    if (first.trim() === (await start("race"))) tellLines(built.querySelector(".qt-motion-margin"));
    else soon(0);
    cell.remove();
  });
}
