// What an answer cost, against what the whole history in the prompt would have.

import { count, h, number, svg } from "./dom.js";

const STAGES = ["plan", "answer"];

export function receiptChart(receipt) {
  const most = Math.max(1, receipt.history_tokens, receipt.tokens);
  const wide = (tokens) => (tokens / most) * 100;
  const spent = STAGES.map((stage) => [stage, receipt.calls.filter((call) => call.stage === stage).reduce((sum, call) => sum + call.tokens_in + call.tokens_out, 0)]);
  let x = 0;
  const parts = spent.map(([stage, tokens]) => {
    const part = svg("rect", { class: `stage-${stage}`, x, width: tokens ? Math.max(0.4, wide(tokens)) : 0, height: 10 });
    x += wide(tokens);
    return part;
  });
  const chart = (label, bars) => svg("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("rect", { class: "track", width: 100, height: 10 }), bars);
  const line = (name, tokens, bars) => [h("span", { class: "name" }, name), chart(`${name}: ${count(tokens, "token")}`, bars), h("span", { class: "figure" }, number(tokens))];
  const time = Object.values(receipt.seconds).reduce((sum, each) => sum + each, 0);
  const models = receipt.calls.length ? receipt.calls.map((call) =>
    h("li", {}, `${call.stage}: ${call.model}, ${number(call.tokens_in)} in, ${number(call.tokens_out)} out${call.cached ? `, ${number(call.cached)} cached` : ""}${call.estimated ? ", estimated" : ""}${call.attempts > 1 ? `, ${call.attempts} attempts` : ""}${call.error ? `, ${call.error}` : ""}`)) : h("li", {}, "No language model was called.");
  const local = [...receipt.embedding, ...receipt.reranking].map((use) => h("li", {}, `${use.model}: ${count(use.items, "text")}, ${count(use.tokens, "token")}`));
  return h("section", { class: "receipt", "aria-labelledby": "receipt" }, h("h2", { id: "receipt" }, "Receipt"),
    h("div", { class: "lines" }, line("This answer", receipt.tokens, parts), line("Whole history", receipt.history_tokens, [svg("rect", { class: "history", width: wide(receipt.history_tokens), height: 10 })])),
    h("p", { class: "quiet" }, verdict(receipt)),
    h("details", {}, h("summary", {}, "Calls, models and time"),
      h("ul", { class: "plain" }, models, local,
        h("li", {}, `${Math.round(time * 1000)} ms: `, Object.entries(receipt.seconds).map(([stage, seconds]) => `${stage} ${Math.round(seconds * 1000)}`).join(", ")),
        receipt.notes.map((note) => h("li", {}, note)))));
}

function verdict({ tokens, history_tokens: history }) {
  if (!tokens) return "Language model tokens. Planned and answered by rules: this cost none.";
  if (!history) return "Language model tokens.";
  const share = (tokens / history) * 100;
  return `Language model tokens: ${share < 10 ? share.toFixed(1) : Math.round(share)} % of what the whole history in the prompt would take.`;
}
