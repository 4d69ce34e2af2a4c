// Elements, made without ever parsing text as HTML: what was remembered can only be shown.

const SVG = "http://www.w3.org/2000/svg";

/** h("p", {class: "quiet"}, "text", node): strings become text nodes, functions listeners. */
export function h(name, props = {}, ...children) {
  return filled(document.createElement(name), props, children);
}

export function svg(name, props = {}, ...children) {
  return filled(document.createElementNS(SVG, name), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** A labelled control; `hint` stands below it and is read with it. */
export function field(label, control, hint) {
  control.id ||= `f-${label.toLowerCase().replaceAll(/\W+/g, "-")}`;
  const parts = [h("label", { for: control.id }, label), control];
  if (hint) {
    control.setAttribute("aria-describedby", `${control.id}-hint`);
    parts.push(h("p", { class: "hint", id: `${control.id}-hint` }, hint));
  }
  return h("div", { class: "field" }, parts);
}

export function select(options, chosen) {
  return h(
    "select",
    {},
    options.map(([value, text]) => h("option", { value, selected: value === (chosen ?? "") }, text)),
  );
}

/** Tells a screen reader what has changed elsewhere on the page. */
export function announce(text) {
  document.getElementById("said").textContent = text;
}

// ---------------------------------------------------------------- figures and dates

const NUMBER = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const number = (value) => NUMBER.format(value);
export const short = (value) => (value < 10_000 ? NUMBER.format(value) : SHORT.format(value));
export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

export function size(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let step = 0;
  while (bytes >= 1000 && step < units.length - 1) [bytes, step] = [bytes / 1000, step + 1];
  return `${step && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${units[step]}`;
}

const MONTHS = "January February March April May June July August September October November December".split(" ");

/** Times are those of the clock on the speaker's wall: taken apart as text, never shifted. */
export function day(text) {
  const [, year, month, date] = /^(\d{4})-(\d{2})(?:-(\d{2}))?/.exec(text) ?? [];
  if (!year) return text;
  const name = MONTHS[month - 1];
  return date ? `${Number(date)} ${name.slice(0, 3)} ${year}` : `${name} ${year}`;
}

export function moment(text) {
  const clock = text.slice(11, 16);
  return clock && clock !== "00:00" ? `${day(text)}, ${clock}` : day(text);
}

export const time = (text, shown = moment(text)) => h("time", { datetime: text }, shown);
