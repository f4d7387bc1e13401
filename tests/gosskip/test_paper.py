"""One test per statement of the paper that can be checked (GosSkip, Guerraoui et al. 2006), in the paper's order."""

from math import ceil, log2

import pytest

from peerd.sim.swarm import Swarm
from protocols.gosskip.levels import Levels
from protocols.gosskip.messages import Forwarded, Gossip, Hop, Ranges, Serve
from protocols.gosskip.order import Dictionary
from protocols.model.descriptor import Descriptor
from protocols.model.lint import compile_filter
from protocols.model.schema import Attribute, Schema
from protocols.overlay import Message, Received
from tests.gosskip.scene import NUMBERS, Scene, box, descriptor, points

EXAMPLE_1 = {
    "f1": "class = 'weather' AND country = 'Switzerland' AND city = 'Geneva'",
    "f2": "class = 'auctions' AND category = 'vehicle' AND type = 'cars' AND year = 2003",
    "f3": "class = 'auctions' AND category = 'vehicle' AND type = 'cars' AND year = 2002",
    "f4": "class = 'weather' AND country = 'France' AND city = 'Paris'",
}
AGREED = ("class", "category", "type", "year", "country", "city")

# --- Section 2: the dictionary ----------------------------------------------------------------------------------------


def dictionary_of_example_1() -> tuple[Dictionary, dict[str, Descriptor]]:
    attributes = [Attribute(name, "string") for name in AGREED if name != "year"]
    schema = Schema((*attributes, Attribute("year", "int", 1900, 2100)))
    boxes = {name: compile_filter(text, schema).boxes[0] for name, text in EXAMPLE_1.items()}
    return Dictionary(schema, AGREED), {name: descriptor(name, of) for name, of in boxes.items()}


def test_example_1_yields_f3_f2_f4_f1() -> None:
    dictionary, filters = dictionary_of_example_1()
    assert sorted(filters, key=lambda name: dictionary.spot(filters[name]).key) == ["f3", "f2", "f4", "f1"]


def test_peers_agree_on_the_order_of_the_predicates_by_name_unless_told_otherwise() -> None:
    schema = Schema((Attribute("b", "int", 0, 9), Attribute("a", "int", 0, 9)))
    low_b = descriptor("p", compile_filter("a = 2 AND b = 1", schema).boxes[0])
    low_a = descriptor("q", compile_filter("a = 1 AND b = 2", schema).boxes[0])
    by_name, as_told = Dictionary(schema), Dictionary(schema, ("b", "a"))
    assert by_name.spot(low_a).key < by_name.spot(low_b).key
    assert as_told.spot(low_b).key < as_told.spot(low_a).key


# --- Section 3.1: construction ----------------------------------------------------------------------------------------


def test_there_may_be_several_filters_per_physical_node() -> None:
    scene = Scene()
    node = scene.swarm.start([scene.interest(box((3, 3), (0, 0))), scene.interest(box((9, 9), (0, 0)))])
    scene.nodes.append(node)
    scene.add(box((5, 5), (0, 0)))
    scene.settle()
    assert [place.spot.descriptor.box.lo[0] for place in scene.places()] == [3, 5, 9]


def test_figure_1_neighbours_of_five_nodes() -> None:
    """Node 1 and 2 are level-0 neighbours, node 1 and 3 level-1 neighbours, node 1 and 5 level-2 neighbours."""
    scene = Scene(points([10, 20, 30, 40, 50]))
    one, two, three, _, five = scene.places()
    assert one.chain.right is not None
    assert one.chain.right.id == two.spot.id
    assert one.levels.right[1].spot.id == three.spot.id
    assert three.levels.left[1].spot.id == one.spot.id
    assert one.levels.right[2].spot.id == five.spot.id
    assert set(one.levels.right) == {1, 2}


def levels_of_five(k: int = 2) -> tuple[Levels, list[Descriptor]]:
    """The levels of the third of five places."""
    dictionary = Dictionary(NUMBERS)
    all_five = [descriptor(f"n{value}", of) for value, of in zip(range(1, 6), points([10, 20, 30, 40, 50]))]
    return Levels(dictionary.spot(all_five[2]), dictionary, k, 1_000, 3), all_five


def test_figure_2_a_an_entry_whose_counter_is_k_minus_1_becomes_a_neighbour_and_goes_no_further() -> None:
    levels, (one, two, *_) = levels_of_five()
    levels.receive(0, Gossip(0, 0, two, (Forwarded(one, 1),)))
    assert levels.left[1].spot.descriptor == one
    passed_on = levels.emit(0, 0, levels.left[1].spot)
    assert passed_on.entries == (Forwarded(two, 1),)


