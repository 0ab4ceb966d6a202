#!/bin/sh
# Makes .venv with what constraints.txt pins; does nothing if it is there and up to date.
#
#   sh tools/make_environment.sh                      torch with CUDA, 2.8 GB, if there is an NVIDIA
#                                                     GPU; else its CPU build, 0.6 GB, if that is to
#                                                     be had
#   CPU=1 sh tools/make_environment.sh                the CPU build or an error
#   CPU=0 sh tools/make_environment.sh                torch as the registry has it
#   PYTHON=python3.13 sh tools/make_environment.sh    another Python than python3
#   sh tools/make_environment.sh site                 what builds the site, too
#
# make passes CPU and PYTHON on: `make lab CPU=1`.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
cpu=${CPU:-}
log=.venv/install.log

# Written last, so that a half-made environment never counts as done. The first line is the
# checkout's place: an environment knows its own path and does not survive a move.
stamp=.venv/made-from
extras=test
if [ "${1:-}" = site ]; then
    stamp=.venv/made-for-site extras=test,site
fi
wanted=$(pwd -P && cksum pyproject.toml rope_lab/pyproject.toml constraints.txt)

say() { printf '%s\n' "$1"; }
stop() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

there_is_a_gpu() { command -v nvidia-smi >/dev/null 2>&1 || [ -e /dev/nvidiactl ]; }

if [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi

# What a bare machine lacks, before anything is made.
command -v "$python" >/dev/null 2>&1 ||
    stop "$python was not found: \
on Debian or Ubuntu, run 'sudo apt-get install ${python##*/} ${python##*/}-venv'."
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') ||
    stop "$python does not start."
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' ||
    stop "$python is Python $version, and 3.11 to 3.14 are accepted, because the pinned packages \
have no builds for others: install one of these and name it, as in PYTHON=python3.13."
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
    stop "$python cannot make virtual environments: \
on Debian or Ubuntu, run 'sudo apt-get install ${python##*/}-venv'."

if [ "$(head -n 1 .venv/made-from 2>/dev/null)" = "$(pwd -P)" ]; then
    say "Bringing .venv up to date with constraints.txt and both pyproject.toml files."
    rm -f .venv/made-from .venv/made-for-site
else
    say "Making .venv with Python $version."
    "$python" -m venv --clear .venv ||
        stop "$python could not make .venv, for the reason given above."
fi

# pip and uv write some 500 lines: they go to a file, and the last ones are shown on failure.
pip_install() { .venv/bin/python -m pip install -c constraints.txt "$@" >>"$log" 2>&1; }
stop_with_log() {
    tail -n 5 "$log" >&2
    stop "$1"
}

# Where uv can't, pip does all of it: uv has settings of its own, and asks no index that only pip's
# settings name.
uv=".venv/bin/python -m uv pip install --python .venv/bin/python -c constraints.txt"
pip_install uv || uv=false

# uv can take torch alone from PyTorch's own registry. Only torch comes this way, before the rest.
torch_for_cpu="$uv --torch-backend=cpu --no-deps torch"

# Fetches nothing: the download itself may take longer than ten seconds. That download could not be
# tried where this was written, for want of a way to that registry.
registry_answers() { UV_HTTP_RETRIES=0 timeout 10 $torch_for_cpu --dry-run >>"$log" 2>&1; }

case $cpu in
0) ;;
"")
    if [ "$(uname)" = Linux ] && ! there_is_a_gpu; then
        say "Without an NVIDIA GPU the CPU build of torch will do (CPU=0 takes the one with CUDA)."
        { registry_answers && $torch_for_cpu; } ||
            say "PyTorch's own registry does not provide it here, so the build is taken that is \
found elsewhere, usually the one with CUDA."
    fi
    ;;
*)
    $torch_for_cpu >>"$log" 2>&1 ||
        stop_with_log "the CPU build of torch could not be installed, for the reason given above; \
without CPU=1 the build is taken that is found, and any runs on a CPU."
    ;;
esac

say "Now about 120 packages are downloaded and installed: 2.8 GB with CUDA, 0.6 GB without. \
This takes some minutes and prints nothing; $log shows how far it is."
set -- -e ".[$extras]" -e ./rope_lab
# Bytecode, as pip makes it: the tests start a hundred processes that import torch.
$uv --compile-bytecode "$@" >>"$log" 2>&1 || pip_install "$@" ||
    stop_with_log "the packages could not be installed, for the reason given above and in $log; \
the same command starts over and takes finished downloads from the cache."

for made in .venv/made-from "$stamp"; do printf '%s\n' "$wanted" >"$made"; done
say "The environment .venv is ready."
