"""Reachability, for the invariants that ask whether something is connected."""


def component(edges: dict[int, list[int]]) -> set[int]:
    """All nodes that the first one reaches."""
    if not edges:
        return set()
    first = next(iter(edges))
    reached, frontier = {first}, [first]
    while frontier:
        for other in edges[frontier.pop()]:
            if other not in reached:
                reached.add(other)
                frontier.append(other)
    return reached
