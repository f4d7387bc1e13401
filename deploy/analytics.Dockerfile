# The image of the report: that of a peer, a Java runtime, and Spark.
#
#   docker build -f deploy/analytics.Dockerfile -t peerd-analytics .

ARG PEERD_IMAGE=peerd:local
FROM ${PEERD_IMAGE}
USER root
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless procps >/dev/null \
 && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml /tmp/pyproject.toml
RUN python3 -c 'import tomllib; project = tomllib.load(open("/tmp/pyproject.toml", "rb"))["project"]; \
        print(*project["optional-dependencies"]["analytics"], sep="\n")' > /tmp/requirements.txt \
 && pip --python /opt/peerd/bin/python install -q --no-cache-dir -r /tmp/requirements.txt \
 && rm /tmp/requirements.txt /tmp/pyproject.toml
USER peerd
WORKDIR /tmp
HEALTHCHECK NONE
ENTRYPOINT ["/usr/local/bin/tini", "--", "/opt/peerd/bin/python", "-m", "analytics"]
CMD ["report", "--logs", "/var/log/peerd"]
