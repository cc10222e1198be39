/** An element: properties (`class`, `on...`, `aria-...`, others as attributes) and children, whose text stays text. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

export function svg(tag, properties = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  return made;
}

export function byId(id) {
  return document.getElementById(id);
}

/** A name out of a model: set apart, so that nothing in it turns the text around. */
export function nameText(text, whole = text) {
  return element("bdi", { class: "name-text", title: whole !== text || text.length > 60 ? whole : null }, text);
}

/** A name that loses its beginning where there is no room: names of one model begin alike. */
export function tailText(text, whole) {
  return element("span", { class: "tail" }, nameText(text, whole));
}

export function pairs(rows) {
  return element("dl", { class: "pairs" }, rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

export function meter(share, ours = false) {
  const filled = element("span");
  filled.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  return element("div", { class: ours ? "meter ours" : "meter", "aria-hidden": "true" }, filled);
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function swatch(name, round = false) {
  const made = element("span", { class: round ? "swatch round" : "swatch", "aria-hidden": "true" });
  made.style.background = `var(--${name})`;
  return made;
}

/** A placement by colour and name; where it is narrow, by its short name. */
export function placeText(placement, name, short) {
  const texts = [element("span", { class: "full" }, name), element("span", { class: "short", "aria-hidden": "true" }, short)];
  return element("span", { class: "place" }, swatch(placement), texts);
}

/** A table from header cells and rows of cells; `numeric` columns stand to the right. */
export function table(header, rows, numeric = []) {
  const cell = (tag) => (content, at) =>
    element(tag, { class: numeric.includes(at) ? "number" : null, scope: tag === "th" ? "col" : null }, content);
  const body = rows.map((row) => element("tr", {}, row.map(cell("td"))));
  return element("table", {}, element("thead", {}, element("tr", {}, header.map(cell("th")))), element("tbody", {}, body));
}

export function scrolled(content, label) {
  return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, content);
}
