// The frame: which view an address stands for, the line above it, and where the focus goes.

import { get, inSpace, key } from "./api.js";
import { announce, count, h, short, size } from "./dom.js";
import { askView } from "./ask.js";
import { cardView } from "./card.js";
import { cardsView } from "./cards.js";
import { forgetView } from "./forget.js";
import { keyView } from "./key.js";
import { sessionView } from "./session.js";
import { sessionsView } from "./sessions.js";
import { spacesView } from "./spaces.js";

// #/space/NAME/VIEW/ID?query
const VIEWS = {
  ask: askView,
  cards: cardsView,
  card: cardView,
  sessions: sessionsView,
  session: sessionView,
  forget: forgetView,
};
const TABS = { ask: "Ask", cards: "Cards", sessions: "Sessions", forget: "Forget" };
const SHOWN_AS = { card: "cards", session: "sessions" };

const main = document.getElementById("main");
const strip = document.getElementById("space");
let leaving = new AbortController();
let visited = false;

function address() {
  const [path, query] = location.hash.slice(1).split("?");
  const [first, space, view, id] = path.split("/").slice(1).map(decoded);
  return { first: first ?? "", space, view: view || "ask", id, query: new URLSearchParams(query) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // typed by hand
  }
}

function show() {
  leaving.abort();
  leaving = new AbortController();
  document.getElementById("source").close();
  const at = address();
  const context = { ...at, signal: leaving.signal, fail, go, counted: () => head(at) };
  const known = Object.hasOwn(VIEWS, at.view) ? VIEWS[at.view] : spacesView; // "constructor" is no view
  const view = at.first === "space" ? known : at.first === "key" ? keyView : spacesView;
  announce("");
  main.replaceChildren(...view(context));
  main.setAttribute("data-view", at.first === "space" ? at.view : at.first || "spaces");
  head(at);
  const title = main.querySelector("h1");
  document.title = [title.textContent, at.space, "JustMem"].filter(Boolean).join(" · ");
  title.tabIndex = -1;
  if (visited) title.focus({ preventScroll: true });
  if (visited) scrollTo(0, 0);
  visited = true;
}

/** The name of the space, how much it holds, and its views. */
async function head(at) {
  document.querySelector(".key").textContent = key.get() ? "Access key: set" : "Access key";
  strip.hidden = at.first !== "space";
  if (strip.hidden) return strip.replaceChildren();
  const current = SHOWN_AS[at.view] ?? at.view;
  const link = (view) => h("a", { href: `#/${["space", at.space, view].map(encodeURIComponent).join("/")}`, "aria-current": view === current && "page" }, TABS[view]);
  const counts = h("p", { class: "counts" }, "\u00a0");
  strip.replaceChildren(
    h("div", { class: "named" }, h("p", { class: "name" }, at.space), counts),
    h("nav", { "aria-label": "Views of this space" }, Object.keys(TABS).map(link)),
  );
  try {
    const stats = await get(inSpace(at.space), {}, leaving.signal);
    const sessions = Object.values(stats.sessions).reduce((sum, each) => sum + each, 0);
    const figures = [count(stats.cards, "card"), count(sessions, "session"), `${short(stats.history_tokens)} tokens`, size(stats.bytes)];
    counts.replaceChildren(...figures.map((each) => h("span", {}, each)));
  } catch {
    // The view below asks for the same space, and says what is wrong.
  }
}

/** Shows what went wrong, in place. Without a key, the way to enter one. */
function fail(error, place) {
  if (error.name === "AbortError") return;
  if (error.status === 401) {
    const back = location.hash;
    main.replaceChildren(...keyView({ refused: Boolean(key.get()), done: () => (location.hash === back ? show() : go(back)) }));
    strip.hidden = true;
    main.querySelector("input").focus();
    return;
  }
  if (!(error instanceof Error && "status" in error)) console.error(error);
  place.replaceChildren(h("p", { class: "wrong", role: "alert" }, error.message));
  place.setAttribute("aria-busy", "false");
}

function go(hash) {
  if (location.hash === hash) show();
  else location.hash = hash;
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the view's
  main.focus();
});
addEventListener("hashchange", show);
show();
