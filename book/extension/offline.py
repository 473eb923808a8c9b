"""Writes sw.js, which keeps what was read for a reader without a connection; static/offline.js registers it."""

import hashlib
from pathlib import Path


def write_worker(app, error):
    """At the site's root, because a worker serves what lies below it; another build has another name, so browsers notice."""
    if error or app.builder.format != "html":
        return
    out, digest = Path(app.outdir), hashlib.sha256()
    for file in sorted(path for path in out.rglob("*") if path.is_file() and path.name != "sw.js"):
        digest.update(file.relative_to(out).as_posix().encode() + file.read_bytes())
    worker = Path(__file__).with_name("service_worker.js").read_text(encoding="utf-8")
    (out / "sw.js").write_text(worker.replace("@BUILD@", digest.hexdigest()[:16]), encoding="utf-8")


def setup(app):
    app.add_js_file("offline.js", loading_method="async")
    app.connect("build-finished", write_worker, priority=900)  # after everything else is written
    return {"parallel_read_safe": True, "parallel_write_safe": True}
