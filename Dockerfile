# docker build --build-arg READER_ID=$(id -u) -t rope-kernels .
# mkdir -p my_notebooks
# docker run --rm -it -p 8888:8888 --gpus all \
#     -v "$PWD/my_notebooks:/home/reader/rope_kernels/my_notebooks" rope-kernels
#
# Without a GPU, omit --gpus all. Your copies of the notebooks are in my_notebooks, on your own disk.
# The user in the container has your user id (READER_ID), so that it can write there and you own the
# files. In a rootless container (Podman), root has your user id: add --user 0.
#
# JupyterLab prints addresses with a token. Open the one that starts with http://127.0.0.1:8888.
FROM python:3.13-slim

# The user id in the container.
ARG READER_ID=1000

# Triton needs gcc to compile a small launcher when a kernel first runs on a GPU. Tests call git.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc git libc6-dev make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --non-unique --uid "$READER_ID" --no-log-init --create-home --shell /bin/bash reader \
    && install -d -o reader -g reader /home/reader/rope_kernels

USER reader
WORKDIR /home/reader/rope_kernels

# VENV makes the Makefile use this environment instead of creating one.
ENV VENV=/home/reader/venv \
    VIRTUAL_ENV=/home/reader/venv \
    PATH=/home/reader/venv/bin:$PATH

# Packages are installed before the project's files are copied, so that an edit doesn't install them
# again. `docker build --build-arg CPU=1` installs the CPU build of torch.
ARG CPU=
COPY --chown=reader:reader pyproject.toml constraints.txt ./
RUN python3 -m venv "$VENV" \
    && pip install --no-cache-dir -c constraints.txt uv \
    && if [ "${CPU:-0}" != 0 ]; then \
        uv pip install --no-cache --torch-backend=cpu -c constraints.txt torch; \
    fi \
    && uv pip install --no-cache --compile-bytecode -c constraints.txt \
        -r pyproject.toml --extra lab --extra test

COPY --chown=reader:reader . .
RUN pip install --no-cache-dir --no-deps -e .

# NVIDIA's container runtime reads these variables.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

EXPOSE 8888
CMD ["make", "lab", "LAB_FLAGS=--ip=0.0.0.0 --port=8888 --no-browser"]
