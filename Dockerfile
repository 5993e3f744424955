# The service of `discretion serve`. Mount two volumes: /data with service.yaml and the data (its keys too; it may be read-only),
# and /ledger for what the service remembers (in service.yaml: `ledger: sqlite:////ledger/ledger.db`). docs/online-service.md says more.
# The web app in the same image: mount a folder with users.yaml at /data and run `discretion web --folder /data/projects --host 0.0.0.0 --behind NAME:8080 --users /data/users.yaml
# --tls-certificate /data/tls.crt --tls-key /data/tls.key` with port 8080 published; docs/web.md says more.
FROM python:3.11-slim

COPY pyproject.toml constraints.txt README.md LICENSE /build/
COPY src /build/src
RUN python -m pip install --no-cache-dir --disable-pip-version-check --constraint /build/constraints.txt "/build[online,io,web]"
RUN useradd --uid 10001 --create-home discretion && install --directory --owner discretion --mode 700 /data /ledger

USER 10001
WORKDIR /data
VOLUME ["/data", "/ledger"]
EXPOSE 8000 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["python", "-c", "import socket, ssl, urllib.request as ask\ntry: ask.urlopen('http://127.0.0.1:8000/health')\nexcept OSError:\n  try: ask.urlopen('https://127.0.0.1:8000/health', context=ssl._create_unverified_context())\n  except OSError: socket.create_connection(('127.0.0.1', 8080), 5).close()  # the web app"]
CMD ["discretion", "serve", "/data/service.yaml", "--host", "0.0.0.0", "--port", "8000"]
