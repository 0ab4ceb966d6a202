# docker build --build-arg READER_ID=$(id -u) -t rope-kernels .
# mkdir -p my_notebooks
# docker run --rm -it -p 8888:8888 --gpus all \
#     -v "$PWD/my_notebooks:/home/reader/rope_kernels/my_notebooks" rope-kernels
#
# Leave out --gpus all without a GPU. Your copies of the notebooks are in my_notebooks, on your own
# disk. The user in the container has your id (READER_ID), so that it may write there and the files
# are yours. Where the container runs rootless (Podman), root in it is you: add --user 0.
#
# JupyterLab prints an address with a token: open the one that starts with http://127.0.0.1:8888.
FROM debian:bookworm-slim

# The id of the user in the container.
ARG READER_ID=1000

# gcc and Python's headers: Triton compiles a small launcher when a kernel first runs on a GPU.
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        ca-certificates gcc libc6-dev make python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --non-unique --uid "$READER_ID" --no-log-init --create-home --shell /bin/bash reader \
    && install -d -o reader -g reader /home/reader/rope_kernels

USER reader
WORKDIR /home/reader/rope_kernels

# VENV tells the Makefile to use this environment and to make none of its own.
ENV VENV=/home/reader/venv \
    VIRTUAL_ENV=/home/reader/venv \
    PATH=/home/reader/venv/bin:$PATH

# The packages come before the project's own files, so that an edit does not install them again.
# `docker build --build-arg CPU=1` takes the CPU build of torch (see tools/make_environment.sh).
ARG CPU=
COPY --chown=reader:reader pyproject.toml constraints.txt ./
COPY --chown=reader:reader rope_lab/pyproject.toml rope_lab/
RUN python3 -m venv "$VENV" \
    && if [ "${CPU:-0}" != 0 ]; then \
        pip install --no-cache-dir -c constraints.txt uv \
        && uv pip install --no-cache --torch-backend=cpu -c constraints.txt torch; \
    fi \
    && for package in rope_kernels rope_lab rope_lab/compiler rope_lab/figures rope_lab/interpreter \
        rope_lab/judge rope_lab/judge/climb rope_lab/judge/diagnose \
        rope_lab/judge/inspect rope_lab/n00 rope_lab/n01 rope_lab/n02 rope_lab/n03 \
        rope_lab/n04 rope_lab/n05 rope_lab/n06 rope_lab/n07 rope_lab/n08 rope_lab/n09 \
        rope_lab/n10 rope_lab/n11 rope_lab/n12 rope_lab/n13 rope_lab/n14 \
        rope_lab/profiling rope_lab/rungs; do \
        mkdir -p "$package" && touch "$package/__init__.py"; \
    done \
    && touch README.md \
    && pip install --no-cache-dir -c constraints.txt -e '.[test]' -e ./rope_lab

COPY --chown=reader:reader . .

# For NVIDIA's container runtime; without it they mean nothing.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

EXPOSE 8888
CMD ["make", "lab", "LAB_FLAGS=--ip=0.0.0.0 --port=8888 --no-browser"]
