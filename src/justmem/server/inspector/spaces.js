// All spaces that the key opens, and how large each is.

import { get, inSpace } from "./api.js";
import { announce, count, field, h, short, size } from "./dom.js";

const PAGE = 25; // every row opens a space on the server

export function spacesView({ signal, fail }) {
  const list = h("div", { "aria-busy": "true" });
  const words = h("input", { type: "search", autocomplete: "off", spellcheck: "false" });
  const search = h("div", { class: "filters", hidden: true }, field("Name", words));
  let names = [];

  const show = (shown = PAGE) => {
    const wanted = words.value.trim().toLowerCase();
    const found = names.filter((name) => name.toLowerCase().includes(wanted));
    list.setAttribute("aria-busy", "false");
    announce(count(found.length, "space"));
    if (!found.length) {
      list.replaceChildren(h("p", { class: "empty" }, names.length ? "No space has such a name." : nothing()));
      return;
    }
    const left = found.length - shown;
    list.replaceChildren(
      table(found.slice(0, shown), signal),
      left > 0 ? h("button", { type: "button", click: () => show(shown + PAGE) }, `Show ${Math.min(PAGE, left)} more of ${left}`) : "",
    );
  };
  words.addEventListener("input", () => show());
  get("v1/spaces", {}, signal)
    .then((found) => {
      names = found;
      search.hidden = names.length <= PAGE;
      show();
    })
    .catch((error) => fail(error, list));
  return [
    h("h1", {}, "Spaces"),
    h("p", { class: "lead" }, "A space is the memory of one person, separate from all others. Choose one to ask it, read it, or forget parts of it."),
    search,
    list,
  ];
}

function nothing() {
  return ["This key opens no space yet. The first session that you remember makes one: see ",
    h("code", {}, "POST /v1/spaces/{space}/sessions"), " in ", h("a", { href: "openapi.json" }, "openapi.json"), "."]
    .reduce((all, each) => (all.append(each), all), h("span"));
}

function table(names, signal) {
  const rows = names.map((name) => {
    const cells = ["Cards", "Sessions", "Turns", "History", "Spent", "On disk"].map((label) => h("td", { "data-label": label, class: "figure" }, "…"));
    const link = h("a", { href: `#/space/${encodeURIComponent(name)}/ask` }, name);
    return { name, cells, row: h("tr", {}, h("th", { scope: "row" }, link), cells) };
  });
  counted(rows, signal);
  return h("div", { class: "wide" }, h("table", { class: "spaces" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Space"),
      [["Cards"], ["Sessions"], ["Turns"], ["History", "tokens"], ["Spent", "tokens"], ["On disk"]].map(([title, unit]) =>
        h("th", { scope: "col", class: "figure" }, title, unit ? h("small", {}, ` ${unit}`) : "")))),
    h("tbody", {}, rows.map(({ row }) => row))));
}

/** One after the other: a page of spaces should not take all of the server's attention. */
async function counted(rows, signal) {
  for (const { name, cells } of rows) {
    try {
      const stats = await get(inSpace(name), {}, signal);
      const sessions = Object.values(stats.sessions).reduce((sum, each) => sum + each, 0);
      const figures = [short(stats.cards), short(sessions), short(stats.turns), short(stats.history_tokens), short(stats.spent_tokens), size(stats.bytes)];
      figures.forEach((figure, index) => (cells[index].textContent = figure));
      if (stats.sessions.failed) cells[1].append(h("small", { class: "bad" }, ` ${stats.sessions.failed} failed`));
    } catch (error) {
      if (error.name === "AbortError") return;
      cells.forEach((cell) => (cell.textContent = "–"));
      cells[0].title = error.message;
    }
  }
}
