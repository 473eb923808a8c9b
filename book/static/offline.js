// Has sw.js keep this page and what it loaded, so that it can be read again without a connection. Not for pages opened as files.
if (location.protocol.startsWith("http") && "serviceWorker" in navigator) {
  const workers = navigator.serviceWorker;
  const root = new URL(document.documentElement.dataset.content_root || "./", document.baseURI);
  const begin = () => {
    const read = [location.href, ...performance.getEntriesByType("resource").map(({ name }) => name)];
    const tell = () => workers.controller?.postMessage({ read });
    workers.addEventListener("controllerchange", tell); // on the first visit, and when the site was built anew
    tell();
    workers.register(new URL("sw.js", root), { scope: root }).catch(() => {}); // a private window may refuse
  };
  if (document.readyState === "complete") begin();
  else addEventListener("load", begin);
}
