// Puts the button "Run in this page" under the title of a chapter. Everything else is loaded when it is pressed; only an
// address that carries cells ("#cells=…") opens them at once, to be read, and waits for the button to run them.
{
  const base = new URL(".", document.currentScript.src);
  const load = () => import(new URL("run/page.js", base));
  document.addEventListener("DOMContentLoaded", async () => {
    const title = document.querySelector("article.bd-article h1");
    if (!title || !document.querySelector("article.bd-article div.cell_input")) return;
    const bar = document.createElement("div");
    bar.className = "qt-run-bar";
    bar.setAttribute("role", "region");
    bar.setAttribute("aria-label", "Run in this page");
    bar.innerHTML = '<button type="button" class="qt-start">Run in this page</button> <span role="status"></span>';
    const [button, words] = bar.children;
    const megabytes = document.querySelector('meta[name="qt-runtime-bytes"]').content / 1e6;
    words.textContent = `Change any cell and run it here: Python and the simulator come to your browser, ${megabytes.toFixed(0)} MB, once.`;
    title.after(bar);
    const isFile = location.protocol === "file:";
    button.addEventListener("click", async () => {
      if (isFile) {
        words.textContent = "A browser runs no Python from a file: serve the folder, with make serve.";
        return;
      }
      button.remove();
      words.textContent = "Starting …";
      (await load()).start(bar, base);
    });
    if (location.hash.startsWith("#cells=") && !isFile) (await load()).open(bar, base);
  });
}
