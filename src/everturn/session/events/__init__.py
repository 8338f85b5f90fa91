"""Event sinks: transcript, log, OpenTelemetry, Prometheus. A sink that fails does not fail the turn."""