def test_figure_2_a_an_entry_with_counter_0_is_a_neighbour_of_its_level_but_not_of_level_0() -> None:
    levels, (_, two, _, _, five) = levels_of_five()
    levels.receive(0, Gossip(0, 0, two, ()))
    assert not levels.left
    levels.receive(0, Gossip(0, 1, five, ()))  # odd: it comes from the right
    assert levels.right[1].spot.descriptor == five
    assert not levels.left


def test_figure_2_a_other_counters_are_raised_and_passed_on() -> None:
    levels, (one, two, *_) = levels_of_five(k=3)
    levels.receive(0, Gossip(0, 0, two, (Forwarded(one, 1),)))
    neighbour = Dictionary(NUMBERS).spot(two)
    assert levels.emit(0, 0, neighbour).entries == (Forwarded(two, 1), Forwarded(one, 2))


def test_figure_2_b_a_message_has_the_senders_own_entry() -> None:
    levels, (_, two, three, *_) = levels_of_five()
    message = levels.emit(0, 0, Dictionary(NUMBERS).spot(two))
    assert (message.level, message.place) == (0, three)


class Ear:
    """Listens to what is received in a swarm."""

    def __init__(self, swarm: Swarm, *types: type[Message]) -> None:
        self.heard: list[tuple[int, str, Message]] = []  # when, by whom, what
        for node in swarm.live.values():
            self._listen(node, types)

    def _listen(self, node: object, types: tuple[type[Message], ...]) -> None:
        peer = node.peer  # type: ignore[attr-defined]
        handle = peer.handle

        def listening(now_ms: int, item: object) -> object:
            if isinstance(item, Received) and isinstance(item.message, types):
                self.heard.append((now_ms, peer.me.peer, item.message))
            return handle(now_ms, item)

        node.peer = _Listening(peer, listening)  # type: ignore[attr-defined]


class _Listening:
    def __init__(self, peer: object, handle: object) -> None:
        self._peer = peer
        self.handle = handle

    def __getattr__(self, name: str) -> object:
        return getattr(self._peer, name)


def gossip_of(scene: Scene, for_ms: int) -> list[tuple[str, Gossip]]:
    ear = Ear(scene.swarm, Gossip)
    scene.swarm.run(for_ms)
    return [(peer, message) for _, peer, message in ear.heard if isinstance(message, Gossip)]


@pytest.mark.parametrize("k", [2, 3])
def test_the_size_of_a_message_is_limited_to_k_entries_whatever_the_size_of_the_network(k: int) -> None:
    largest = []
    for count in (6, 18):
        scene = Scene(points(range(0, 10 * count, 10)), k=k)
        largest.append(max(1 + len(message.entries) for _, message in gossip_of(scene, 10_000)))
    assert largest == [k, k]


def test_even_levels_go_right_and_odd_levels_left() -> None:
    scene = Scene(points(range(0, 120, 10)))
    position = {place.spot.address.peer: at for at, place in enumerate(scene.places())}
    heard = gossip_of(scene, 10_000)
    assert {message.level for _, message in heard} >= {0, 1, 2, 3}
    for receiver, message in heard:
        distance = position[receiver] - position[message.place.address.peer]
        assert distance == (-1) ** message.level * 2**message.level


def test_the_period_of_a_level_grows_with_it() -> None:
    """Figure 2 (b): for each t·(l+1) seconds."""
    scene = Scene(points(range(0, 170, 10)), profile="paper")
    heard = gossip_of(scene, 60_000)
    for level, links in ((0, 16), (1, 15), (2, 13), (3, 9)):
        count = sum(message.level == level for _, message in heard)
        assert count == pytest.approx(links * 60 / (level + 1), rel=0.05)


@pytest.mark.parametrize("count", [5, 12, 33])
def test_the_number_of_links_is_bounded_by_twice_the_logarithm(count: int) -> None:
    scene = Scene(points(range(0, 10 * count, 10)))
    assert max(len(place.links()) for place in scene.places()) <= 2 * ceil(log2(count))


def test_additional_links_are_constructed_as_the_system_grows() -> None:
    scene = Scene(points(range(0, 60, 10)))
    before = max(place.levels.top() for place in scene.places())
    for of in points(range(5, 225, 10)):
        scene.add(of)
    scene.settle()
    assert (before, max(place.levels.top() for place in scene.places())) == (2, 4)


def test_in_a_perfect_skip_list_a_level_h_pointer_traverses_2_to_the_h_nodes() -> None:
    """Footnote 1. (The checker `skip_list_perfect` says so of every swarm that has converged.)"""
    scene = Scene(points([7, 3, 9, 1, 5, 8, 2, 6, 4]))
    places = scene.places()
    for at, place in enumerate(places):
        for level, held in place.levels.right.items():
            assert held.spot.id == places[at + 2**level].spot.id


