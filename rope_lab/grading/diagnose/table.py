"""All guesses in the order in which they are tried: the first that holds names the mistake.

Several often hold: a sign is a factor of -1, too. So the order decides, by one rule: **what says
more comes first.** What was seen comes before what is guessed, what one exercise knows before what
any kernel may do, the special before the general, and what the numbers show before what only the
case tells.

To add a guess, write a function in the file of its kind. It takes the evidence and returns the
words of the verdict, or None where it does not hold. Enter it below, before the first one that says
less and also holds for this mistake. A wrong answer proves it (`exercises/__init__.py` says where).
"""

from collections.abc import Callable

from . import (
    collisions,
    ignored,
    known_mistake,
    rounding,
    unwritten,
    wrong_angle,
    wrong_factor,
    wrong_norm,
    wrong_order,
    wrong_pairing,
    wrong_position,
    wrong_sign,
    wrong_stride,
)
from .evidence import Evidence

IN_ORDER: tuple[Callable[[Evidence], str | None], ...] = (
    # Seen, not guessed. What was never stored would confuse every comparison below.
    collisions.race,
    unwritten.unwritten,
    # A norm's own: a row of 0/0 is NaN like one that is masked off, another epsilon nearly right.
    wrong_norm.mean_square,
    unwritten.masked_off,
    # Nearly right, so many a guess below would hold.
    rounding.rounding,
    # The exercise's own words: its "dw is 0" would also be an ignored gradient, or a zero.
    known_mistake.known_mistake,
    # One change to the whole result. A sign is also a factor of -1 in the sine's products.
    wrong_sign.sign,
    wrong_order.halves_swapped,
    wrong_order.neighbors_swapped,
    # Tested by another run of the candidate.
    ignored.gradient_ignored,
    ignored.number_ignored,
    # Which angle, from the plainest: a half's for both is also a wrong cosine, and a sine that
    # belongs to the partner is also an angle for each half.
    wrong_angle.half_angles,
    wrong_angle.wrong_sine,
    wrong_angle.an_angle_for_each_half,
    wrong_angle.wrong_cosine,
    wrong_angle.columns_of_the_table,
    # Other weights, pairs and functions, all with the right angles.
    wrong_norm.weights,
    wrong_pairing.pairing,
    wrong_angle.other_function,
    wrong_pairing.members,
    # An input as it came, which may also be a factor of the result. First the one with a reason.
    collisions.changed_and_overwritten,
    ignored.unchanged,
    # The right elements elsewhere, or all times a factor, then some of them times a factor.
    wrong_order.permuted,
    wrong_order.transposed,
    wrong_order.shifted,
    wrong_factor.factor_of_all,
    wrong_factor.factor_in_a_part,
    # A part of each row. A tail of zeros is also a zero.
    unwritten.tail,
    unwritten.zero,
    # Another row or position.
    wrong_position.another_position,
    wrong_position.another_id,
    wrong_position.another_row,
    wrong_stride.strides_exchanged,
    # No guess holds: what else was seen, and then what only the place or the case tells.
    collisions.stored_twice,
    unwritten.rest_of_block,
    wrong_stride.strides_ignored,
    wrong_position.several_sequences,
    wrong_position.longer_table,
)


def kind_of_mistake(evidence: Evidence) -> str:
    """One line: what it looks like, or that it looks like nothing we know."""
    found = (guess(evidence) for guess in IN_ORDER)
    unknown = "no mistake that this check knows: compare the first wrong index by hand"
    return next(filter(None, found), unknown)
