// Puts the button "Run in this page" under the title of a chapter. Everything else is loaded when it is pressed.
{
  const base = new URL(".", document.currentScript.src);
  document.addEventListener("DOMContentLoaded", () => {
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
    button.addEventListener("click", async () => {
      if (location.protocol === "file:") {
        words.textContent = "A browser runs no Python from a file: serve the folder, with make serve.";
        return;
      }
      button.remove();
      words.textContent = "Starting …";
      const { open } = await import(new URL("run/page.js", base));
      open(bar, base);
    });
  });
}
