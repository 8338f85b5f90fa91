"""Compare the twin with the real API, or with any server that has its paths: `everturn twin verify`."""
