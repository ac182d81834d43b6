// Makes elements of the page, and puts them in place.

// An element with a class, and children that are elements or texts.
export function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

// A letter, and the picture over it once it has been loaded.
export function face(element, key, name, icon = "") {
  let hue = 7;
  for (const letter of key) hue = (hue * 31 + letter.codePointAt(0)) % 360;
  element.style.setProperty("--hue", hue);
  element.textContent = [...name.replace(/^#/, "")][0] || "?";
  if (icon) element.append(Object.assign(document.createElement("img"), { src: icon, alt: "" }));
  return element;
}

// `seq`: the number of a message, by which the session learns that the person has seen the row.
export function keyed(item, key, seq = "") {
  Object.assign(item.dataset, { key, seq });
  return item;
}

// Puts new children in place, and leaves those that are the same: focus and what is read aloud stay.
export function keep(list, children) {
  children.forEach((child, at) => {
    const there = list.children[at];
    if (!there) list.append(child);
    else if (!there.isEqualNode(child)) replace(there, child);
    else reuse(there, child);
  });
  while (list.children.length > children.length) list.lastElementChild.remove();
}

function replace(there, child) {
  const focused = there.contains(document.activeElement);
  there.replaceWith(child);
  if (focused) child.querySelector("button")?.focus();
}

// An equal child has the same gestures, but maybe for another chat.
function reuse(there, child) {
  const [old, now] = [there.querySelectorAll("button"), child.querySelectorAll("button")];
  old.forEach((button, at) => (button.onclick = now[at].onclick));
}
