"""Ids, the attribute space, filters, boxes, events and descriptors: frozen values and pure functions."""
