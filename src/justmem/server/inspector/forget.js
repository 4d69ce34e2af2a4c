// Forgetting: a preview first, then the confirmation, and a certificate on request.

import { erase, get, inSpace, post, stale } from "./api.js";
import { announce, count, field, h } from "./dom.js";
import { rows } from "./lists.js";

const CHOICES = {
  card: ["One card", "Card id"],
  turn: ["One turn", "Turn, as in chat-17#3"],
  session: ["One session", "Session id"],
  period: ["A period", "Days, as in 2024-05-01/2024-05-31"],
  subject: ["A subject", "Subject"],
  everything: ["The whole space", ""],
};
const KEEPS = {
  card: "The conversation it comes from stays. To forget what was said, forget its turn.",
  turn: "Forgets its words and the cards that it supports. The other turns keep their numbers.",
  period: "Forgets the sessions of these days, and turns of these days in sessions that lasted longer, with their cards.",
  session: "Forgets its words, its cards and their search index.",
  subject: "Forgets the cards about it or naming it, the turns that support them, and the turns and labels that name it.",
  everything: "Forgets all words, cards and counts of this space, and the space itself.",
};

export function forgetView(context) {
  const { query } = context;
  const given = Object.keys(CHOICES).find((each) => query.get(each)) ?? "card";
  const radios = Object.entries(CHOICES).map(([value, [label]]) =>
    h("label", {}, h("input", { type: "radio", name: "what", value, checked: value === given }), label));
  const named = h("input", { type: "text", autocomplete: "off", spellcheck: "false", required: true, value: query.get(given) ?? "" });
  const place = field(CHOICES[given][1] || "Name", named);
  const result = h("div", { class: "forgetting" });
  const chosen = () => form.querySelector("input[name=what]:checked").value;
  const switched = () => {
    place.hidden = chosen() === "everything";
    named.required = !place.hidden;
    named.value = "";
    place.querySelector("label").textContent = CHOICES[chosen()][1];
    result.replaceChildren();
  };
  const submit = async (event) => {
    event?.preventDefault();
    const what = { kind: chosen(), name: named.value.trim() };
    result.setAttribute("aria-busy", "true");
    await preview(context, what, result).catch((error) => context.fail(error, result));
    result.setAttribute("aria-busy", "false");
  };
  const form = h("form", { class: "forget", submit },
    h("fieldset", { class: "choices", change: switched }, h("legend", {}, "What to forget"), radios),
    place,
    h("div", { class: "actions" }, h("button", { class: "main" }, "Preview")));
  if (named.value) submit();
  return [h("h1", {}, "Forget"), h("p", { class: "lead" }, "Forgetting cannot be undone: the words are erased on disk too. You see a preview first."), form, result];
}

/** As the server takes it. */
function asked(what) {
  if (what.kind !== "period") return { [what.kind]: what.name };
  const [since, until = since] = what.name.split("/").map((each) => each.trim());
  return Object.fromEntries(Object.entries({ since, until }).filter(([, each]) => each));
}

async function preview(context, what, result) {
  const { space, signal } = context;
  const { forgotten, cards, labels = [] } = what.kind === "everything" ? await whole(space, signal)
    : await post(inSpace(space, "forget"), { ...asked(what), preview: true }, signal);
  const parts = told(forgotten);
  const heading = h("h2", { tabindex: "-1" }, parts ? `This would forget ${parts}` : "There is nothing to forget");
  result.replaceChildren(heading);
  heading.focus();
  announce(heading.textContent);
  if (!parts) return;
  const sure = h("input", { type: "text", autocomplete: "off", spellcheck: "false", required: true });
  const verify = h("input", { type: "checkbox", id: "f-verify" });
  const button = h("button", { class: "main danger" }, `Forget ${parts}`);
  const submit = async (event) => {
    event.preventDefault();
    if (what.kind === "everything" && sure.value !== space) {
      sure.setCustomValidity("This is not the name of the space.");
      sure.reportValidity();
      return;
    }
    button.disabled = true;
    try {
      await letGo(context, { ...what, verify: verify.checked }, result);
    } catch (error) {
      context.fail(error, wrong);
      button.disabled = false;
    }
  };
  sure.addEventListener("input", () => sure.setCustomValidity(""));
  const wrong = h("div");
  result.append(
    h("p", {}, KEEPS[what.kind]),
    cards.length ? rows(space, cards) : "",
    labels.length ? h("p", {}, `Labels: ${labels.join(", ")}`) : "",
    forgotten.cards > cards.length && cards.length ? h("p", { class: "quiet" }, `and ${count(forgotten.cards - cards.length, "more card")}`) : "",
    h("form", { class: "confirm", submit },
      what.kind === "everything" ? field(`To go on, type the name of the space: ${space}`, Object.assign(sure, { id: "f-sure" })) : "",
      h("p", { class: "choices" }, h("label", { for: "f-verify" }, verify, "Search the disk for it afterwards and show a certificate")),
      wrong,
      h("div", { class: "actions" }, button, h("button", { type: "button", click: () => (result.replaceChildren(), document.querySelector("form.forget button").focus()) }, "Cancel"))));
}

async function whole(space, signal) {
  const stats = await get(inSpace(space), {}, signal);
  const sessions = Object.values(stats.sessions).reduce((sum, each) => sum + each, 0);
  return { forgotten: { cards: stats.cards, sessions, turns: stats.turns }, cards: [] };
}

const told = ({ cards, sessions, turns, labels }) =>
  [cards && count(cards, "card"), sessions && count(sessions, "session"), turns && count(turns, "turn"), labels && count(labels, "label")].filter(Boolean).join(", ");

async function letGo(context, what, result) {
  const done = what.kind === "everything" ? await erase(inSpace(context.space), { verify: what.verify })
    : (await post(inSpace(context.space, "forget"), { ...asked(what), verify: what.verify })).forgotten;
  stale();
  const heading = h("h2", { tabindex: "-1" }, `Forgotten: ${told(done) || "nothing"}`);
  result.replaceChildren(heading, done.certificate ? certificate(done.certificate) : "",
    what.kind === "everything" ? h("p", {}, h("a", { href: "#/" }, "To the spaces")) : "");
  heading.focus();
  announce(heading.textContent);
  if (what.kind !== "everything") context.counted();
}

function certificate(proof) {
  const held = Object.keys(proof.held).length;
  return h("details", { class: "certificate", open: true }, h("summary", {}, "Certificate"),
    h("p", {}, `${count(proof.digests.length, "text")} and ${count(proof.vectors, "vector")} deleted. Searched: ${count(proof.files.length, "file")}, ${count(proof.tables.length, "table")}, ${count(proof.bytes, "byte")}. Remains: ${proof.remains}.`,
      held ? ` ${count(held, "text")} of them is still said elsewhere in memory.` : ""),
    h("pre", {}, JSON.stringify(proof, null, 1)));
}
