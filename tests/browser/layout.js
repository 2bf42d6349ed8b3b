// What is wrong with the layout of the page, a sentence each. The page is measured as it stands.
const problems = [];
const width = document.documentElement.clientWidth;
const describe = (element) =>
  `${element.tagName.toLowerCase()}.${element.className} "${element.textContent.trim().slice(0, 40)}"`;

// A box that scrolls sideways and shows it: its shadows stay at its edges while its content moves.
const scrolls = (element) => {
  const style = getComputedStyle(element);
  return ["auto", "scroll"].includes(style.overflowX) && element.scrollWidth > element.clientWidth;
};
const shows = (element) => {
  const layers = getComputedStyle(element).backgroundAttachment;
  return layers.includes("local") && layers.includes("scroll");
};
const scroller = (element) => {
  for (let e = element.parentElement; e; e = e.parentElement) if (scrolls(e) && shows(e)) return e;
  return null;
};

for (const element of document.body.querySelectorAll("*")) {
  if (!element.checkVisibility()) continue;
  const box = element.getBoundingClientRect();
  if ((box.right > width + 0.5 || box.left < -0.5) && !scroller(element))
    problems.push(`from ${box.left} to ${box.right}: ${describe(element)}`);
  // Content that is wider than its box is cut off, or lies over its neighbour.
  if (element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0 && !(scrolls(element) && shows(element)))
    if (getComputedStyle(element).display !== "inline")
      problems.push(`${element.scrollWidth} in ${element.clientWidth}: ${describe(element)}`);
  const cell = element.closest("td");
  if (cell && element !== cell) {
    const around = cell.getBoundingClientRect();
    if (box.right > around.right + 0.5 || box.left < around.left - 0.5)
      problems.push(`outside of its cell: ${describe(element)}`);
  }
}

// Names may break anywhere; numbers may not. The hyphen in a file's name is not a sign.
const number = /(?:(?<!\w)[−+-])?\d+(?:[.,]\d+)*(?:e[+−-]?\d+)?/gi;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let numbers = 0;
while (walker.nextNode()) {
  const node = walker.currentNode;
  if (!node.parentElement.checkVisibility() || node.parentElement.closest(".words")) continue;
  for (const found of node.data.matchAll(number)) {
    const range = document.createRange();
    range.setStart(node, found.index);
    range.setEnd(node, found.index + found[0].length);
    const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
    numbers += 1;
    if (lines.size > 1) problems.push(`${found[0]} is on ${lines.size} lines: ${describe(node.parentElement)}`);
  }
}
return { problems, numbers, scrolling: [...document.querySelectorAll(".scroll")].filter(scrolls).length };
