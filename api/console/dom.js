// How elements are made: text goes in as text, so nothing that a message holds can become markup.

const SVG = "http://www.w3.org/2000/svg";
const handlers = Symbol("handlers");

/**
 * An element. Attributes that are null, undefined or false are left out; `onclick` and its like are functions.
 * Children are nodes, text, numbers, lists of them; null, undefined and false are left out.
 */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") {
      element[name] = value;
      (element[handlers] ??= []).push(name);
    } else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/**
 * Make `element` hold what `children` show, and leave alone what already does: focus, selection, scroll and open
 * details survive a refresh. Elements are matched by `data-key`, else by their place.
 */
export function show(element, ...children) {
  const wanted = document.createElement("div");
  append(wanted, children);
  patchChildren(element, wanted);
}

function patchChildren(old, wanted) {
  const keyed = new Map();
  for (const child of old.children) {
    if (child.dataset.key !== undefined) keyed.set(child.dataset.key, child);
  }
  let place = old.firstChild;
  for (const next of [...wanted.childNodes]) {
    const key = next.dataset?.key;
    const known = key === undefined ? place : keyed.get(key);
    if (!known || !isAlike(known, next)) {
      old.insertBefore(next, place);
      continue;
    }
    if (known === place) place = place.nextSibling;
    else old.insertBefore(known, place);
    patch(known, next);
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

function isAlike(old, next) {
  return old.nodeType === next.nodeType && old.nodeName === next.nodeName && old.dataset?.key === next.dataset?.key;
}

function patch(old, next) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
  }
  for (const name of old[handlers] ?? []) old[name] = null;
  for (const name of next[handlers] ?? []) old[name] = next[name];
  old[handlers] = next[handlers];
  patchChildren(old, next);
}
