"""The report: every table as CSV and Parquet, and one HTML page that needs no network."""
