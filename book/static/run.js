// Puts the button "Run in this page" into the bar of a chapter. Everything else is loaded when it is pressed. What the
// reader wrote here, and an address that carries cells ("#cells=…"), open the cells at once, to be read; Python waits for
// the button.
{
  const base = new URL(".", document.currentScript.src);
  const load = (name = "page") => import(new URL(`run/${name}.js`, base));
  // As in run/kept.js, in its present and its former way.
  const page = location.pathname;
  const isKept = (key) => key.startsWith(`quack-tutorial:text:${page}:`) || key === `quack-tutorial:${page}`;
  const hasKept = () => {
    try {
      return Object.keys(localStorage).some(isKept);
    } catch {
      return false;
    }
  };
  document.addEventListener("DOMContentLoaded", async () => {
    const article = document.querySelector("article.bd-article");
    if (!article?.querySelector("div.cell_input")) return;
    const bar = document.createElement("div");
    bar.className = "qt-run-bar";
    bar.setAttribute("role", "region");
    bar.setAttribute("aria-label", "Run in this page");
    const size = `${(document.querySelector('meta[name="qt-runtime-bytes"]').content / 1e6).toFixed(0)} MB`;
    bar.innerHTML = `<button type="button" class="qt-start" title="Change any cell and run it here: Python and the simulator come to your browser, ${size}, once">Run <span>in this page</span> <small aria-hidden="true">${size}</small></button> <span role="status"></span>`;
    const [button, words] = bar.children;
    document.querySelector(".qt-header").append(bar);
    const isFile = location.protocol === "file:";
    button.addEventListener("click", async () => {
      if (isFile) {
        words.textContent = "A browser runs no Python from a file: serve the folder, with make serve.";
        return;
      }
      button.remove();
      words.textContent = "Starting …";
      try {
        (await load()).start(bar, base);
      } catch {
        words.textContent = "What runs cells cannot be fetched now. Is there a connection? Load the page again to try once more.";
      }
    });
    if (isFile) return;
    const open = async () => (await load()).open(bar, base);
    const isLink = () => location.hash.startsWith("#cells=");
    addEventListener("hashchange", () => isLink() && open()); // an open page looks for itself
    addEventListener("storage", ({ key }) => key && isKept(key) && open());
    if (isLink() || hasKept()) await open();
    if (![...article.querySelectorAll(".cell_output")].some((output) => /cell\s\d+:\d/.test(output.textContent))) return;
    (await load("lines")).watch(article, async (...place) => (await load()).jump(bar, base, ...place));
  });
}
