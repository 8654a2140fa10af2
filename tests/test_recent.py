"""recent.py: what is kept, in which order values are evicted, and how many bytes are counted."""

from random import Random

from remem.recent import Recent


def kept(cache: Recent[str, str]) -> str:
    """The keys in the order in which they would be evicted, without using any of them."""
    return "".join(cache.held)


def test_the_least_recently_used_values_are_evicted() -> None:
    cache = Recent[str, str](6, len)
    for key, value in (("a", "11"), ("b", "22"), ("c", "33")):
        cache.put(key, value)
    assert (kept(cache), cache.held_bytes) == ("abc", 6)
    assert cache.find("a") == "11"  # now b is the oldest
    cache.put("d", "4")
    assert (kept(cache), cache.held_bytes) == ("cad", 5)
    assert cache.find("b") is None
    assert kept(cache) == "cad"


def test_a_value_that_is_put_again_replaces_the_old_one_and_becomes_the_latest() -> None:
    cache = Recent[str, str](6, len)
    cache.put("a", "111")
    cache.put("b", "2")
    cache.put("a", "1")
    assert (kept(cache), cache.held_bytes, cache.find("a")) == ("ba", 2, "1")


def test_a_value_above_the_limit_is_not_kept_and_everything_else_goes_with_it() -> None:
    cache = Recent[str, str](3, len)
    cache.put("a", "1")
    cache.put("b", "2222")
    assert (kept(cache), cache.held_bytes) == ("", 0)
    cache.put("c", "333")
    cache.clear()
    assert (kept(cache), cache.held_bytes, cache.find("c")) == ("", 0, None)


def test_the_count_is_that_of_what_is_held() -> None:
    rng, cache = Random(0), Recent[int, str](40, len)
    for _ in range(2000):
        cache.put(rng.randrange(12), "x" * rng.randrange(12))
        cache.find(rng.randrange(12))
        assert cache.held_bytes == sum(map(len, cache.held.values())) <= 40
