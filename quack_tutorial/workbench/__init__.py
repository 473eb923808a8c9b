"""`quack-tutorial lab`, which `make lab` calls: the book as notebooks in JupyterLab, in copies that are the reader's own.

| module       | what                                                                                    |
|--------------|-----------------------------------------------------------------------------------------|
| `copies`     | the reader's copies: which are renewed with the book, which stay                        |
| `first_page` | the page that JupyterLab opens: chapters and labs with their state, the doctor's verdict |
| `command`    | `quack-tutorial lab`: renews the copies, writes the page and starts JupyterLab          |
| `config/`    | JupyterLab's settings: no news, and no menus of nbgrader, which want a course's folder  |
"""
