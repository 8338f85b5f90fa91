"""Where events go: transcript, logs, OpenTelemetry, Prometheus; a sink that fails costs nobody a turn."""
