// The page "A kernel as you type": one cell of the reader's beside what the simulator sees in it. Both are cells as on the other pages
// (run/page.js); this file puts them side by side, and runs them after each pause in the typing. Python comes at the first change. What
// did not begin with the book's text, a link's or what was kept, first waits for the button.
{
  const base = new URL(".", document.currentScript.src);
  const STARTS = { race: "A sum that is wrong", reduce: "The sum of a row", softmax: "Softmax, a warp a row" };
  const PAUSE = 500, MOST_MS = 15000; // then what runs gives way to what was typed since
  const RUN = "from workbench import motion\n\ndisplay(*motion.tried(globals()))";

  document.addEventListener("DOMContentLoaded", async () => {
    const root = document.getElementById("qt-motion"), nodes = [...document.querySelectorAll("article.bd-article div.cell")];
    if (location.protocol === "file:") {
      root.textContent = "A browser runs no Python from a file: serve the folder, with make serve.";
      return;
    }
    root.innerHTML = '<div class="qt-run-bar" role="region" aria-label="Run in this page"><span role="status"></span></div>';
    root.append(...nodes);
    const [page, sandbox] = await Promise.all([import(new URL("run/page.js", base)), import(new URL("run/sandbox.js", base))]);
    const race = (await (await fetch(new URL("run/starts/race.py", base))).text()).trim();
    const given = [race, RUN].map((source) => ({ cell_type: "code", source, metadata: {} }));
    const { cells, run, stop, idle } = await page.open(root.firstChild, base, given);
    const [kernel, seen] = cells;
    if (kernel.text() === race) kernel.editor.tell(JSON.parse(seen.output.querySelector("[data-lines]").dataset.lines)["cell 1"] ?? {});

    let isBooks = kernel.version === "book", turn = 0, timer, began = 0;
    kernel.follow = (isTyped) => {
      clearTimeout(timer);
      if (!isTyped) [isBooks, turn] = [kernel.version === "book", kernel.out?.turn ?? 0];
      else if (isBooks || (kernel.out?.turn ?? 0) > turn) timer = setTimeout(look, PAUSE);
    };
    function look() {
      if (!idle() && began) {
        if (performance.now() - began < MOST_MS) return (timer = setTimeout(look, PAUSE));
        stop();
      }
      began = performance.now();
      run(seen);
    }
    sandbox.startFrom(kernel, STARTS, () => (isBooks = true));
  });
}
