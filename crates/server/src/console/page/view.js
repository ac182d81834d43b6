// Elements, tables and figures. Every text becomes text, never markup.

// The most rows that a table shows.
const ROWS = 100;

export const $ = (id) => document.getElementById(id);

export function make(name, look, ...children) {
  const element = document.createElement(name);
  if (look) element.className = look;
  element.append(...children);
  return element;
}

// Shows rows `{ look, cells }`, of which a cell is a text or an element, in the element with this id.
export function table(id, caption, columns, rows) {
  const shown = rows.slice(0, ROWS).map(({ look = "", cells }) => make("tr", look, ...cells.map((cell) => make("td", "", cell))));
  const head = make("thead", "", make("tr", "", ...columns.map((name) => Object.assign(make("th", "", name), { scope: "col" }))));
  const all = make("table", "", head, make("tbody", "", ...shown));
  const more = rows.length > ROWS ? `${caption} (${ROWS} of ${rows.length})` : caption;
  if (more) all.prepend(make("caption", "", more));
  const present = $(id).firstElementChild;
  // An equal table stays, so that a selected text does.
  if (!present?.isEqualNode(all)) $(id).replaceChildren(all);
}

// The seconds of a duration such as "1.500s"; undefined if there is none.
export const seconds = (text) => (text === undefined ? undefined : Number.parseFloat(text));

export function time(value) {
  if (value === undefined) return "";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 120) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  return value < 7200 ? `${Math.round(value / 60)} min` : `${Math.round(value / 3600)} h`;
}

export const count = (value) => Number(value).toLocaleString("en");
