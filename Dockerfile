# Two images:
#
#     docker build --target service   -t delayline:0.2.0 .             # serve, api, worker, proxy kafka
#     docker build --target reconcile -t delayline-reconcile:0.2.0 .   # the reconcile job, with the Java it needs
#
# .dockerignore limits the context to the program and its pinned requirements.

FROM python:3.11.14-slim-bookworm AS python
ENV PATH=/opt/delayline/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
# A number, by which Kubernetes sees that it is not root (runAsNonRoot).
RUN useradd --uid 10001 --user-group --no-log-init --home-dir /var/lib/delayline --create-home delayline

FROM python AS build
RUN python -m venv /opt/delayline
WORKDIR /src
COPY requirements/ requirements/

FROM build AS build-service
RUN pip install --require-hashes -r requirements/kafka.txt
COPY . .
RUN pip install --no-deps --no-build-isolation .

FROM build AS build-reconcile
RUN pip install --require-hashes -r requirements/reconcile.txt
COPY . .
RUN pip install --no-deps --no-build-isolation .

FROM python AS reconcile
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build-reconcile /opt/delayline /opt/delayline
# Spark starts Python workers with it, from any folder.
ENV PYSPARK_PYTHON=/opt/delayline/bin/python
# With it a run starts with two thirds of the CPU time.
RUN delayline reconcile prepare
USER 10001:10001
WORKDIR /var/lib/delayline
ENTRYPOINT ["delayline"]
CMD ["reconcile", "--help"]

# The last stage, so `docker build .` makes this one.
FROM python AS service
COPY --from=build-service /opt/delayline /opt/delayline
ENV DELAYLINE_DATA_DIR=/var/lib/delayline/data
USER 10001:10001
WORKDIR /var/lib/delayline
ENTRYPOINT ["delayline"]
CMD ["serve"]
