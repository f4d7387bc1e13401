"""Image, Compose parts, Prometheus, Grafana, Kubernetes, systemd: what runs peers. See docs/testbed.md."""
