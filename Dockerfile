# SPDX-License-Identifier: Apache-2.0
# detour and its native code, compiled when the image is built. `docker build -t detour . && docker run -it --rm detour`
FROM python:3.12-slim
RUN apt-get update && apt-get install --yes --no-install-recommends make && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home detour
USER detour
WORKDIR /home/detour/detour
COPY --chown=detour:detour . .
ENV PATH=/home/detour/detour/.venv/bin:$PATH
RUN make venv && .venv/bin/detour warm
CMD ["detour", "demo", "--target", "engine"]
