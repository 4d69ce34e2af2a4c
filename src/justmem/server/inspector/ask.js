// A question, and everything between it and its answer.

import { get, inSpace, post } from "./api.js";
import { conversation, quoteOf } from "./conversation.js";
import { announce, count, day, field, h, moment } from "./dom.js";
import { rows, tags, told, when } from "./lists.js";
import { receiptChart } from "./receipt.js";
import { openSource } from "./source.js";

const kept = new Map(); // by space: leaving to look at a source must not cost an answer
addEventListener("stale", () => kept.clear());

export function askView({ space, signal, fail }) {
  if (kept.has(space)) return kept.get(space);
  const question = h("textarea", { rows: 2, required: true, maxlength: 100_000, placeholder: "For example: Where do I live?" });
  const at = h("input", { type: "datetime-local" });
  const speaker = h("input", { type: "text", autocomplete: "off", maxlength: 200 });
  const result = h("div", { class: "asked" });
  let asked = new AbortController();
  const submit = async (event) => {
    event.preventDefault();
    asked.abort();
    asked = new AbortController();
    kept.set(space, view);
    const button = form.querySelector("button.main");
    button.disabled = true;
    result.setAttribute("aria-busy", "true");
    try {
      const body = { question: question.value.trim(), candidates: true };
      if (at.value) body.at = at.value;
      if (speaker.value.trim()) body.speaker = speaker.value.trim();
      await answered(space, body, result, asked.signal);
    } catch (error) {
      fail(error, result);
    }
    result.setAttribute("aria-busy", "false");
    button.disabled = false;
  };
  question.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) (event.preventDefault(), form.requestSubmit());
  });
  const form = h("form", { class: "ask", submit },
    field("Your question", question),
    h("div", { class: "send" }, h("button", { class: "main" }, "Ask"),
      h("details", {}, h("summary", {}, "Time and speaker"),
        h("div", { class: "filters" },
          field("Asked at", at, "Default: now. Later sessions are left out."),
          field("Speaker", speaker, "Who asks: “my” refers to them. Default: the person most cards are about.")))));
  const view = [h("h1", {}, "Ask"), form, result];
  known(space, result, signal);
  signal.addEventListener("abort", () => kept.size > 8 && kept.delete(kept.keys().next().value));
  return view;
}

/** Before the first question: what memory holds on the person whom most cards are about. */
async function known(space, result, signal) {
  try {
    const { subject, cards } = await get(inSpace(space, "profile"), {}, signal);
    if (!result.childElementCount) result.append(h("h2", {}, `What memory holds on ${subject}`), rows(space, cards));
  } catch {
    // It has no such person, or no space: the answer will say so.
  }
}

/** Fills `result`: the answer above, how it came about below. */
async function answered(space, body, result, signal) {
  result.replaceChildren(h("p", { class: "answer waiting" }, "Answering…"));
  const answer = await post(inSpace(space, "ask"), body, signal);
  result.replaceChildren(
    h("section", { "aria-labelledby": "answer" }, h("h2", { id: "answer", class: "unseen" }, "Answer"),
      h("p", { class: answer.sufficient ? "answer" : "answer insufficient" }, answer.text),
      h("div", {}, citations(space, answer))),
    h("div", {}, receiptChart(answer.receipt)),
    h("div", { class: "steps" }, planned(answer.evidence), found(space, answer.evidence)));
  announce(`${answer.text} ${count(answer.citations.length, "citation")}.`);
}

function citations(space, { citations: list, sufficient }) {
  if (!list.length) return sufficient ? [h("p", { class: "quiet" }, "No exact words are cited.")] : [];
  return [h("ol", { class: "citations", "aria-label": "Citations" }, list.map((each, index) =>
    h("li", {}, h("button", { type: "button", class: "citation", click: () => openSource(space, { citations: [each] }) },
      h("span", { class: "unseen" }, `Citation ${index + 1}: `), quoteOf(each)))))];
}

// ---------------------------------------------------------------- how it came about

