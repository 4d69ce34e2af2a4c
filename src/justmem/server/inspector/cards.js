// Cards: filtered by the server, a page at a time, however many there are.

import { get, inSpace } from "./api.js";
import { announce, count, field, h, number, select } from "./dom.js";
import { href, KINDS, rows, STATUSES } from "./lists.js";

const PAGE = 50;
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

/** The server lists by time and knows no total, so the newest page is found from the end. */
async function pageOf(space, where, page, newest, signal) {
  const ask = (offset, limit) => get(inSpace(space, "cards"), { ...where, offset, limit }, signal);
  if (!newest || page === 0) {
    const first = await ask(newest ? 0 : page * PAGE, PAGE);
    if (first.next === null && (page === 0 || !newest)) {
      const cards = newest ? first.cards.toReversed() : first.cards;
      return { cards, total: page * PAGE + cards.length };
    }
    if (!newest) return { cards: first.cards, total: await total(space, where, ask, first.next, signal) };
  }
  const all = await total(space, where, ask, 0, signal);
  const end = Math.max(0, all - page * PAGE);
  const start = Math.max(0, end - PAGE);
  const found = end ? await ask(start, end - start) : { cards: [] };
  return { cards: found.cards.toReversed(), total: all };
}

const totals = new Map(); // by space and filter: turning a page should not count again
addEventListener("stale", () => totals.clear());

async function total(space, where, ask, known, signal) {
  const given = FILTERS.filter((name) => where[name]);
  const stats = await get(inSpace(space), {}, signal);
  if (given.length === 0) return stats.cards;
  if (given.length === 1 && given[0] === "kind") return stats.kinds[where.kind] ?? 0;
  const name = JSON.stringify([space, stats.cards, where]);
  if (!totals.has(name)) totals.set(name, await counted(ask, known, stats.cards));
  return totals.get(name);
}

/** The number of cards, between `low` and `high`, by binary search. */
async function counted(ask, low, high) {
  while (low < high) {
    const middle = (low + high) >> 1;
    const { cards, next } = await ask(middle, 250);
    if (next !== null) low = next;
    else if (cards.length) return middle + cards.length;
    else high = middle;
  }
  return low;
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