# --- Section 3.3: joining and leaving ---------------------------------------------------------------------------------


def test_a_joining_peer_is_inserted_where_the_order_is_preserved() -> None:
    scene = Scene(points([10, 20, 40]))
    node = scene.add(box((30, 30), (0, 0)))
    assert scene.swarm.run_until(scene.swarm.all_active, 5_000)
    place = scene.place(node)
    assert place.chain.left is not None
    assert place.chain.right is not None
    assert [s.descriptor.box.lo[0] for s in (place.chain.left, place.spot, place.chain.right)] == [20, 30, 40]


def test_a_joining_peer_has_no_long_links_at_first_and_is_gradually_integrated() -> None:
    scene = Scene(points([10, 20, 40, 50]))
    node = scene.add(box((30, 30), (0, 0)))
    assert scene.swarm.run_until(lambda: node.peer.ready, 5_000, every_ms=5)
    assert not scene.place(node).levels.spots()
    scene.settle()
    assert len(scene.place(node).levels.spots()) == 2


@pytest.mark.parametrize("crashes", [False, True])
def test_when_a_peer_goes_the_peers_besides_it_are_linked(crashes: bool) -> None:
    scene = Scene(points([10, 20, 30]))
    (scene.swarm.crash if crashes else scene.swarm.leave)(scene.nodes[1])
    scene.settle()
    one, three = scene.places()
    assert one.chain.right is not None
    assert one.chain.right.id == three.spot.id


# --- Section 3.4: routing ---------------------------------------------------------------------------------------------


def test_an_event_is_routed_to_the_matching_peer_and_seen_by_few_others() -> None:
    scene = Scene(points(range(0, 330, 10)), profile="paper")
    got = scene.publish(scene.nodes[-1], x=40, y=0)
    assert set(got) == {scene.nodes[4].index}
    assert scene.swarm.oracle.receptions["unwanted"] <= ceil(log2(33))


def test_matching_peers_are_contiguous_and_all_get_the_event() -> None:
    scene = Scene(points([10, 20, 20, 20, 30, 40]))
    assert set(scene.publish(scene.nodes[5], x=20, y=0)) == {node.index for node in scene.nodes[1:4]}


def test_an_event_that_nobody_wants_is_garbage_collected() -> None:
    scene = Scene(points([10, 20, 30, 40]))
    assert scene.publish(scene.nodes[0], x=25, y=0) == {}
    assert scene.swarm.oracle.dropped == {}
    before = scene.sent(Hop, Serve)
    scene.swarm.run(5_000)
    assert scene.sent(Hop, Serve) == before


def test_hops_only_approach_the_place_of_the_event() -> None:
    scene = Scene(points(range(0, 330, 10)), profile="paper")
    position = {place.spot.address.peer: at for at, place in enumerate(scene.places())}
    ear = Ear(scene.swarm, Hop)
    for x, publisher, end in ((45, 30, 5), (45, 2, 4), (290, 2, 29), (160, 31, 17)):
        ear.heard.clear()
        scene.publish(scene.nodes[publisher], x=x, y=0)
        way = [position[peer] for _, peer, _ in ear.heard]
        distances = [abs(at - x / 10) for at in way]
        assert distances == sorted(distances, reverse=True)
        assert way[-1] == end


def test_an_event_ends_at_a_close_peer_from_whichever_side_it_comes() -> None:
    """ "Either one of the matching peers if any, or a close peer": both beside it know who wants it."""
    scene = Scene([*points(range(0, 330, 10)), box((35, 47))], profile="paper")
    owner, ear = scene.nodes[-1], Ear(scene.swarm, Hop)
    for publisher, end in ((30, 5), (1, 4)):
        ear.heard.clear()
        assert set(scene.publish(scene.nodes[publisher], x=45, y=0)) == {owner.index}
        assert ear.heard[-1][1] == scene.nodes[end].address.peer
        assert scene.publish(scene.nodes[publisher], x=48, y=0) == {}
        assert ear.heard[-1][1] == scene.nodes[end].address.peer


def test_a_publisher_whom_nobody_listens_to_is_given_a_proxy_filter() -> None:
    scene = Scene(points([10, 20, 30, 40]), proxy_after=3)
    publisher = scene.nodes[0]
    for x in (21, 22, 23):
        scene.publish(publisher, x=x, y=0)
    before = scene.sent(Hop)
    scene.publish(publisher, x=25, y=0)
    assert scene.sent(Hop) == before
    assert scene.publish(publisher, x=30, y=0)