const WHY = {
  REPLAY: "The answer needs the original words (f), so the conversations behind the cards are read too.",
  COMPOSE: "The evidence may be in several sessions (d), so the search also uses rewrites of the question.",
  LOOKUP: "The answer needs neither the original words (f) nor several sessions (d), so the nearest cards are read.",
};

function planned({ access, plan }) {
  const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return h("section", {}, h("h2", {}, "Plan"),
    h("p", { class: "access" }, h("strong", {}, access), " ", WHY[access]),
    h("dl", { class: "facts" },
      fact("Operation", plan.operation),
      plan.entities.length ? fact("About", plan.entities.join(", ")) : "",
      plan.period.text !== "unknown" ? fact("Period", plan.period.text.split("/").map(day).join(" – ")) : "",
      fact("Spans sessions (d)", plan.spans_sessions ? "yes" : "no"),
      fact("Needs the source (f)", plan.needs_source ? "yes" : "no")),
    plan.rewrites.length ? h("div", {}, h("h3", {}, "Also searched for"), h("ul", { class: "plain" }, plan.rewrites.map((each) => h("li", {}, each)))) : "");
}

function found(space, evidence) {
  const all = evidence.candidates ?? [];
  const sections = [h("section", {}, h("h2", {}, `Chosen: ${count(evidence.chosen.length, "card")}`),
    h("p", { class: "quiet" }, `Of ${count(all.length, "candidate")}, as of ${moment(evidence.at)}. A card counts less if another card of its session was chosen before, so the scores are not always in order.`),
    evidence.chosen.length ? scored(space, evidence.chosen, "Chosen cards and their scores") : "")];
  const ids = (cards) => new Set(cards.map((card) => card.id));
  const chosen = ids(evidence.chosen.map((each) => each.card)), read = ids(evidence.cards);
  const left = all.filter((each) => !chosen.has(each.card.id));
  const near = left.filter((each) => read.has(each.card.id)), rest = left.filter((each) => !read.has(each.card.id));
  if (near.length) sections.push(h("section", {}, h("h2", {}, `Read with them: ${count(near.length, "card")}`),
    h("p", { class: "quiet" }, "Said within a few turns of a chosen card."),
    scored(space, near, "Cards read with the chosen ones, and their scores", chosen.size)));
  if (evidence.sources.length) sections.push(recovered(evidence.sources));
  if (rest.length) sections.push(h("section", {}, h("details", {}, h("summary", {}, h("h2", {}, `Passed over: ${count(rest.length, "candidate")}`)),
    scored(space, rest, "Candidates that were not chosen, and their scores", chosen.size + near.length))));
  return sections;
}

const MEANING = { dense: "nearness of meaning, compared with the other candidates", lexical: "shared words", turn: "nearness of the turns it rests on", rerank: "what the reranker says" };

function scored(space, candidates, caption, before = 0) {
  const names = Object.keys(MEANING).filter((name) => candidates.some((each) => name in each.scores));
  const figure = (value) => (value === undefined ? "–" : value.toFixed(2));
  return h("table", { class: "scored" }, h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, h("span", { class: "unseen" }, "Rank")), h("th", { scope: "col" }, "Card"), h("th", { scope: "col", class: "figure" }, "Score"),
      names.map((name) => h("th", { scope: "col", class: "figure signal", title: MEANING[name] }, name)))),
    h("tbody", {}, candidates.map((each, index) => h("tr", {},
      h("td", { class: "rank" }, String(before + index + 1)),
      h("th", { scope: "row" },
        h("button", { type: "button", class: "link told", click: () => openSource(space, { card: each.card }) }, told(each.card)),
        h("p", { class: "tags" }, when(each.card), tags(each.card))),
      h("td", { class: "figure" }, figure(each.score)),
      names.map((name) => h("td", { class: "figure signal" }, figure(each.scores[name])))))));
}

function recovered(sources) {
  return h("section", {}, h("h2", {}, "Recovered source"),
    sources.map((source, index) => h("details", { open: index === 0 },
      h("summary", {}, `${source.whole ? "The whole conversation" : count(source.turns.length, "turn")} of ${moment(source.at)}, ${count(source.tokens, "token")}`),
      conversation(source.turns))));
}
