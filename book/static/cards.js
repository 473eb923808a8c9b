// One switch for the whole book: whose figures a page shows. What belongs to a card is in `.qt-card.qt-of-CARD`; cards.css hides
// what is not of the card that the page's root names, before anything is drawn. `qt-card` is told on the document after each choice.

const QUACK_CARD = "quack-tutorial:card";

(() => {
  const root = document.documentElement, CARDS = JSON.parse(document.currentScript?.dataset.cards ?? "[]");
  const kept = () => {
    try {
      return localStorage.getItem(QUACK_CARD);
    } catch {
      return null; // storage is forbidden: the book's own card, on each page
    }
  };
  const known = (card) => CARDS.some(([name]) => name === card);
  if (!CARDS.length) return;
  root.dataset.card = known(kept()) ? kept() : CARDS[0][0];

  // A fold of the card that was chosen is open, and has no summary.
  function show() {
    for (const fold of document.querySelectorAll("details.qt-card")) fold.open = fold.classList.contains(`qt-of-${root.dataset.card}`);
  }

  function choose(card) {
    root.dataset.card = card;
    try {
      localStorage.setItem(QUACK_CARD, card);
    } catch {
      // it holds for this page
    }
    show();
    document.dispatchEvent(new CustomEvent("qt-card", { detail: card }));
  }

  // A link to a figure of the other card leads to where it would stand.
  function find() {
    const target = document.querySelector(":target");
    const hidden = target && target.closest(".qt-card");
    if (hidden && !hidden.offsetParent) hidden.parentElement.scrollIntoView();
  }

  document.addEventListener("DOMContentLoaded", () => {
    show();
    const place = document.querySelector(".article-header-buttons");
    if (!place) return;
    const label = document.createElement("label"), select = document.createElement("select");
    label.className = "qt-switch";
    label.title = "Whose figures the book shows";
    const words = document.createElement("span");
    words.textContent = "Figures of ";
    select.append(...CARDS.map(([card, name]) => new Option(name, card, false, card === root.dataset.card)));
    select.addEventListener("change", () => choose(select.value));
    label.append(words, select);
    place.prepend(label);
    addEventListener("storage", (event) => {
      if (event.key !== QUACK_CARD || !known(event.newValue) || event.newValue === root.dataset.card) return;
      select.value = event.newValue;
      choose(event.newValue);
    });
    addEventListener("hashchange", find);
    find();
  });
})();
