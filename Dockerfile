# The HTTP service: `docker build -t ttopt . && docker run --rm --name ttopt -p 8000:8000 ttopt`, and
# `docker exec ttopt ttopt keys add me` for a key, which everybody needs: in a container nobody is on the same machine.
# It needs no writable disk but /tmp and its volume: add `--read-only --tmpfs /tmp --cap-drop ALL`, and
# `-v ttopt:/var/lib/ttopt` so that jobs outlive the container.
FROM python:3.12-slim AS build
WORKDIR /src
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY optimizer optimizer
COPY api api
RUN python -m venv /opt/ttopt \
    && /opt/ttopt/bin/python -m pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt ".[postgres]" \
    && /opt/ttopt/bin/python -m compileall -q /opt/ttopt/lib

FROM python:3.12-slim
COPY --from=build /opt/ttopt /opt/ttopt
RUN install -d -o 10001 -g 10001 /var/lib/ttopt
ENV PATH=/opt/ttopt/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    TTOPT_STORE=sqlite:////var/lib/ttopt/jobs.sqlite TTOPT_KEYS=always TTOPT_LOG=json,time,service=info
VOLUME /var/lib/ttopt
USER 10001:10001
WORKDIR /tmp
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["ttopt", "serve", "--host", "0.0.0.0", "--port", "8000"]
