// Lets the reader choose which warp runs next. Called with the figure and what Chooser.data() gives.
(function (root, data) {
  "use strict";

  const rows = [...root.querySelectorAll(".qt-agents li")], turns = root.querySelector("ol.qt-turns"), end = root.querySelector(".qt-end");
  const button = (name) => root.querySelector('[data-do="' + name + '"]');
  const capital = (text) => text[0].toUpperCase() + text.slice(1);
  let path = []; // of [agent, state, turn]

  const at = () => (path.length ? path[path.length - 1][1] : data.begins);
  const state = () => data.states[at()];
  const made = (agent) => path.some((step) => step[0] === agent) || data.before.some((turn) => data.turns[turn][0] === agent);

  function item(turn) {
    const row = document.createElement("li"), words = data.turns[turn];
    row.append(words[1] || capital(data.agents[words[0]]) + " goes on.");
    if (words[2]) {
      const code = document.createElement("code"), where = document.createElement("b");
      where.textContent = words[2];
      code.append(where, words[3]);
      row.append(code);
    }
    return row;
  }

  function disable(one, is) {
    one.setAttribute("aria-disabled", String(is));
  }

  function show() {
    const now = state(), ended = now.ended;
    rows.forEach((row, agent) => {
      const choice = now.next.find((one) => one[0] === agent), waits = (now.waits || []).find((one) => one[0] === agent);
      const isTransfer = data.agents[agent].startsWith("transfer");
      disable(row.querySelector("button"), !choice);
      row.hidden = isTransfer && !choice;
      const goes = made(agent) ? "can go on" : "has not begun";
      const known = now.cut ? "no further here: not every order was tried" : "has ended";
      row.querySelector("span").textContent = choice ? (isTransfer ? "is under way" : goes) : waits ? "waits at " + waits[1] : known;
    });
    turns.replaceChildren(...data.before.map(item), ...path.map((step) => item(step[2])));
    const fine = "All have ended, and nothing is wrong in this order." + (data.solution.length ? " Now one that fails?" : "");
    end.textContent = ended === undefined ? "" : ended || fine;
    end.classList.toggle("qt-wrong", Boolean(ended));
    disable(button("back"), !path.length);
    disable(button("anew"), !path.length);
    disable(button("rest"), !now.next.length);
  }

  function go(agent) {
    const choice = state().next.find((one) => one[0] === agent);
    if (choice) path.push(choice);
    return Boolean(choice);
  }

  const actions = {
    back: () => path.pop(),
    anew: () => (path = []),
    // Who went last goes on while it can, then the first that can.
    rest: () => {
      while (state().next.length) {
        const last = path.length ? path[path.length - 1][0] : -1;
        if (!go(last)) path.push(state().next[0]);
      }
    },
  };
  root.addEventListener("click", (event) => {
    const pressed = event.target.closest("button");
    if (!pressed || pressed.getAttribute("aria-disabled") === "true") return;
    if (pressed.dataset.agent) go(Number(pressed.dataset.agent));
    else actions[pressed.dataset.do]();
    show();
  });
  // A number from 1 on chooses that row, Backspace takes the last choice back.
  root.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !event.target.closest(".qt-agents, .qt-controls")) return;
    const row = rows[Number(event.key) - 1];
    if (row) go(Number(event.key) - 1);
    else if (event.key === "Backspace") path.pop();
    else return;
    event.preventDefault();
    event.stopPropagation();
    show();
  });
  show();
});