# --- Section 3.5: ranges ----------------------------------------------------------------------------------------------


def test_a_range_is_known_at_the_peers_between_its_ends_and_at_the_first_beyond() -> None:
    scene = Scene([*points([10, 20, 30, 40, 50, 60]), box((20, 40))])
    owner = scene.place(scene.nodes[6]).spot.id
    knowing = [place.spot.descriptor.box.lo[0] for place in scene.places() if owner in place.known]
    assert knowing == [20, 30, 40, 50]


def test_the_subscriber_of_a_range_joins_as_one_of_its_lower_end() -> None:
    scene = Scene([*points([10, 20, 30]), box((20, 25))])
    places = scene.places()
    assert [place.spot.descriptor.box.lo[0] for place in places] == [10, 20, 20, 30]
    assert places[1] is scene.place(scene.nodes[3])  # a word comes before those that it begins


def test_an_event_in_the_range_is_forwarded_to_the_peer_in_the_routing_entry() -> None:
    scene = Scene([*points([10, 20, 30, 40, 50]), box((15, 45))])
    assert set(scene.publish(scene.nodes[0], x=40, y=0)) == {scene.nodes[3].index, scene.nodes[5].index}
    assert set(scene.publish(scene.nodes[0], x=44, y=0)) == {scene.nodes[5].index}
    assert scene.publish(scene.nodes[0], x=46, y=0) == {}


def test_a_range_is_active_long_before_a_gossip_period_per_peer() -> None:
    """The special message does not ride on the gossip, which would take a period for each of these 20 peers."""
    scene = Scene(points(range(0, 400, 20)))
    start_ms = scene.swarm.now_ms
    scene.add(box((1, 399)))
    assert scene.swarm.run_until(scene.swarm.all_active, 20_000, every_ms=10)
    assert scene.swarm.now_ms - start_ms < 3_000
    assert scene.sent(Ranges) >= 19


def test_a_trailing_wildcard_is_a_range() -> None:
    scene = Scene([*points([10, 20, 30]), box((20, 20), None)])
    owner = scene.nodes[3]
    assert set(scene.publish(scene.nodes[0], x=20, y=700)) == {owner.index}
    assert scene.publish(scene.nodes[0], x=21, y=700) == {}


def test_a_wildcard_in_the_middle_is_an_entry_that_tests_the_rest() -> None:
    schema = Schema([Attribute(name, "int", 0, 9) for name in ("a", "b", "c")])
    wildcard = compile_filter("a = 3 AND c BETWEEN 5 AND 6", schema).boxes[0]
    others = [compile_filter(f"a = 3 AND b = {b} AND c = 5", schema).boxes[0] for b in (2, 4, 6)]
    scene = Scene([wildcard, *others], schema=schema, attribute_order="a,b,c")
    before = scene.sent(Serve)
    assert set(scene.publish(scene.nodes[2], a=3, b=7, c=5)) == {scene.nodes[0].index}
    assert scene.sent(Serve) == before + 1
    assert scene.publish(scene.nodes[2], a=3, b=7, c=7) == {}
    assert scene.sent(Serve) == before + 1  # tested at the entry: nobody is sent what it does not want


def test_a_leading_wildcard_stands_in_a_list_of_its_own() -> None:
    scene = Scene([*points([10, 20, 30]), box(None, (500, 510))])
    lists = [place.spot.list for place in scene.places()]
    assert len(set(lists)) == 2
    assert set(scene.publish(scene.nodes[0], x=999, y=505)) == {scene.nodes[3].index}
    assert set(scene.publish(scene.nodes[3], x=20, y=0)) == {scene.nodes[1].index}


def test_filters_of_one_peer_are_merged_into_one_copy() -> None:
    """Filter merging and covering: however many of a peer's filters hold an event, one copy is sent to it."""
    scene = Scene(points([10, 200, 300]))
    node = scene.swarm.start([scene.interest(box((100, 400))), scene.interest(box((110, 390)))])
    scene.nodes.append(node)
    scene.settle()
    assert len(node.peer.participants) == 2
    before = scene.sent(Serve)
    assert set(scene.publish(scene.nodes[0], x=250, y=50)) == {node.index}
    assert scene.sent(Serve) == before + 1


def test_a_filter_that_another_one_of_its_peer_covers_is_no_entry_of_its_own() -> None:
    scene = Scene(points([10, 200, 300]))
    node = scene.add(box((100, 400)))
    scene.settle()
    entries = [len(place.known) for place in scene.places()]
    scene.swarm.subscribe(node, scene.interest(box((110, 390))))
    assert scene.swarm.all_active()
    scene.settle()
    assert [len(place.known) for place in scene.places()] == entries
