// What links do, and where lines break, in JupyterLab as `make lab` starts it. It is what JupyterLab
// loads: there is no build step.

const FOLLOW = "rendermime:handle-local-link";

// README and docs/ link the original notebooks. A reader works in copies, and JupyterLab would save
// into an original, which git tracks. An original's own links stay among the originals.
async function toTheCopy(app, args) {
  const from = app.shell.currentWidget?.context?.path ?? "";
  if (from.startsWith("notebooks/") || !args.path.startsWith("notebooks/")) return args;
  const path = `my_${args.path}`;
  const found = app.serviceManager.contents.get(path, { content: false });
  return found.then(
    () => ({ ...args, path }),
    () => args, // there is no copy
  );
}

// JupyterLab 4.6 follows a link to a heading as soon as it has opened the notebook. Its cells have
// no height yet, so it stays at the top. This follows the link again whenever the cells have grown,
// until the reader does something.
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

// JupyterLab breaks a long line of an output, such as a kernel's source, inside a word.
function breakBetweenWords() {
  const style = document.createElement("style");
  style.textContent = ".jp-NotebookPanel .jp-OutputArea-output pre { word-break: normal; }";
  document.head.append(style);
}

const plugin = {
  id: "reader:plugin",
  autoStart: true,
  activate: (app) => {
    breakBetweenWords();
    const execute = app.commands.execute.bind(app.commands);
    app.commands.execute = (id, args) =>
      id === FOLLOW ? toTheCopy(app, args).then((mine) => execute(id, mine)) : execute(id, args);
    app.commands.commandExecuted.connect(async (_, { id, args, result }) => {
      if (id !== FOLLOW) return;
      await result;
      await followAgain(app, args);
    });
  },
};

(window._JUPYTERLAB ??= {})["reader"] = {
  init: () => {},
  get: async () => () => ({ __esModule: true, default: plugin }),
};
