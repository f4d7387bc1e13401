"""Figures: each module has functions from tables to a table, and knows nothing of where the tables come from.

Inputs are the tables of `analytics.truth.Truth` and `analytics.receptions`, or records of one kind. Every result has
`run`; sums and counts are exact, ratios are not rounded. What was not written down is null, and reads n/a.
"""
