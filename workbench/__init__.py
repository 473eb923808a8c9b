"""Where the book's cells and a reader's kernels run: inside the page, in JupyterLab on the reader's own copies, and by a command.

| module        | what                                                                                     |
|---------------|------------------------------------------------------------------------------------------|
| `session`     | runs the cells of one page in one namespace, and says what came out                      |
| `motion`      | runs *A kernel as you type*: whether the kernel is right, and the pictures of its run    |
| `errors`      | what an exception tells a reader of the page                                             |
| `other_cards` | while a page is built, runs cells whose output depends on the card for the other cards   |
| `outputs`     | what the chapters' cells gave on a GPU, which a page opens beside what the simulator gives |
| `simulate`    | `quack-tutorial simulate`: `cutesim check` by another name                               |
| `command`     | `quack-tutorial lab`, which `make lab` calls: renews the copies and starts JupyterLab    |
| `copies`      | the reader's copies: which are renewed with the book, which stay                         |
| `myst`        | a chapter's source as cells, and as the notebook that a reader opens                     |
| `first_page`  | the page that JupyterLab opens: chapters and labs, the doctor's verdict                |
| `config/`     | JupyterLab's settings: no news, and no menus of nbgrader, which want a course's folder   |

In the page there is Python (Pyodide) and numpy: no GPU, `cute.compile` or matplotlib; `cutesim.torch_answer` stands in for torch.
"""

# What `quack-tutorial` takes from here: name, what it does, module.
COMMANDS = (
    ("lab", "open the book's notebooks in JupyterLab, as copies that are yours", "workbench.command"),
    (
        "simulate",
        "run a file's kernels on the simulator, look for races, count their traffic",
        "workbench.simulate",
    ),
)
