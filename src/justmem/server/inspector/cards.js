// Cards: filtered by the server, a page at a time, however many there are.

import { get, inSpace } from "./api.js";
import { announce, count, field, h, number, select } from "./dom.js";
import { href, KINDS, rows, STATUSES } from "./lists.js";

const PAGE = 50;
const MOST = 1000; // cards that match a filter
const FILTERS = ["text", "kind", "status", "subject", "session"];

export function cardsView({ space, query, signal, fail }) {
  const titled = (values) => [["", "any"], ...values.map((each) => [each, each])];
  const input = (type, name) => h("input", { type, autocomplete: "off", spellcheck: "false", value: query.get(name) ?? "" });
  const controls = {
    text: input("search", "text"),
    kind: select(titled(KINDS), query.get("kind")),
    status: select(titled(STATUSES), query.get("status")),
    subject: input("text", "subject"),
    session: input("text", "session"),
    order: select([["", "newest first"], ["oldest", "oldest first"]], query.get("order")),
  };
  const list = h("div", { class: "results" });
  const filter = () => Object.fromEntries(FILTERS.map((name) => [name, controls[name].value.trim()]));
  let page = Math.max(0, Number(query.get("page") ?? 1) - 1);
  let asked = new AbortController();
  signal.addEventListener("abort", () => asked.abort());

  const load = async (moved = false) => {
    asked.abort();
    asked = new AbortController();
    list.setAttribute("aria-busy", "true");
    const where = filter();
    const newest = controls.order.value === "";
    const own = { ...where, order: controls.order.value, page: page ? page + 1 : "" };
    if (moved) history.pushState(null, "", href(space, "cards", undefined, own));
    try {
      const found = await pageOf(space, where, page, newest, asked.signal);
      list.replaceChildren(...shown(space, found, page, where, (to) => ((page = to), load(true).then(top))));
      announce(found.total ? `${count(found.total, "card")}, page ${page + 1}` : "No cards match.");
    } catch (error) {
      fail(error, list);
    }
    list.setAttribute("aria-busy", "false");
  };
  const top = () => list.querySelector(".summary")?.focus();
  const changed = () => ((page = 0), load(true));
  let typing;
  const form = h("form", { class: "filters", role: "search", "aria-label": "Cards",
    submit: (event) => (event.preventDefault(), clearTimeout(typing), changed()),
    change: (event) => event.target.tagName === "SELECT" && changed(),
    input: (event) => {
      if (event.target.tagName === "SELECT") return;
      clearTimeout(typing);
      typing = setTimeout(changed, 300);
    } },
    field("Words", controls.text), field("Kind", controls.kind), field("Status", controls.status),
    field("Subject", controls.subject), field("Session", controls.session), field("Order", controls.order),
    h("button", { class: "unseen" }, "Show"));
  load();
  return [h("h1", {}, "Cards"), form, list];
}

/** The server lists by time, oldest first. It counts all cards, but not those that match a filter. */
async function pageOf(space, where, page, newest, signal) {
  const ask = (offset, limit) => get(inSpace(space, "cards"), { ...where, offset, limit }, signal);
  const filtered = FILTERS.some((name) => where[name]);
  const matching = filtered && (await ask(0, MOST));
  const total = filtered ? matching.length : (await get(inSpace(space), {}, signal)).cards;
  const start = newest ? Math.max(0, total - (page + 1) * PAGE) : page * PAGE;
  const end = newest ? Math.max(0, total - page * PAGE) : Math.min(total, start + PAGE);
  const cards = filtered ? matching.slice(start, end) : end > start ? await ask(start, end - start) : [];
  return { cards: newest ? cards.toReversed() : cards, total };
}

function shown(space, { cards, total }, page, where, turn) {
  if (!cards.length) {
    const filtered = FILTERS.some((name) => where[name]);
    return [h("p", { class: "empty" }, filtered ? "No cards match. Give the whole subject or session id. A card must contain all words." : "Nothing is remembered in this space yet.")];
  }
  const from = page * PAGE + 1;
  const last = Math.ceil(total / PAGE) - 1;
  const range = total > cards.length ? `${number(from)}–${number(from + cards.length - 1)} of ${count(total, "card")}` : count(total, "card");
  const step = (text, to) => h("button", { type: "button", disabled: to < 0 || to > last || to === page, click: () => turn(to) }, text);
  const pager = last > 0 && h("nav", { class: "pager", "aria-label": "Pages" },
    step("First", 0), step("Previous", page - 1), h("span", {}, `Page ${number(page + 1)} of ${number(last + 1)}`), step("Next", page + 1), step("Last", last));
  return [h("p", { class: "summary", tabindex: "-1" }, range), rows(space, cards, { start: from }), pager].filter(Boolean);
}
