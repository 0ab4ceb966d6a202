"""The child process of `lab.compile`: a job on standard input, `result.json` in a folder."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import create_function_from_signature

HEADER = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice

"""
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


class Memory:
    """A tensor as far as the JIT looks at it: a dtype's name, and whether its address is aligned.

    (torch itself would take longer to import than the kernel to compile.)
    """

    def __init__(self, dtype: str, aligned: bool) -> None:
        self.dtype, self.address = f"torch.{dtype}", 16 if aligned else 1

    def data_ptr(self) -> int:
        return self.address


def main(folder: Path) -> None:
    job = json.load(sys.stdin)
    source = folder / "kernels_of_the_job.py"
    source.write_text(HEADER + "\n\n".join(job["sources"]))
    spec = importlib.util.spec_from_file_location(source.stem, source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = getattr(module, job["kernel"])

    target = GPUTarget("cuda", job["capability"], 32)
    compiled = compile_kernel(kernel, target, job)
    stages = {stage: str(compiled.asm[stage]) for stage in ("ttir", "ttgir", "llir", "ptx")}
    cubin = folder / "kernel.cubin"
    cubin.write_bytes(compiled.asm["cubin"])
    stages["sass"] = run("nvdisasm", "-c", cubin)
    result = {"stages": stages, **report_of_ptxas(stages["ptx"], folder)}
    result["shared"] = compiled.metadata.shared
    (folder / "result.json").write_text(json.dumps(result))


def compile_kernel(kernel, target: GPUTarget, job: dict):
    """What `JITFunction.run` does before it launches; Triton has no public name for it."""
    backend = make_backend(target)
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    asked = {"num_warps": job["num_warps"]}
    arguments = [as_argument(argument) for argument in job["arguments"]]
    bound, specialization, options = bind(*arguments, **job["constants"], **asked, debug=False)
    options, signature, constexprs, attributes = kernel._pack_args(
        backend, asked, bound, specialization, options
    )
    source = ASTSource(kernel, signature, constexprs, attributes)
    return triton.compile(source, target=target, options=options.__dict__)


def as_argument(described):
    if isinstance(described, dict):
        return Memory(**described)
    return tuple(map(as_argument, described)) if isinstance(described, list) else described


def report_of_ptxas(ptx: str, folder: Path) -> dict[str, int]:
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    gpu = re.search(r"\.target (\w+)", ptx)[1]
    text = run("ptxas", "-v", f"--gpu-name={gpu}", source, "-o", folder / "again.cubin")
    stack, stores, loads = map(
        int, re.search(r"(\d+) bytes stack frame, (\d+) \D+ (\d+) bytes spill loads", text).groups()
    )
    registers = int(re.search(r"Used (\d+) registers", text)[1])
    return {"registers": registers, "spilled": stores + loads, "stack": stack}


def run(tool: str, *arguments) -> str:
    done = subprocess.run([TOOLS / tool, *arguments], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


if __name__ == "__main__":
    main(Path(sys.argv[1]))
