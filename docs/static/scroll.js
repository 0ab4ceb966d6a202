// Where a figure is wider than its box, as on a phone, a line above it says that the box scrolls.

const addHint = (box) => {
  const hint = document.createElement("small");
  hint.className = "scroll-hint";
  hint.textContent = "Swipe sideways for the rest of the figure →";
  box.prepend(hint);
  const tell = () => (hint.hidden = box.scrollWidth - box.clientWidth < 20); // pixels
  new ResizeObserver(tell).observe(box);
};

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("div.cell_output:has(img)").forEach(addHint);
});
