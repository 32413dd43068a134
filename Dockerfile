# The image of brokers, controllers and the command `tank`.
#
#   docker build -t tank-cluster:0.1.0 .
#   docker build --build-arg BASE=localhost/python:3.11-slim ...     on any base with Debian's apt and Python 3.11 or newer
#
# It runs as user 10001 on a read-only root file system, and needs no shell: each process is the container's first one, takes
# SIGTERM, and leaves no children behind.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# Headers come with Docker's Python, but not with Debian's.
RUN headers="$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" \
    && apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev $(test -e "$headers" || echo python3-dev)
WORKDIR /build
RUN python3 -m venv /opt/builder && /opt/builder/bin/pip install --no-cache-dir build
# What the project requires, in a layer of its own: a changed line of the sources doesn't fetch it again.
COPY pyproject.toml ./
RUN python3 -m venv /opt/tank \
    && python3 -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; more = p["optional-dependencies"]; print("\n".join(p["dependencies"] + more["server"] + more["kubernetes"]))' > requirements.txt \
    && /opt/tank/bin/pip install --no-cache-dir --no-compile -r requirements.txt
COPY README.md ./
COPY protos protos
COPY node node
COPY controller controller
COPY client client
COPY spark spark
# `off` leaves the compiled kernel out, which saves minutes of building, and is for trying things.
ARG KERNEL=require
RUN TANK_KERNEL_BUILD=${KERNEL} /opt/builder/bin/python -m build --wheel --outdir /wheel
# Without what nothing here imports. Compiled to bytecode here, because nothing can be written later; by hash, so that the same sources give the same files.
RUN /opt/tank/bin/pip install --no-cache-dir --no-compile --no-deps /wheel/*.whl \
    && /opt/tank/bin/pip uninstall -q -y pip setuptools \
    && find /opt/tank -depth -type d \( -name tests -o -name test -o -name e2e_test \) -path '*/site-packages/*' -exec rm -rf {} + \
    && rm -rf /opt/tank/lib/python3*/site-packages/kubernetes/aio \
    && find /opt/tank \( -name '*.pyi' -o -name '*.c' -o -name '*.pyx' -o -name '*.pxd' \) -path '*/site-packages/*' -delete \
    && find /opt/tank -name '*.so' -exec strip --strip-unneeded {} + \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/tank/lib

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Tank Cluster" \
      org.opencontainers.image.description="A replicated, ordered log for Kubernetes that PySpark jobs read and write" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/tank /opt/tank
ENV PATH=/opt/tank/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=1
USER 10001:10001
WORKDIR /var/lib/tank
EXPOSE 11011 11012 9092 8090 9090 9091
CMD ["tank", "--help"]
