"""The daemon and everything around it: network, simulator, HTTP API, command line."""

__version__ = "0.1.0"
