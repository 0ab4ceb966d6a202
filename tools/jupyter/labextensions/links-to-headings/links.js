// JupyterLab 4.6 follows a link to a heading as soon as it has opened the notebook. Its cells have
// no height yet, so it stays at the top. This follows the link again whenever the cells have grown,
// until the reader does something. It is what JupyterLab loads: there is no build step.

async function followAgain(app, { path, id }) {
  const panel = [...app.shell.widgets("main")].find((widget) => widget.context?.path === path);
  const cells = panel?.content.viewportNode; // only notebooks have one
  if (!id || !cells) return;
  await panel.revealed;
  const growth = new ResizeObserver(() => panel.setFragment(id));
  const stop = () => growth.disconnect();
  growth.observe(cells); // which calls it once, grown or not
  setTimeout(stop, 5000);
  for (const event of ["wheel", "pointerdown", "keydown"])
    document.addEventListener(event, stop, { capture: true, once: true });
}

const plugin = {
  id: "links-to-headings:plugin",
  autoStart: true,
  activate: (app) =>
    app.commands.commandExecuted.connect(async (_, { id, args, result }) => {
      if (id !== "rendermime:handle-local-link") return;
      await result;
      await followAgain(app, args);
    }),
};

(window._JUPYTERLAB ??= {})["links-to-headings"] = {
  init: () => {},
  get: async () => () => ({ __esModule: true, default: plugin }),
};
