"""Texts of 5 to 256 tokens for the demo, in pairs that mean nearly the same."""

from __future__ import annotations

PAIRS: tuple[tuple[str, str], ...] = (
    ("Snow fell.", "It snowed."),
    ("She plays the cello in an orchestra.", "She is a cellist who performs with an orchestra."),
    ("The train to the coast was cancelled.", "No train went to the seaside today."),
    ("Bread rises because yeast makes gas.", "Yeast gives off gas, and that lifts the dough."),
    ("Our cat sleeps on the warm radiator.", "The cat likes to nap where it is warm."),
    ("The bridge closes to cars next month.", "From next month cars may not use the bridge."),
    ("Glaciers carve valleys over millennia.", "Ice shapes valleys very slowly."),
    ("He repaired the bicycle's front wheel.", "The front wheel of the bike was fixed by him."),
    ("The library lends tools as well as books.", "You can borrow a drill from the library."),
    ("Prices of coffee rose after the frost.", "A frost made coffee more expensive."),
    ("The orchard is full of ripe pears.", "Pears are ready to be picked in the orchard."),
    ("A new telescope found water vapour.", "Astronomers detected water with a telescope."),
    ("The committee voted to delay the budget.", "The vote on the budget was postponed."),
    ("Children learned to sail on the lake.", "On the lake, a class taught kids sailing."),
    ("The printer is out of paper again.", "Somebody has to refill the printer with paper."),
    ("Swifts fly for months without landing.", "Some birds stay in the air for months."),
)

# How many of the sentences above one long text joins.
_JOINED = (3, 6, 9, 12, 15, 18, 24, 30)


def all_texts() -> list[str]:
    """The short sentences, then texts that join more and more of them."""
    short = [sentence for pair in PAIRS for sentence in pair]
    turned = short[::2] + short[1::2]
    long = [" ".join((turned * 2)[start : start + n]) for start, n in enumerate(_JOINED)]
    return short + long
