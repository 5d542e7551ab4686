"""Goal: a region's formula names the byte that the tensor's strides name, for every order of the
dimensions in memory."""

from __future__ import annotations

import itertools
import random
import unittest

import support
from kvrail.vllm.geometry import GeometryError, Kind, LayerCache, kernel_pages, plan_regions

ELEMENT = 2


def caches(
    order: str, sizes: dict[str, int], *, gap: int = 0, kind: Kind = Kind.KV, tokens: int = 0
) -> list[LayerCache]:
    """Layers that are views of one allocation with its dimensions in `order`, outermost first, as
    vLLM allocates them: l layer, b block, h head, n token, c content. `gap` elements follow each
    l."""
    strides, step = {}, 1
    for dimension in reversed(order):
        strides[dimension] = step + (gap if dimension == "l" else 0)
        step = strides[dimension] * sizes[dimension]
    return [
        LayerCache(
            name=f"layers.{layer}",
            layer=layer,
            group=0,
            kind=kind,
            memory=0,
            offset=64 + layer * strides["l"] * ELEMENT,
            shape=tuple(sizes[d] for d in "bhnc"),
            strides=tuple(strides[d] for d in "bhnc"),
            element_bytes=ELEMENT,
            block_tokens=tokens or sizes["n"],
            head_first=6,
        )
        for layer in range(sizes["l"])
    ]


SIZES = {"l": 3, "b": 5, "h": 2, "n": 4, "c": 8}


class Formula(unittest.TestCase):
    def check(self, layers: list[LayerCache], regions: int) -> None:
        plans = plan_regions(layers)
        self.assertEqual(len(plans), regions)
        for cache in layers:
            (plan,) = (p for p in plans if 0 <= cache.layer - p.layer_first < p.layer_count)
            self.assertEqual(plan.head_bytes, cache.shape[3] * ELEMENT)
            for page, head, token in itertools.product(*(range(size) for size in cache.shape[:3])):
                expected = cache.offset + ELEMENT * sum(
                    i * s for i, s in zip((page, head, token), cache.strides[:3], strict=True)
                )
                self.assertEqual(plan.offset(cache.layer, page, token, 6 + head), expected)

    def test_every_order_with_the_content_innermost(self) -> None:
        for order in itertools.permutations("lbhn"):
            with self.subTest("".join(order)):
                self.check(caches("".join(order) + "c", SIZES), 1)

    def test_random_sizes_and_gaps(self) -> None:
        chance = random.Random(1)
        for _ in range(100):
            order = "".join(chance.sample("lbhn", 4)) + "c"
            sizes = {dimension: chance.randrange(1, 5) for dimension in "lbhnc"}
            self.check(caches(order, sizes, gap=chance.choice((0, 0, 4096))), 1)

    def test_layers_that_are_allocated_apart(self) -> None:
        layers = caches("lbhnc", SIZES)
        apart = [
            LayerCache(**{**fields(cache), "offset": offset})
            for cache, offset in zip(layers, (0, 10_000, 50_000), strict=True)
        ]
        self.check(apart, 2)
        backwards = [
            LayerCache(**{**fields(cache), "offset": offset})
            for cache, offset in zip(layers, (50_000, 10_000, 0), strict=True)
        ]
        self.check(backwards, 3)


def fields(cache: LayerCache) -> dict:
    return {name: getattr(cache, name) for name in cache.__dataclass_fields__}


def changed(cache: LayerCache, **values) -> LayerCache:
    return LayerCache(**{**fields(cache), **values})


class Regions(unittest.TestCase):
    def test_groups_in_the_same_bytes(self) -> None:
        """The hybrid memory allocator: layers 0 to 2 in one group, 3 to 5 in another, one
        memory."""
        first = caches("lbhnc", SIZES)
        second = [changed(c, layer=c.layer + 3, group=1) for c in first]
        plans = plan_regions(second + first)
        self.assertEqual(
            [(p.group, p.layer_first, p.layer_count) for p in plans], [(0, 0, 3), (1, 3, 3)]
        )
        self.assertEqual(plans[0].base, plans[1].base)

    def test_layers_that_take_turns(self) -> None:
        layers = [changed(c, layer=c.layer * 2) for c in caches("lbhnc", SIZES)]
        self.assertEqual([p.layer_first for p in plan_regions(layers)], [0, 2, 4])

    def test_other_heads_are_another_region(self) -> None:
        layers = caches("lbhnc", SIZES)
        layers[2] = changed(layers[2], head_first=8)
        self.assertEqual(len(plan_regions(layers)), 2)

    def test_a_latent(self) -> None:
        cache = changed(
            caches("lbhnc", SIZES)[0],
            kind=Kind.MLA,
            shape=(5, 16, 576),
            strides=(16 * 576, 576, 1),
            block_tokens=16,
            head_first=0,
        )
        (plan,) = plan_regions([cache])
        self.assertTrue(plan.replicated)
        self.assertEqual(
            (plan.page_tokens, plan.head_bytes, plan.token_stride),
            (16, 576 * ELEMENT, 576 * ELEMENT),
        )

    def test_a_state(self) -> None:
        cache = changed(
            caches("lbhnc", SIZES)[0],
            kind=Kind.STATE,
            shape=(5, 1, 1, 100),
            strides=(128, 100, 100, 1),
            block_tokens=0,
        )
        (plan,) = plan_regions([cache])
        self.assertEqual(
            (plan.page_tokens, plan.page_stride, plan.head_bytes), (0, 128 * ELEMENT, 100 * ELEMENT)
        )
        (plan,) = plan_regions([changed(cache, head_first=3)])
        self.assertEqual((plan.head_first, plan.head_count), (3, 1), "a rank's part of the state")

    def test_a_block_of_several_kernel_blocks(self) -> None:
        (plan,) = plan_regions(caches("lbhnc", SIZES, tokens=12))
        self.assertEqual((plan.page_tokens, plan.pages_of_a_block), (4, 3))
        self.assertEqual(kernel_pages([2, 0], 3), [6, 7, 8, 0, 1, 2])
        self.assertEqual(kernel_pages([2, 0], 1), [2, 0])

    def test_what_the_formula_cannot_say(self) -> None:
        good = caches("lbhnc", SIZES)[0]
        for values, words in (
            ({"strides": (64, 32, 1, 4)}, "side by side"),
            ({"shape": (2, 5, 4, 2, 8), "strides": (1, 1, 1, 1, 1)}, "is not [block, head"),
            ({"block_tokens": 10}, "whole pages"),
            ({"kind": Kind.MLA}, "one head"),
            ({"kind": Kind.STATE, "strides": (64, 16, 9, 1)}, "side by side"),
        ):
            with self.subTest(words), self.assertRaises(GeometryError) as caught:
                plan_regions([changed(good, **values)])
            self.assertIn(words, str(caught.exception))
            self.assertIn("layers.0", str(caught.exception))

    def test_too_many(self) -> None:
        good = caches("lbhnc", SIZES)[0]
        with self.assertRaises(GeometryError):
            plan_regions(changed(good, layer=2 * number) for number in range(513))


if __name__ == "__main__":
    support.main(__file__)
