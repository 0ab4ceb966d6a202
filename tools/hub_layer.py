"""Write a repository for the `kernels` library into build/hub: `make hub`.

Each build holds the layer of integrations/hub and a copy of rope_kernels. Builds differ in their
metadata alone: the id, by which Python imports a build, and after which its operators are named.
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/hub"
HERE = "integrations/hub"
BACKENDS = ("cpu", "cuda", "rocm")
LETTERS = 10  # of the digest in an id


def write(folder: Path, root: Path = ROOT) -> None:
    """Write the card and a build for each backend; what an earlier call wrote is replaced.

    Raises:
        ValueError: the folder holds something else.
    """
    builds = folder / "build"
    if folder.exists() and any(folder.iterdir()) and not any(builds.glob("torch-*/metadata.json")):
        raise ValueError(f"{folder} is not empty, and holds no kernel; accepted: a new folder")
    shutil.rmtree(builds, ignore_errors=True)
    files = files_of_a_build(root)
    digest = digest_of(files)
    for backend in BACKENDS:
        build = builds / f"torch-{backend}"
        for name, content in files.items():
            path = build / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        found = metadata(root, backend, digest)
        (build / "metadata.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    shutil.copy(root / HERE / "README.md", folder)


def files_of_a_build(root: Path = ROOT) -> dict[str, bytes]:
    """Name -> content of what all builds have in common."""
    layer = root / HERE / "layer"
    paths = {path.relative_to(layer): path for path in layer.rglob("*.py")}
    package = root / "rope_kernels"
    paths |= {path.relative_to(root): path for path in package.rglob("*.py")}
    # only builds are downloaded, so the notice is in each
    paths[Path("LICENSE")] = root / "LICENSE"
    return {name.as_posix(): paths[name].read_bytes() for name in sorted(paths)}


def digest_of(files: dict[str, bytes]) -> str:
    """Changes with every change of the code, so that two versions can be in one process."""
    found = hashlib.sha256()
    for name, content in files.items():
        found.update(f"{name} {len(content)} ".encode() + content)
    return found.hexdigest()[:LETTERS]


def metadata(root: Path, backend: str, digest: str) -> dict:
    """What the `kernels` library reads before it imports a build."""
    template = json.loads((root / HERE / "metadata.json").read_text(encoding="utf-8"))
    name = template["name"].replace("-", "_")
    return {"id": f"_{name}_{backend}_{digest}", **template, "backend": {"type": backend}}


def main(folder: Path = FOLDER) -> int:
    """Write the repository; 0."""
    write(folder)
    print(f"wrote {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:2])))
