// A button on each block of code that copies it. It comes with the page, from no other host.

const copyText = async (text) => {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // a page opened from a file, or over http, has no clipboard of its own
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
};

const addButton = (block) => {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy-code";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy this code");
  button.addEventListener("click", async () => {
    await copyText(block.querySelector("pre").textContent.trimEnd());
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  block.append(button);
};

document.addEventListener("DOMContentLoaded", () => {
  const inputs = ".cell_input div.highlight, div[class*=highlight-]:not(.cell *) > div.highlight";
  document.querySelectorAll(inputs).forEach(addButton);
});
