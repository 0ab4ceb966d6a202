// Lines of text in notebooks end after some 90 letters, as on the site: longer ones tire the eye.
// Code, tables and figures have all the width that there is. JupyterLab has no setting for it, and
// loads a style sheet only from a reader's own folder, so this is an extension.
const css = ".jp-RenderedMarkdown > :is(p, ul, ol, blockquote, details) { max-width: 46rem; }";

// A link to a cell of a notebook that isn't open yet sometimes shows its top, or an empty page:
// JupyterLab 4.6 scrolls before the cells have their heights. So it is told the cell once more.
const CELLS_ARE_LAID_OUT = 1500; // milliseconds

function showCellAgain(app) {
  const onClick = (event) => {
    const [fragment] = event.target.closest?.("a[href]")?.href.match(/#cell-id=[\w-]+/) ?? [];
    if (fragment) {
      setTimeout(() => app.shell.currentWidget?.setFragment?.(fragment), CELLS_ARE_LAID_OUT);
    }
  };
  document.addEventListener("click", onClick, { capture: true }); // JupyterLab stops the event.
}

window._JUPYTERLAB = window._JUPYTERLAB || {};
window._JUPYTERLAB["reading"] = {
  init: () => {},
  get: async () => () => ({
    __esModule: true,
    default: {
      id: "reading:plugin",
      autoStart: true,
      activate: (app) => {
        const style = document.createElement("style");
        style.textContent = css;
        document.head.append(style);
        showCellAgain(app);
      },
    },
  }),
};
