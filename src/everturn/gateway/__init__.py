"""The gateway: the Messages API with everturn in front, for clients that know nothing about it."""
