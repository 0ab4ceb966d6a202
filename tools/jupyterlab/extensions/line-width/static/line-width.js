// Lines of text in notebooks end after some 90 letters, as on the site: longer ones tire the eye.
// Code, tables and figures have all the width that there is. JupyterLab has no setting for it, and
// loads a style sheet only from a reader's own folder, so this is an extension.
const css = ".jp-RenderedMarkdown > :is(p, ul, ol, blockquote, details) { max-width: 46rem; }";

window._JUPYTERLAB = window._JUPYTERLAB || {};
window._JUPYTERLAB["line-width"] = {
  init: () => {},
  get: async () => () => ({
    __esModule: true,
    default: {
      id: "line-width:plugin",
      autoStart: true,
      activate: () => {
        const style = document.createElement("style");
        style.textContent = css;
        document.head.append(style);
      },
    },
  }),
};
