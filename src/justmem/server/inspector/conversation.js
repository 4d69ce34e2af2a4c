// A conversation, with the words that something rests on marked in it.

import { day, h, moment, time } from "./dom.js";

/** Offsets count characters as people and Python do; a string here counts UTF-16 units. */
export function marked(text, spans) {
  const letters = Array.from(text);
  const parts = [];
  let at = 0;
  for (const { start, end } of [...spans].sort((a, b) => a.start - b.start)) {
    if (start < at || end > letters.length || start >= end) continue;
    parts.push(letters.slice(at, start).join(""), h("mark", {}, letters.slice(start, end).join("")));
    at = end;
  }
  parts.push(letters.slice(at).join(""));
  return parts.filter((part) => part !== "");
}

/** `turns`: [number, turn] pairs; `cited`: citations into them. */
export const conversation = (turns, cited = []) => h("ol", { class: "turns" },
  turns.map(([number, turn]) => one(number, turn, cited.filter((each) => each.turn === number))));

function one(number, turn, cited) {
  return h("li", { class: `turn ${turn.role}`, "data-turn": number },
    h("p", { class: "speaker" }, h("b", {}, turn.speaker), h("span", {}, `turn ${number}`), turn.at ? time(turn.at) : ""),
    turn.forgotten ? h("p", { class: "text quiet" }, "forgotten") : h("p", { class: "text" }, marked(turn.text, cited)));
}

export const whole = (session) => session.turns.map((turn, index) => [index + 1, turn]);

export function quoteOf(citation) {
  if (!citation.kept) return [h("span", { class: "by" }, `The words are not kept; said ${day(citation.said_at)}, turn ${citation.turn}`)];
  return [h("q", {}, citation.quote), h("span", { class: "by" }, `${citation.speaker}, ${day(citation.said_at)}, turn ${citation.turn}`)];
}

export const toMark = (place, smooth = false) => place.querySelector("mark")?.scrollIntoView({ block: "center", behavior: smooth ? "smooth" : "auto" });
export const dated = (session) => `Conversation of ${moment(session.at)}`;
