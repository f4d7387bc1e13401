"""The dashboards, as code: `python -m deploy.grafana` writes them to `deploy/grafana/dashboards/`.

panels.py    what a panel, a row and a dashboard are: plain values, and their form in Grafana's JSON
boards.py    what is shown: the four dashboards
"""
